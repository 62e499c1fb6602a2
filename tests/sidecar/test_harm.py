"""Peers that mean harm, or are out of order: whatever they do, the others read all, and only they
are stopped.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.subscribe_call import SubscribeCall
from gapless.sidecar.server.throttle import BURST_S, TokenBucket
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

CONNECTS = 300
FLOOD = 2000


def rows(first: int, behind: int) -> str:
    return " ".join(f"ins((A,{t}),{t},{t + 5})" for t in range(first, behind))


def test_who_never_reads_is_a_cursor_and_holds_nobody_up(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("stable(1)"))
        assert a.flush()
        with Caller(one.address) as stuck:
            unread = stuck.subscribe(pb.SubscribeRequest(stream="s", edge=pb.EDGE_BEGIN))
            for t in range(1, 400):
                a.push(frame_of(f"{rows(1000 * t, 1000 * t + 200)} stable({1000 * t})"))
            with Consumer(one.address, "s", start="earliest") as consumer:
                assert len(read_until(consumer, 399_000)) == 399 * 200

            def kept() -> list[int]:
                users = one.server.registry.streams["s"]._subscribers.values()
                return [len(user._emits) for user in users if isinstance(user, SubscribeCall)]

            assert max(one.on_loop(kept)) <= 1
            assert next(unread).subscribed.sidecar  # it was there all the time


def test_who_floods_is_taken_in_no_faster_than_it_may_and_loses_nothing(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        frames = [said(f"{rows(t, t + 1)} stable({t})", t) for t in range(1, FLOOD + 1)]
        replies = caller.push(attach(), *frames)
        assert replies[-1].ack.sequence == FLOOD
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, FLOOD) == table_of(rows(1, FLOOD + 1))


def test_a_pace_lets_a_burst_pass_and_then_holds() -> None:
    pace = TokenBucket(100.0)
    assert pace.spend(100 * BURST_S, now_s=0.0) == 0
    assert pace.spend(50, now_s=0.0) == pytest.approx(0.5)
    assert pace.spend(50, now_s=1.0) == 0
    assert pace.spend(1000, now_s=100.0) == pytest.approx(9.0)


@pytest.mark.parametrize("stall_s", [0.4, 1.0, 3.0])
def test_who_is_paced_is_at_its_pace_again_after_a_stall(stall_s: float) -> None:
    """In virtual time: a sender of all it may, in portions, who is stopped for a while."""
    pace, now_s, sent = TokenBucket(1_000.0), 0.0, [0.0]
    while now_s < 5:
        now_s += pace.spend(37, now_s) + 0.001
    now_s += stall_s
    back_s = now_s
    while now_s < back_s + 10:
        now_s += pace.spend(37, now_s) + 0.001
        sent.append(now_s)
    assert 37 * (len(sent) - 1) / 10 == pytest.approx(1_000, rel=0.12)
    last = [t for t in sent if t > back_s + 5]
    assert 37 * len(last) / 5 == pytest.approx(1_000, rel=0.05)


def test_connections_that_say_nothing_sensible_are_nothing(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        sockets = []
        for i in range(CONNECTS):
            connected = socket.create_connection((HOST, one.port))
            if i % 3:
                connected.sendall(b"\x16\x03\x01" * 20 if i % 2 else b"GET / HTTP/1.1\r\n\r\n")
            sockets.append(connected)
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 10) == table_of("ins((A,7),6,20)")
        for connected in sockets:
            connected.close()


@pytest.mark.parametrize(
    ("limits", "told"),
    [(Limits(calls_max=2), "2 calls of"), (Limits(peer_calls_max=2), "from ipv4:127.0.0.1 are")],
)
def test_more_calls_than_there_may_be_are_refused(
    limits: Limits, told: str, tmp_path: Path
) -> None:
    with (
        sidecar(tmp_path, limits=limits) as one,
        Producer(one.address, "s", "a", SCHEMA) as a,
        Caller(one.address) as caller,
    ):
        a.push(frame_of("stable(3)"))
        assert a.flush()
        open_calls = [caller.subscribe(pb.SubscribeRequest(stream="s")) for _ in range(2)]
        for call in open_calls:
            next(call)
        error = error_of(lambda: next(caller.subscribe(pb.SubscribeRequest(stream="s"))))
        assert error.code().name == "RESOURCE_EXHAUSTED"
        assert told in error.details()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sidecar(tmp_path_factory.mktemp("fuzzed")) as one:
        yield one


def _any(data: bytes) -> bytes:
    return data


frames = st.builds(
    pb.Frame,
    sequence=st.integers(0, 4),
    encoding=st.sampled_from([pb.ENCODING_ARROW, pb.ENCODING_MSGPACK]),
    body=st.binary(max_size=64) | st.just(said("ins((A,7),6,20)").frame.body),
    crc32=st.none() | st.integers(0, 2**32 - 1),
    stable=st.none() | st.integers(-(2**63), 2**63 - 1),
)
requests = st.one_of(
    st.builds(lambda frame: pb.PushRequest(frame=frame).SerializeToString(), frames),
    st.builds(
        lambda name, number, join_at, tail: attach(
            "s", name, number, join_at=join_at, tail_frames=tail
        ).SerializeToString(),
        st.sampled_from(["a", "b", "", "x/y"]),
        st.integers(0, 2**64 - 1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 3),
    ),
    st.just(pb.PushRequest(detach=pb.Detach()).SerializeToString()),
    st.binary(max_size=40),
)
ENDS = {
    "OK",
    "INVALID_ARGUMENT",
    "DATA_LOSS",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(messages=st.lists(requests, max_size=6))
def test_whatever_is_pushed_ends_with_a_code_and_leaves_the_sidecar_sound(
    fuzzed: Running, messages: list[bytes]
) -> None:
    with grpc.insecure_channel(fuzzed.address) as channel:
        call = channel.stream_stream("/gapless.v1.Sidecar/Push", _any, pb.PushReply.FromString)
        try:
            list(call(iter(messages), timeout=30))
            end = "OK"
        except grpc.RpcError as e:
            end = e.code().name
    assert end in ENDS
    fuzzed.validate()


class Gone:
    """A call whose caller goes before the n-th delivery."""

    def __init__(self, takes: int, request: Any) -> None:
        self.left = takes
        self._request = request

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def auth_context(self) -> dict[str, Any]:
        return {}

    async def read(self) -> Any:
        return self._request

    async def write(self, data: bytes) -> None:  # noqa: ARG002  # it goes nowhere
        self.left -= 1
        if self.left < 0:
            raise grpc.aio.InternalError("Failed execute_batch")


@pytest.mark.parametrize("takes", [0, 1, 2])
def test_a_subscriber_that_vanishes_in_the_middle_of_a_delivery_leaves_nothing_and_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, takes: int
) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,1),1,5) stable(3)"))
        assert a.wait_durable(3)
        a.push(frame_of("ins((A,2),4,9) stable(5)"))
        assert a.wait_durable(5)
        handle = one.server.service.methods()["Subscribe"].stream_stream
        request = pb.SubscribeRequest(stream="s", edge=pb.EDGE_BEGIN)
        call = handle(None, Gone(takes, request))
        ended = asyncio.run_coroutine_threadsafe(call, one._loop)
        if takes == 2:  # all there was is delivered: it goes with what comes next
            a.push(frame_of("stable(7)"))
        assert ended.result(PATIENCE_S) is None
        stream = one.server.registry.streams["s"]
        assert one.on_loop(lambda: stream.subscribers) == 0
        assert one.server.counters.calls["subscribe"] == 0
    assert [r for r in caplog.records if r.levelname == "ERROR" or r.exc_info] == []
