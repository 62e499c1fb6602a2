"""Sidecars that really listen, on a thread of the test's process, and what tests say to them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc

from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import parse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.frames import to_wire
from gapless.sidecar.server.access import Access
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.peer_outputs import Peer
from gapless.sidecar.server.server import Server
from gapless.sidecar.server.setup import StreamRetention
from gapless.sidecar.server.tls import Certificates

SCHEMA = StreamSchema({"src": "string", "n": "int64"})
PATIENCE_S = 30.0
"""What nothing here comes near, unless it never comes."""


def own_host(process: int) -> str:
    """A loopback address that no other process's tests use.

    A client that waits for its server to come back attaches to what listens at the port by then:
    with one address for all, that may be the server of another worker's test.
    """
    return f"127.{1 + (process >> 16)}.{process >> 8 & 255}.{process & 255}"


HOST = own_host(os.getpid())


class Running:
    """A sidecar in this process; its loop is a thread."""

    def __init__(
        self, data: Path, port: int = 0, certificates: Certificates | None = None, **settings: Any
    ) -> None:
        self.data = data
        self._certificates = certificates
        self.host = HOST if certificates is None else "127.0.0.1"  # which is what those are for
        self.port = port
        self._settings = settings
        self._start()

    def _start(self) -> None:
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._killed: asyncio.Event
        self.server: Server
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
            self._end, self._killed = asyncio.Event(), asyncio.Event()
            self.server = Server(self.data, **self._settings)
            tls = None if self._certificates is None else self._certificates.credentials()
            self.port = self.server.listen(f"{self.host}:{self.port}", tls)
            await self.server.start()
        except BaseException as e:
            self._failed = e
            self._ready.set()
            raise
        self._ready.set()
        serving = asyncio.create_task(self.server.run(self._end))
        killed = asyncio.create_task(self._killed.wait())
        await asyncio.wait({serving, killed}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            serving.cancel()
            await self.server.kill()
        killed.cancel()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """Has the sidecar's own thread compute something."""

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    def stop(self, *, by_force: bool = False) -> None:
        if not self._thread.is_alive():
            return
        end = self._killed if by_force else self._end
        try:
            self._loop.call_soon_threadsafe(end.set)
        except RuntimeError:
            pass  # it has just ended by itself
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def ended(self, timeout_s: float) -> None:
        """Waits until it has ended by itself."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive()

    def restart(self, *, by_force: bool = True) -> None:
        """Another life on the same directory and port."""
        self.stop(by_force=by_force)
        self._start()

    def validate(self) -> None:
        """Raises where an invariant of any stream is broken."""

        def look() -> None:
            for stream in self.server.registry.streams.values():
                stream.machine.validate()

        if self._thread.is_alive() and not self.server.registry.is_draining:
            self.on_loop(look)


@contextmanager
def sidecar(
    data: Path,
    *,
    limits: Limits | None = None,
    retention: StreamRetention | None = None,
    access: Access | None = None,
    certificates: Certificates | None = None,
    peer: Peer | None = None,
) -> Iterator[Running]:
    """A sidecar that is stopped, and sound, in the end."""
    running = Running(
        data,
        certificates=certificates,
        limits=limits,
        retention=retention,
        access=access,
        peer=peer,
    )
    try:
        yield running
        running.validate()
    finally:
        running.stop()


def frame_of(text: str, schema: StreamSchema = SCHEMA) -> Frame:
    """A frame in text notation."""
    return Frame.from_elements(schema, parse(text, schema))


def table_of(text: str, schema: StreamSchema = SCHEMA) -> Tdb:
    """The table that some elements describe."""
    table = Tdb(schema)
    table.fold(frame_of(text, schema))
    return table


def read_until(consumer: Consumer, stable: int, schema: StreamSchema = SCHEMA) -> Tdb:
    """The table that a consumer describes, once it is stable that far."""
    table = Tdb(schema)
    while True:
        delivered = consumer.next_delivered(PATIENCE_S)
        assert delivered is not None, f"nothing came for {PATIENCE_S} s"
        if delivered.reset:
            table = Tdb(schema)
        table.fold(delivered.frame)
        if delivered.frame.stable is not None and delivered.frame.stable >= stable:
            return table


# -- calls as a program in another language makes them ---------------------------------------------


class Caller:
    """Raw calls, message by message."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.channel = grpc.insecure_channel(
            address, [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        )
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    def push(self, *requests: pb.PushRequest, hold: bool = False) -> list[pb.PushReply]:
        """What a push call answers to these; raises with its status, where that is not OK."""
        done = threading.Event()

        def said() -> Iterator[pb.PushRequest]:
            yield from requests
            if hold:
                done.wait(PATIENCE_S)

        call = self.channel.stream_stream(
            "/gapless.v1.Sidecar/Push", pb.PushRequest.SerializeToString, pb.PushReply.FromString
        )
        try:
            return list(call(said(), metadata=self._metadata, timeout=PATIENCE_S))
        finally:
            done.set()

    def pushed(self, *requests: pb.PushRequest) -> grpc.RpcError:
        """The error that a push call ends with."""
        return error_of(lambda: self.push(*requests, hold=True))

    def subscribe(self, request: pb.SubscribeRequest) -> Iterator[pb.Delivery]:
        call = self.channel.unary_stream(
            "/gapless.v1.Sidecar/Subscribe",
            pb.SubscribeRequest.SerializeToString,
            pb.Delivery.FromString,
        )
        answers: Iterator[pb.Delivery] = call(request, metadata=self._metadata, timeout=PATIENCE_S)
        return answers

    def unary(self, method: str, request: Any, reply: Any) -> Any:
        call = self.channel.unary_unary(
            f"/gapless.v1.Sidecar/{method}", type(request).SerializeToString, reply.FromString
        )
        return call(request, metadata=self._metadata, timeout=PATIENCE_S)

    def status(self, stream: str = "") -> pb.StatusReply:
        reply: pb.StatusReply = self.unary(
            "Status", pb.StatusRequest(stream=stream), pb.StatusReply
        )
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()


def error_of(work: Callable[[], Any]) -> grpc.RpcError:
    """The error of a call that has to fail."""
    try:
        work()
    except grpc.RpcError as e:
        return e
    raise AssertionError("the call did not fail")


def attach(
    stream: str = "s",
    producer: str = "a",
    incarnation: int = 1,
    schema: StreamSchema = SCHEMA,
    **more: Any,
) -> pb.PushRequest:
    """The first message of a push."""
    return pb.PushRequest(
        attach=pb.Attach(
            stream=stream,
            producer=producer,
            incarnation=incarnation,
            schema=schema_to_wire(schema),
            **more,
        )
    )


def said(text: str, sequence: int = 1, encoding: pb.Encoding = pb.ENCODING_ARROW) -> pb.PushRequest:
    """A frame in text notation, as a message."""
    return pb.PushRequest(frame=to_wire(frame_of(text), encoding, sequence))
