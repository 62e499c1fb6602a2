"""Bytes thrown at a real sidecar's socket: a recorded call with seeded faults in it, and ten
thousand connections. The others do not notice, and nothing of it stays.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import grpc
import psutil
import pytest

from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server import grpc_server
from gapless.sidecar.server.grpc_server import STRANGERS_MAX
from tests.sidecar.helpers import (
    HOST,
    PATIENCE_S,
    SCHEMA,
    Caller,
    Running,
    attach,
    error_of,
    frame_of,
    read_until,
    said,
    sidecar,
    table_of,
)
from tests.sidecar.test_commands import process

SEED = 9
THROWN = 200
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
CONNECTS = 10_000
BATCH = 50
"""Connections that are open at once."""
MEMORY_SLACK = 16 << 20
"""Less than 2 KB for each of the connections, and each has had more."""


class Recorder:
    """Stands between a client and a sidecar, and keeps what the client says."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listening.getsockname()[1]}"
        self.bytes = bytearray()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        client, _ = self._listening.accept()
        with client, socket.create_connection((HOST, self._to)) as server:
            back = threading.Thread(
                target=_pump, args=(server, client, lambda _: None), daemon=True
            )
            back.start()
            _pump(client, server, self.bytes.extend)
            back.join(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        self._listening.close()


def _pump(one: socket.socket, other: socket.socket, keep: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            keep(data)
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


def mutated(recorded: bytes, draw: random.Random) -> bytes:
    """The same with some bytes changed, taken away, repeated, or put in; often only behind the
    preface, so that what follows is looked at.
    """
    first = draw.choice([0, len(PREFACE), len(PREFACE), len(recorded) // 2])
    data = bytearray(recorded)
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(min(first, len(data) - 1), len(data))
        match draw.randrange(4):
            case 0:
                data[at] = draw.randrange(256)
            case 1:
                del data[at : at + draw.randint(1, 32)]
            case 2:
                data[at:at] = data[at : at + draw.randint(1, 64)]
            case _:
                data[at:at] = draw.randbytes(draw.randint(1, 16))
        data = data or bytearray(b"\0")
    return bytes(data)


def throw(port: int, data: bytes) -> int:
    """Says it, hears what is answered until the other end is done or silent; how much that was."""
    heard = 0
    with suppress(OSError), socket.create_connection((HOST, port)) as connected:
        connected.settimeout(0.02)
        connected.sendall(data)
        while answer := connected.recv(1 << 16):
            heard += len(answer)
    return heard


def test_a_recorded_call_with_faults_in_it_harms_nobody(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with (
        sidecar(tmp_path) as one,
        Producer(one.address, "s", "a", SCHEMA) as a,
        Consumer(one.address, "s", start="earliest") as consumer,
    ):
        with Recorder(one.port) as recorder, Caller(recorder.address) as caller:
            caller.push(
                attach("recorded"),
                said("ins((A,7),6,20) adj((A,7),6,20,30) stable(10)"),
                said("ins((B,8),12,20) stable(13)", 2),
            )
        recorded = bytes(recorder.bytes)
        assert recorded.startswith(PREFACE)
        assert throw(one.port, recorded) > 100  # as it is, it is understood
        expected = []
        for t in range(1, THROWN + 1):
            throw(one.port, mutated(recorded, draw))
            if t % 20 == 0:
                expected.append(f"ins((A,{t}),{t},{t + 50})")
                a.push(frame_of(f"{expected[-1]} stable({t})"))
        assert a.wait_durable(THROWN, PATIENCE_S)
        assert read_until(consumer, THROWN) == table_of(" ".join(expected))
        one.validate()
        with Caller(one.address) as caller:
            assert caller.status("s").streams[0].divergences == 0


NO_TEXT = "/gapless.v1.Sidecar/Push\x93"


@pytest.mark.parametrize("method", [NO_TEXT, "/gapless.v1.Sidecar/Fly", "/", "/x/y"])
def test_a_method_that_there_is_not_is_unimplemented_and_ends_nobody(
    tmp_path: Path, method: str
) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        with grpc.insecure_channel(one.address) as channel:
            for _ in range(3 * STRANGERS_MAX):
                error = error_of(
                    lambda: channel.unary_unary(method.encode("latin-1"))(b"", timeout=PATIENCE_S)
                )
                assert error.code().name == "UNIMPLEMENTED"
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 10) == table_of("ins((A,7),6,20)")


def test_grpcs_own_server_would_end_and_then_the_sidecar_does_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the test above can fail, and that nobody is left with a sidecar that is deaf."""
    monkeypatch.setattr(grpc_server, "_INNER", ("a name that is gone",))
    one = Running(tmp_path)
    with grpc.insecure_channel(one.address) as channel:
        error_of(lambda: channel.unary_unary(NO_TEXT.encode("latin-1"))(b"", timeout=PATIENCE_S))
    one.ended(PATIENCE_S)


def connect(port: int, connects: int) -> None:
    """So many connections that get as far as HTTP/2's settings, some at once."""
    for _ in range(connects // BATCH):
        batch = [socket.create_connection((HOST, port)) for _ in range(BATCH)]
        for connected in batch:
            connected.settimeout(PATIENCE_S)
            connected.sendall(PREFACE + SETTINGS)
        for connected in batch:
            assert connected.recv(9)[3:4] == b"\x04"  # it says its own settings
            connected.close()


def test_ten_thousand_connects_leave_nothing_behind(tmp_path: Path) -> None:
    with process(tmp_path) as (started, address):
        port = int(address.rpartition(":")[2])
        with Producer(address, "s", "a", SCHEMA) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert a.wait_durable(10, PATIENCE_S)
            server = psutil.Process(started.pid)
            connect(port, 2 * BATCH)  # what is allocated once
            memory, descriptors = server.memory_info().rss, server.num_fds()
            connect(port, CONNECTS)
            a.push(frame_of("ins((B,8),12,20) stable(13)"))
            assert a.wait_durable(13, PATIENCE_S)
            with Consumer(address, "s", start="earliest") as consumer:
                assert read_until(consumer, 13) == table_of("ins((A,7),6,20) ins((B,8),12,20)")
            assert server.memory_info().rss - memory < MEMORY_SLACK
            connect(port, BATCH)  # by then it has seen that the others are gone
            assert server.num_fds() <= descriptors + 2 * BATCH
