"""The service: each call of the protocol, from its first byte to its status code.

    count the call in --> identify the caller --> read its message --> push, subscribe, ...
                                                                a Refusal is the call's status

The caller is known by the call's headers alone, and nothing that a stranger sends is read: to gRPC
all calls are streams both ways, also those with one message, which it would else take in whole
before anybody had looked at the token.

What a call does is elsewhere (push_call.py, subscribe_call.py); here is what all calls have in
common. Replies are written as bytes: a delivery is encoded once for all subscribers at the same
place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf.message import DecodeError as ProtobufError

from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.lives import incarnation_of
from gapless.sidecar.server.access import (
    Access,
    Grant,
    Right,
    check,
    check_quota,
)
from gapless.sidecar.server.counters import Counters
from gapless.sidecar.server.push_call import Attachment
from gapless.sidecar.server.refusals import Refusal, refusal_of
from gapless.sidecar.server.registry import Registry
from gapless.sidecar.server.stream import Stream
from gapless.sidecar.server.subscribe_call import SubscribeCall, deliver_of, start_of, view_of

NAME = "gapless.v1.Sidecar"
REQUEST_S = 10.0
"""How long the one message of a call may take to come."""
PROTOCOL_MINOR = 1
"""Grows with each field that is added to the protocol."""
_CODES = {code.name: code for code in grpc.StatusCode}

_log = logging.getLogger("gapless.sidecar")


class _Caller:
    """One caller's rights, as a push call asks for them."""

    def __init__(self, access: Access, grant: Grant, counters: Counters) -> None:
        self._access = access
        self._grant = grant
        self._counters = counters

    @property
    def holder(self) -> str:
        """Whose calls these are: the name of the grant; empty where nobody shows a token."""
        return self._grant.name

    def check_push(self, stream: str, producer: str) -> None:
        """Raises `Refusal` where this caller may not push to a stream as this producer."""
        check(self._grant, "push", stream)
        self._access.check_producer(self._grant, stream, producer)

    def names_producer(self, producer: str) -> bool:
        """Whether the grant lists this producer by its name."""
        return self._grant.names_producer(producer)

    def check_quota(self, streams: Iterable[str]) -> None:
        """Raises `Refusal` where this caller may not make one more stream beside these."""
        check_quota(self._grant, streams)

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
        calls = {
            "Push": (self._push, pb.PushRequest),
            "Subscribe": (self._subscribe, pb.SubscribeRequest),
            "Table": (self._table, pb.TableRequest),
            "Status": (self._status, pb.StatusRequest),
            "Drain": (self._drain, pb.DrainRequest),
            "Remove": (self._remove, pb.RemoveRequest),
        }
        return {
            name: grpc.stream_stream_rpc_method_handler(
                self._handler(name.lower(), call), _parser(kind), _as_it_is
            )
            for name, (call, kind) in calls.items()
        }

    # -- calls --------------------------------------------------------------------------------

    async def _push(self, context: Any) -> None:
        """A producer's attachment."""
        caller = _Caller(self._access, self._grant(context, "push"), self.counters)

        async def read() -> pb.PushRequest | None:
            message = await context.read()
            return None if message is grpc.aio.EOF else _checked(message)

        await Attachment(self.registry, caller, read, context.write).run()

    async def _subscribe(self, context: Any) -> None:
        """A subscriber's stream."""
        grant = self._grant(context, "subscribe")
        request: pb.SubscribeRequest = await self._request(context)
        check(grant, "subscribe", request.stream)
        stream = await self.registry.stream(request.stream)
        view = view_of(stream, request, self.registry.setup.limits.columns_max)
        subscription = SubscribeCall(stream, view, deliver_of(request), start_of(request))
        async with aclosing(subscription.deliveries()) as deliveries:
            async for data in deliveries:
                await context.write(data)
                self.counters.deliveries[request.stream] += 1
                self.counters.bytes_out[request.stream] += len(data)

    async def _table(self, context: Any) -> None:
        """The answer as of a time."""
        grant = self._grant(context, "subscribe")
        request: pb.TableRequest = await self._request(context)
        check(grant, "subscribe", request.stream)
        stream = await self.registry.stream(request.stream)
        view = view_of(stream, request, self.registry.setup.limits.columns_max)
        at = request.at if request.HasField("at") else None
        if at == BEGIN:
            raise Refusal("INVALID_ARGUMENT", "at: nothing is alive before every time")
        subscription = SubscribeCall(stream, view, "changes", "now" if at is None else at)
        for data in await subscription.table(at):
            await context.write(data)

    async def _status(self, context: Any) -> None:
        """What is known of streams: of one that the caller may push to or read, or of all."""
        grant = self._grant(context)
        request: pb.StatusRequest = await self._request(context)
        reply = pb.StatusReply(
            sidecar=self.registry.name,
            version=version("gapless"),
            protocol_minor=PROTOCOL_MINOR,
            draining=self.registry.is_draining,
        )
        rights: tuple[Right, ...] = ("push", "subscribe", "admin")
        if request.stream:
            if not grant.allows("push", request.stream):
                check(grant, "subscribe", request.stream)
            reply.streams.append(stream_status(await self.registry.stream(request.stream)))
        else:
            for name, stream in sorted(self.registry.streams.items()):
                if any(grant.allows(right, name) for right in rights):
                    reply.streams.append(stream_status(stream))
        await context.write(reply.SerializeToString())

    async def _drain(self, context: Any) -> None:
        """Stops the sidecar, once all is durable."""
        self._grant(context, "admin")
        await self._request(context)
        streams = len(self.registry.streams)
        self.drain_asked.set()
        await self.registry.ended.wait()
        await context.write(pb.DrainReply(streams=streams).SerializeToString())

    async def _remove(self, context: Any) -> None:
        """Removes a stream, or one producer of it."""
        self._grant(context, "admin")
        request: pb.RemoveRequest = await self._request(context)
        if request.producer:
            stream = await self.registry.stream(request.stream)
            stream.copies.remove(request.producer)
        else:
            await self.registry.remove(request.stream)
        await context.write(pb.RemoveReply().SerializeToString())

    # -- what all have in common --------------------------------------------------------------

    def _handler(self, kind: str, call: Callable[[Any], Awaitable[None]]) -> Any:
        async def handle(requests: AsyncIterator[Any], context: Any) -> None:
            del requests  # read through the context: nothing before the caller is known
            refusal: Refusal | None = None
            try:
                with self._counted(kind, _host(context.peer())):
                    await call(context)
            except GaplessError as e:
                refusal = refusal_of(e)
                if refusal.code == "INTERNAL":
                    _log.error("%s from %s breaks down", kind, context.peer(), exc_info=e)
            except grpc.aio.InternalError:  # the transport takes nothing more: the caller is gone
                _log.info("%s: %s has gone in the middle of it", kind, context.peer())
            if refusal is not None:
                self.counters.refusals[refusal.code] += 1
                await context.abort(_CODES[refusal.code], refusal.sentence)

        return handle

    async def _request(self, context: Any) -> Any:
        """The one message of a call."""
        try:
            async with asyncio.timeout(REQUEST_S):
                message = await context.read()
        except TimeoutError:
            message = grpc.aio.EOF
        if message is grpc.aio.EOF:
            raise Refusal("INVALID_ARGUMENT", f"no message came within {REQUEST_S:g} s")
        request = _checked(message)
        size, limit = request.ByteSize(), self.registry.setup.limits.request_bytes_max
        if size > limit:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"a request of {size} bytes: {limit} are the most; ask for less, or raise "
                "request_bytes_max",
            )
        return request

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

    def _grant(self, context: Any, right: Right | None = None) -> Grant:
        """Who calls. Raises `Refusal` where that is nobody, or has a right on nothing."""
        metadata = {
            key: value
            for key, value in context.invocation_metadata() or ()
            if isinstance(value, str)
        }
        names = context.auth_context().get("x509_common_name", ())
        name = names[0].decode(errors="replace") if names else ""
        grant = self._access.grant(metadata, name)
        if right is not None and not grant.may(right):
            check(grant, right)
        return grant


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
                connected=stream.copies.is_connected(each.life),
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
    """Reads a message; where it is malformed gRPC would answer with a traceback in our log."""

    def parse(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except ProtobufError as e:
            return _Malformed(f"a message that is no {kind.DESCRIPTOR.name}: {e}")

    return parse


def _checked(message: Any) -> Any:
    """The message. Raises `Refusal` where it is malformed."""
    if isinstance(message, _Malformed):
        raise Refusal("INVALID_ARGUMENT", message.what)
    return message


def _as_it_is(data: bytes) -> bytes:
    return data
