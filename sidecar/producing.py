"""A push call: one attachment of one producer, the wire's end of an input of the merger.

    reader task     frames --> decoded, in sequence --> Data --> the merger
    the call        <-- Attached, Acks (the newest says all), Detached at the end

A producer is a slot, its incarnation a life, each call an attempt: the words of a replica's link
(failover/link.py). Frames of one call come in order or not at all, so nothing is said again within
it; when it breaks the producer attaches anew and tells what it has not heard to be durable.

What the merger has no room for waits here: one frame, and no more is read meanwhile, so that the
transport holds the producer back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from gapless.failover import messages as said
from gapless.failover.messages import Session
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import Definition
from gapless.sidecar.frames import from_wire
from gapless.sidecar.limits import CREDITS
from gapless.sidecar.lives import life_of
from gapless.sidecar.pace import Pace
from gapless.sidecar.refusals import Refusal, refusal_of
from gapless.sidecar.registry import Registry
from gapless.sidecar.stream import Stream

FIRST_MESSAGE_S = 10.0
"""How long a call may be silent before it attaches: nothing is kept for strangers."""

Read = Callable[[], Awaitable[pb.PushRequest | None]]
"""The next message; None at the end."""
Write = Callable[[bytes], Awaitable[None]]


class Calls(Protocol):
    """What the server knows of all calls."""

    def check_push(self, stream: str) -> None:
        """Raises `Refusal` where this caller may not push to a stream."""

    def pushed(self, stream: str, rows: int, size: int) -> None:
        """Counts a frame that was taken in."""


class Attachment:
    """One push call."""

    def __init__(self, registry: Registry, calls: Calls, read: Read, write: Write) -> None:
        self._registry = registry
        self._calls = calls
        self._read = read
        self._write = write
        self._limits = registry.setup.limits
        self._ack: said.Ack | None = None
        self._refusal: Refusal | None = None
        self._why: pb.Detached.Why = pb.Detached.WHY_UNKNOWN
        self._is_attached = False
        self._is_over = False
        self._woken = asyncio.Event()
        self._taken = 0
        self._stream: Stream
        self._session: Session

    async def run(self) -> None:
        """The whole call. Raises the `Refusal` that it ends with, after a `Detached` that says the
        same; returns where the producer has left.
        """
        try:
            await self._attach()
        except Refusal as e:
            await self._say_detached(e)
            raise
        reader = asyncio.create_task(self._read_on(), name=f"push {self._session.life}")
        try:
            await self._tell()
        finally:
            reader.cancel()
            self._stream.leave(self._session.life, self)

    # -- what the stream calls ----------------------------------------------------------------

    def hear(self, message: said.Message) -> None:
        """What the merger says."""
        if isinstance(message, said.Ack) and message.session == self._session:
            if self._ack is None or message.sequence >= self._ack.sequence:
                self._ack = message
                self._woken.set()
        elif isinstance(message, said.Refused) and message.session == self._session:
            self._refused(message)

    def lost(self, refusal: Refusal) -> None:
        """The stream, or this attachment of it, is over."""
        if refusal.code == "FAILED_PRECONDITION":
            self._end(refusal, pb.Detached.WHY_FENCED)
        elif self._registry.is_draining:
            self._end(refusal, pb.Detached.WHY_DRAINING)
        else:
            self._end(refusal, pb.Detached.WHY_LOST)

    def _refused(self, message: said.Refused) -> None:
        producer = self._session.life.slot
        if message.fenced:
            self._end(
                Refusal(
                    "FAILED_PRECONDITION",
                    f"producer {producer}: {message.reason}: this incarnation is over",
                ),
                pb.Detached.WHY_FENCED,
            )
        elif not self._is_attached:
            self._end(
                Refusal("RESOURCE_EXHAUSTED", f"producer {producer}: {message.reason}"),
                pb.Detached.WHY_FULL,
            )
        else:
            self._end(
                Refusal(
                    "INVALID_ARGUMENT",
                    f"producer {producer} is not believed any more: {message.reason}",
                ),
                pb.Detached.WHY_BAD_CONTENT,
            )

    def _end(self, refusal: Refusal, why: pb.Detached.Why) -> None:
        if self._refusal is None:
            self._refusal, self._why = refusal, why
        self._woken.set()

    # -- attaching ----------------------------------------------------------------------------

    async def _attach(self) -> None:
        try:
            async with asyncio.timeout(FIRST_MESSAGE_S):
                request = await self._read()
        except TimeoutError:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"no attach within {FIRST_MESSAGE_S:g} s: it is what comes first",
            ) from None
        if request is None or request.WhichOneof("message") != "attach":
            raise Refusal("INVALID_ARGUMENT", "the first message of a push is its attach")
        attach = request.attach
        self._calls.check_push(attach.stream)
        self._registry.check_open()
        self._registry.check_room()
        life = life_of(attach.producer, attach.incarnation)
        join_at = attach.join_at if attach.HasField("join_at") else BEGIN
        definition = Definition.of_attach(attach)
        if definition is None:
            stream = await self._registry.stream(attach.stream)
        else:
            stream = await self._registry.define(definition)
        tail = await self._tail(stream, attach.tail_frames)
        if stream.machine.is_fenced(life):
            self._why = pb.Detached.WHY_FENCED
            why = f"a later incarnation of {life.slot} has attached"
            if stream.was_absent(life):
                self._why = pb.Detached.WHY_ABSENT
                why = f"{life.slot} was away for over {self._limits.absent_s} s"
            raise Refusal(
                "FAILED_PRECONDITION",
                f"{why}: this incarnation is over, attach with a larger one",
            )
        stream.join(life, self)
        self._stream = stream
        self._session = Session(life, stream.life.slot, stream.next_attempt())
        try:
            await self._attached(said.Attach(self._session, join_at, tail))
        except BaseException:
            stream.leave(life, self)
            raise

    async def _tail(self, stream: Stream, count: int) -> Frame:
        """What a producer tells with its attach."""
        frames, size = [Frame.empty(stream.definition.schema)], 0
        for _ in range(count):
            request = await self._read()
            if request is None or request.WhichOneof("message") != "frame":
                raise Refusal("INVALID_ARGUMENT", f"the attach has {count} frames of its tail")
            size += len(request.frame.body)
            if request.frame.sequence or size > self._limits.tail_bytes_max:
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"a frame of a tail has sequence 0, and all together have at most "
                    f"{self._limits.tail_bytes_max} bytes: push the rest after it",
                )
            frames.append(from_wire(request.frame, stream.definition.schema))
        stable = frames[-1].stable
        return Frame.concat([f.with_stable(None) for f in frames]).with_stable(stable)

    async def _attached(self, attach: said.Attach) -> None:
        stream, life = self._stream, self._session.life
        while True:
            stream.happens(attach)
            if self._refusal is not None:
                raise self._refusal
            if stream.machine.taken_in(self._session) >= 0:
                break
            await stream.room()  # no answer: the merger holds too much to take a tail
        stream.fence(life)
        self._calls.pushed(stream.definition.name, len(attach.tail), attach.tail.nbytes)
        ack = self._ack
        if ack is None:
            raise Refusal("INTERNAL", f"{life} was attached, and the merger does not say so")
        self._ack = None
        self._is_attached = True
        attached = pb.Attached(
            sidecar=stream.life.slot,
            epoch=stream.epoch,
            durable_stable=ack.durable_stable,
            feedback=ack.feedback,
            credits=CREDITS,
            frame_bytes_max=self._limits.frame_bytes_max,
        )
        await self._write(pb.PushReply(attached=attached).SerializeToString())

    # -- reading ------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        """Reads until the producer has no more to say."""
        limits = self._limits
        bytes_pace = Pace(limits.producer_bytes_per_s)
        frames_pace = Pace(limits.producer_frames_per_s)
        now_s = asyncio.get_running_loop().time
        try:
            while (request := await self._read()) is not None and self._refusal is None:
                kind = request.WhichOneof("message")
                if kind == "detach":
                    await self._leave()
                    return
                if kind != "frame":
                    raise Refusal("INVALID_ARGUMENT", "after the attach come frames")
                await self._take(request.frame)
                wait_s = max(
                    bytes_pace.spend(len(request.frame.body), now_s()),
                    frames_pace.spend(1, now_s()),
                )
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
        except Refusal as e:
            self._end(e, pb.Detached.WHY_BAD_CONTENT)
        except GaplessError as e:
            self._end(refusal_of(e), pb.Detached.WHY_UNKNOWN)
        finally:
            self._is_over = True
            self._woken.set()

    async def _take(self, message: pb.Frame) -> None:
        sequence = message.sequence
        if sequence <= self._taken and sequence:
            self._woken.set()
            return  # said twice: the next ack answers it
        if sequence != self._taken + 1:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"frame {sequence} came, and {self._taken + 1} is next: sequences count from 1",
            )
        stream = self._stream
        frame = from_wire(message, stream.definition.schema)
        data = said.Data(self._session, sequence, frame)
        while True:
            stream.happens(data)
            if self._refusal is not None or stream.lost is not None:
                return
            if stream.machine.taken_in(self._session) >= sequence:
                break
            await stream.room()
        self._taken = sequence
        self._calls.pushed(stream.definition.name, len(frame), len(message.body))

    async def _leave(self) -> None:
        """It says that it has no more to say: what it has not said no longer holds anything. The
        call ends once all that it has said is durable, as nobody would say it again.
        """
        await self._stream.durable()
        self._why = pb.Detached.WHY_LEFT
        self._stream.leave(self._session.life, self)
        self._stream.let_go(self._session.life)

    # -- telling ------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Acks, until the call ends. Of several the newest says all."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            ack, self._ack = self._ack, None
            if ack is not None:
                await self._write(_ack(ack))
            if self._refusal is not None:
                await self._say_detached(self._refusal)
                raise self._refusal
            if self._is_over and self._ack is None:
                return

    async def _say_detached(self, refusal: Refusal) -> None:
        detached = pb.Detached(why=self._why, reason=refusal.sentence)
        await self._write(pb.PushReply(detached=detached).SerializeToString())


def _ack(ack: said.Ack) -> bytes:
    message = pb.Ack(
        sequence=ack.sequence,
        durable_stable=ack.durable_stable,
        feedback=ack.feedback,
        credits=CREDITS,
        throttled=ack.throttled,
    )
    data: bytes = pb.PushReply(ack=message).SerializeToString()
    return data
