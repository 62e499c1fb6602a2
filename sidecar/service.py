"""The service: each call of the protocol, from its first byte to its status code.

    identify the caller --> count the call in --> push, subscribe, ... --> a Refusal is its status

What a call does is elsewhere (producing.py, serving.py); here is what all calls have in common.
Replies are written as bytes: a delivery is encoded once for all subscribers at the same place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf.message import DecodeError as ProtobufError

from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.access import Access, Grant, check
from gapless.sidecar.counters import Counters
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.lives import incarnation_of
from gapless.sidecar.producing import Attachment
from gapless.sidecar.refusals import Refusal, refusal_of
from gapless.sidecar.registry import Registry
from gapless.sidecar.serving import Subscription, deliver_of, start_of, view_of
from gapless.sidecar.stream import Stream

NAME = "gapless.v1.Sidecar"
PROTOCOL_MINOR = 0
"""Grows with each field that is added to the protocol."""
_CODES = {code.name: code for code in grpc.StatusCode}

_log = logging.getLogger("gapless.sidecar")


class _Caller:
    """One caller's rights, as a push call asks for them."""

    def __init__(self, grant: Grant, counters: Counters) -> None:
        self._grant = grant
        self._counters = counters

    def check_push(self, stream: str) -> None:
        """Raises `Refusal` where this caller may not push to a stream."""
        check(self._grant, "push", stream)

    def pushed(self, stream: str, rows: int, size: int) -> None:
        """Counts a frame that was taken in."""
        self._counters.rows_in[stream] += rows
        self._counters.frames_in[stream] += 1
        self._counters.bytes_in[stream] += size


class Service:
    """All calls of one sidecar."""

    def __init__(self, registry: Registry, access: Access, counters: Counters) -> None:
        self.registry = registry
        self.counters = counters
        self.drain_asked = asyncio.Event()
        """Set where an administrator has called Drain."""
        self._access = access

    def methods(self) -> dict[str, Any]:
        """For a gRPC server."""
        return {
            "Push": grpc.stream_stream_rpc_method_handler(
                self.push, _parser(pb.PushRequest), _as_it_is
            ),
            "Subscribe": grpc.unary_stream_rpc_method_handler(
                self.subscribe, _parser(pb.SubscribeRequest), _as_it_is
            ),
            "Table": grpc.unary_stream_rpc_method_handler(
                self.table, _parser(pb.TableRequest), _as_it_is
            ),
            "Status": grpc.unary_unary_rpc_method_handler(
                self.status, _parser(pb.StatusRequest), pb.StatusReply.SerializeToString
            ),
            "Drain": grpc.unary_unary_rpc_method_handler(
                self.drain, _parser(pb.DrainRequest), pb.DrainReply.SerializeToString
            ),
        }

    # -- calls --------------------------------------------------------------------------------

    async def push(self, requests: AsyncIterator[pb.PushRequest], context: Any) -> None:
        """A producer's attachment."""
        del requests  # read through the context, beside what is written

        async def read() -> pb.PushRequest | None:
            message = await context.read()
            return None if message is grpc.aio.EOF else _checked(message)

        async def call() -> None:
            caller = _Caller(self._grant(context), self.counters)
            await Attachment(self.registry, caller, read, context.write).run()

        await self._call("push", call(), context)

    async def subscribe(self, request: pb.SubscribeRequest, context: Any) -> None:
        """A subscriber's stream."""

        async def call() -> None:
            _checked(request)
            stream = await self._readable(request.stream, context)
            view = view_of(stream, request, self.registry.setup.limits.columns_max)
            subscription = Subscription(stream, view, deliver_of(request), start_of(request))
            async for data in subscription.deliveries():
                await context.write(data)
                self.counters.deliveries[request.stream] += 1
                self.counters.bytes_out[request.stream] += len(data)

        await self._call("subscribe", call(), context)

    async def table(self, request: pb.TableRequest, context: Any) -> None:
        """The answer as of a time."""

        async def call() -> None:
            _checked(request)
            stream = await self._readable(request.stream, context)
            view = view_of(stream, request, self.registry.setup.limits.columns_max)
            at = request.at if request.HasField("at") else None
            if at == BEGIN:
                raise Refusal("INVALID_ARGUMENT", "at: nothing is alive before every time")
            subscription = Subscription(stream, view, "changes", "now" if at is None else at)
            for data in await subscription.table(at):
                await context.write(data)

        await self._call("table", call(), context)

    async def status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        """What is known of streams: of one that the caller may push to or read, or of all."""
        reply = pb.StatusReply(
            sidecar=self.registry.name,
            version=version("gapless"),
            protocol_minor=PROTOCOL_MINOR,
            draining=self.registry.is_draining,
        )

        async def call() -> None:
            grant = self._grant(context)
            _checked(request)
            if request.stream:
                if not grant.allows("push", request.stream):
                    check(grant, "subscribe", request.stream)
                reply.streams.append(stream_status(await self.registry.stream(request.stream)))
                return
            for name, stream in sorted(self.registry.streams.items()):
                if any(grant.allows(right, name) for right in ("push", "subscribe", "admin")):
                    reply.streams.append(stream_status(stream))

        await self._call("status", call(), context)
        return reply

    async def drain(self, request: pb.DrainRequest, context: Any) -> pb.DrainReply:
        """Stops the sidecar, once all is durable."""
        del request

        async def call() -> None:
            check(self._grant(context), "admin")
            self.drain_asked.set()
            await self.registry.ended.wait()

        streams = len(self.registry.streams)
        await self._call("drain", call(), context)
        return pb.DrainReply(streams=streams)

    # -- what all have in common --------------------------------------------------------------

    async def _call(self, kind: str, call: Any, context: Any) -> None:
        refusal: Refusal | None = None
        try:
            with self._counted(kind, _host(context.peer())):
                await call
        except GaplessError as e:
            refusal = refusal_of(e)
            if refusal.code == "INTERNAL":
                _log.error("%s from %s breaks down", kind, context.peer(), exc_info=e)
        finally:
            call.close()
        if refusal is not None:
            self.counters.refusals[refusal.code] += 1
            await context.abort(_CODES[refusal.code], refusal.sentence)

    @contextmanager
    def _counted(self, kind: str, host: str) -> Iterator[None]:
        limits, counters, mine = self.registry.setup.limits, self.counters, (kind, host)
        for count, limit, whose in (
            (counters.calls[kind], limits.calls_max, ""),
            (counters.peer_calls[mine], limits.peer_calls_max, f" from {host}"),
        ):
            if count >= limit:
                what = f"{limit} calls of {kind}{whose} are under way"
                raise Refusal("RESOURCE_EXHAUSTED", f"{what}: end some, or try again")
        counters.calls[kind] += 1
        counters.peer_calls[mine] += 1
        try:
            yield
        finally:
            counters.calls[kind] -= 1
            counters.peer_calls[mine] -= 1
            if not counters.peer_calls[mine]:
                del counters.peer_calls[mine]

    def _grant(self, context: Any) -> Grant:
        metadata = {
            key: value
            for key, value in context.invocation_metadata() or ()
            if isinstance(value, str)
        }
        names = context.auth_context().get("x509_common_name", ())
        return self._access.grant(metadata, names[0].decode(errors="replace") if names else "")

    async def _readable(self, name: str, context: Any) -> Stream:
        check(self._grant(context), "subscribe", name)
        return await self.registry.stream(name)


def stream_status(stream: Stream) -> pb.StreamStatus:
    """What is known of a stream."""
    definition, said = stream.definition, stream.status
    status = pb.StreamStatus(
        name=definition.name,
        schema=schema_to_wire(definition.schema),
        properties=definition.properties(),
        lmerge_case=definition.case,
        epoch=stream.epoch,
        stable=BEGIN if said is None else said.stable,
        durable_stable=stream.machine.durable_stable,
        rows=stream.rows,
        subscribers=stream.subscribers,
        lost=stream.lost or "",
    )
    if said is None:
        return status
    status.divergences = said.divergences
    status.detached = said.detached
    status.waiting_for = said.waiting_for or ""
    for each in said.inputs:
        status.producers.append(
            pb.ProducerStatus(
                producer=each.life.slot,
                incarnation=incarnation_of(each.life),
                stable=each.stable,
                qualified=each.qualifies,
                led=each.led,
                connected=stream.is_connected(each.life),
            )
        )
    return status


def _host(peer: str) -> str:
    """Of what gRPC calls a peer: "ipv4:10.0.0.7:51234", say. Each connection has another port."""
    return peer.rpartition(":")[0] if peer.startswith("ipv") else peer


class _Malformed:
    """What came instead of a message."""

    def __init__(self, what: str) -> None:
        self.what = what


def _parser(kind: Any) -> Callable[[bytes], Any]:
    """Reads a message; where it is none gRPC would answer with a traceback in our log."""

    def parse(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except ProtobufError as e:
            return _Malformed(f"a message that is no {kind.DESCRIPTOR.name}: {e}")

    return parse


def _checked(message: Any) -> Any:
    """The message. Raises `Refusal` where it is none."""
    if isinstance(message, _Malformed):
        raise Refusal("INVALID_ARGUMENT", message.what)
    return message


def _as_it_is(data: bytes) -> bytes:
    return data
