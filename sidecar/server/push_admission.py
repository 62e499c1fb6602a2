"""Admission: whether a producer may push, before any of its frames is merged.

    first message --> an attach?  this caller?  room?  --> the stream, made where it is not there
                                      fenced?  the name another token's?  --> a stream and a life

A refusal here costs the stream nothing: the merger has not heard of the producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol

from gapless.failover.messages import Life
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import Definition
from gapless.sidecar.lives import life_of
from gapless.sidecar.server.push_refusals import PushRefusal, refused_as
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.registry import Registry
from gapless.sidecar.server.stream import Stream

FIRST_MESSAGE_S = 10.0
"""How long a call may be silent before it attaches: nothing is kept for strangers."""

Read = Callable[[], Awaitable[pb.PushRequest | None]]
"""The next message; None at the end."""


class Calls(Protocol):
    """What the server knows of all calls."""

    @property
    def holder(self) -> str:
        """Whose calls these are: the name of the grant."""

    def check_push(self, stream: str, producer: str) -> None:
        """Raises `Refusal` where this caller may not push to a stream as this producer."""

    def names_producer(self, producer: str) -> bool:
        """Whether the grant lists this producer by its name."""

    def check_quota(self, streams: Iterable[str]) -> None:
        """Raises `Refusal` where this caller may not make one more stream beside these."""

    def pushed(self, stream: str, rows: int, size: int) -> None:
        """Counts a frame that was taken in."""


class Admitted(NamedTuple):
    """A producer's life, and the stream that it pushes to."""

    stream: Stream
    life: Life


class Admission:
    """Of one push call."""

    def __init__(self, registry: Registry, calls: Calls) -> None:
        self._registry = registry
        self._calls = calls
        self._limits = registry.setup.limits

    async def attach(self, read: Read) -> pb.Attach:
        """The first message of a call. Raises `Refusal`."""
        try:
            async with asyncio.timeout(FIRST_MESSAGE_S):
                request = await read()
        except TimeoutError:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"no attach within {FIRST_MESSAGE_S:g} s: it is what comes first",
            ) from None
        if request is None or request.WhichOneof("message") != "attach":
            raise Refusal("INVALID_ARGUMENT", "the first message of a push is its attach")
        return request.attach

    async def admit(self, attach: pb.Attach) -> Admitted:
        """Checks an attach, and finds its stream. Raises `Refusal`."""
        self._calls.check_push(attach.stream, attach.producer)
        self._registry.check_open()
        self.check_room()
        life = life_of(attach.producer, attach.incarnation)
        self._check_tail(attach.tail_frames)
        definition = Definition.of_attach(attach)
        if definition is None:
            stream = await self._registry.stream(attach.stream)
        else:
            stream = await self._registry.define(definition, self._calls.check_quota)
        self._check_fences(stream, life)
        stream.check_whole()
        stream.copies.check_name(
            life.slot,
            self._calls.holder,
            may_take_over=self._calls.names_producer(life.slot),
        )
        return Admitted(stream, life)

    def check_room(self) -> None:
        """Raises `Refusal` where the mergers hold too much to take more."""
        with refused_as(pb.Detached.WHY_FULL):
            self._registry.check_room()

    def _check_tail(self, frames: int) -> None:
        limit = self._limits.tail_frames_max
        if frames > limit:
            refusal = Refusal(
                "RESOURCE_EXHAUSTED",
                f"a tail of {frames} frames: {limit} are the most; raise tail_frames_max, write "
                "larger frames, or push what is left of it as frames 1, 2, ... and its stable "
                "behind them",
            )
            raise PushRefusal(refusal, pb.Detached.WHY_FULL)

    @staticmethod
    def _check_fences(stream: Stream, life: Life) -> None:
        if not stream.machine.is_fenced(life):
            return
        reason, why = pb.Detached.WHY_FENCED, f"a later incarnation of {life.slot} has attached"
        if stream.copies.was_absent(life):
            reason = pb.Detached.WHY_ABSENT
            why = f"{life.slot} was away for over {stream.limits.absent_s} s"
        refusal = Refusal(
            "FAILED_PRECONDITION", f"{why}: this incarnation is over, attach with a larger one"
        )
        raise PushRefusal(refusal, reason)
