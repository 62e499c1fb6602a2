"""A push call: one attachment of one producer, the wire's end of an input of the merger.

    attaching       attach, its tail frame by frame --> Attach, Data 1 ... n --> the merger
    reader task     frames --> decoded, in sequence --> Data n+1 ...         --> the merger
    the call        <-- Attached, Acks (the newest says all), Detached at the end

A tail has no size that matters: what lives may be more than any message, or any memory set aside
for one. So it is merged as it comes, one frame after the other, and its stable stands in its last
frame: an input that has not said how far it is leads nobody.

A producer is a slot, its incarnation a life, each call an attempt: the words of a replica's link
(failover/replica/link.py). Frames of one call come in order or not at all, so nothing is resent
within it; when it breaks the producer attaches anew and tells what it has not heard to be durable.

What the merger has no room for waits here: one frame, and no more is read meanwhile, so that the
transport holds the producer back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gapless.failover import messages as said
from gapless.failover.messages import Session
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.frames import from_wire
from gapless.sidecar.server.limits import CREDITS
from gapless.sidecar.server.push_admission import Admission, Calls, Read
from gapless.sidecar.server.push_refusals import (
    PushRefusal,
    of_frame,
    of_merger,
    of_stream,
    refused_as,
)
from gapless.sidecar.server.refusals import Refusal, refusal_of
from gapless.sidecar.server.registry import Registry
from gapless.sidecar.server.stream import Stream
from gapless.sidecar.server.throttle import TokenBucket

TAIL_FRAME_S = 30.0
"""How long the next frame of a tail may take to come: until its tail is whole, a producer has a
place and helps nobody. As long as a message of the largest size takes over a bad line.
"""

Write = Callable[[bytes], Awaitable[None]]


class Attachment:
    """One push call."""

    def __init__(self, registry: Registry, calls: Calls, read: Read, write: Write) -> None:
        self._registry = registry
        self._calls = calls
        self._read = read
        self._write = write
        self._limits = registry.setup.limits
        self._admission = Admission(registry, calls)
        self._ack: said.Ack | None = None
        self._refusal: PushRefusal | None = None
        self._is_attached = False
        self._is_over = False
        self._has_left = False
        self._woken = asyncio.Event()
        self._tail_frames = 0
        self._taken = 0
        self._sequence = 0  # of the frame that is being taken in; 0 in a tail
        self._bytes_pace = TokenBucket(self._limits.producer_bytes_per_s)
        self._frames_pace = TokenBucket(self._limits.producer_frames_per_s)
        self._stream: Stream
        self._session: Session

    async def run(self) -> None:
        """The whole call. Raises the `Refusal` that it ends with, after a `Detached` that says the
        same; returns where the producer has left.
        """
        try:
            await self._attach()
        except GaplessError as e:
            refusal = refusal_of(e)
            await self._say_detached(refusal)
            raise refusal from None
        reader = asyncio.create_task(self._read_on(), name=f"push {self._session.life}")
        try:
            await self._tell()
        finally:
            reader.cancel()
            self._stream.copies.leave(self._session.life, self)

    # -- what the stream calls ----------------------------------------------------------------

    def hear(self, message: said.Message) -> None:
        """Takes a message of the merger."""
        if isinstance(message, said.Ack) and message.session == self._session:
            if self._ack is None or message.sequence >= self._ack.sequence:
                self._ack = message
                self._woken.set()
        elif isinstance(message, said.Refused) and message.session == self._session:
            self._end(of_merger(message, is_attached=self._is_attached))

    def lost(self, refusal: Refusal) -> None:
        """The stream, or this attachment of it, is over."""
        self._end(of_stream(refusal, is_draining=self._registry.is_draining))

    def _end(self, refusal: PushRefusal) -> None:
        if self._refusal is None:
            self._refusal = refusal
            if not refusal.blames_a_frame:
                self._sequence = 0
        self._woken.set()

    # -- attaching ----------------------------------------------------------------------------

    async def _attach(self) -> None:
        attach = await self._admission.attach(self._read)
        stream, life = await self._admission.admit(attach)
        with refused_as(pb.Detached.WHY_FULL):
            stream.copies.join(life, self, self._calls.holder)
        self._stream = stream
        self._session = Session(life, stream.life.slot, stream.next_attempt())
        join_at = attach.join_at if attach.HasField("join_at") else BEGIN
        parts = attach.tail_frames
        try:
            await self._merge(said.Attach(self._session, join_at, self._nothing, parts), 0)
            self._is_attached = True
            await self._tell_tail(parts)
            stream.copies.fence(life)
            await self._say_attached()
        except BaseException:
            stream.copies.leave(life, self)
            raise

    @property
    def _nothing(self) -> Frame:
        return Frame.empty(self._stream.definition.schema)

    async def _tell_tail(self, count: int) -> None:
        """Merges the tail that follows an attach, frame by frame."""
        self._tail_frames = count
        for number in range(1, count + 1):
            try:
                async with asyncio.timeout(TAIL_FRAME_S):
                    request = await self._read()
            except TimeoutError:
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"frame {number} of {count} of the tail did not come within "
                    f"{TAIL_FRAME_S:g} s: attach again, and tell it without a pause",
                ) from None
            if request is None or request.WhichOneof("message") != "frame":
                raise Refusal("INVALID_ARGUMENT", f"the attach has {count} frames of its tail")
            message = request.frame
            try:
                frame = self._tail_frame(message, is_last=number == count)
            except Refusal as e:
                raise of_frame(e) from None
            if number > 1:
                self._admission.check_room()
            await self._merge(said.Data(self._session, number, frame), number)
            self._calls.pushed(self._stream.definition.name, len(frame), len(message.body))
            await self._keep_pace(len(message.body))

    def _tail_frame(self, message: pb.Frame, *, is_last: bool) -> Frame:
        if message.sequence:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"frame {message.sequence} came within the tail, whose frames have sequence 0",
            )
        if message.HasField("stable") and not is_last:
            raise Refusal("INVALID_ARGUMENT", "the stable of a tail stands in its last frame")
        if not message.body and not is_last:
            raise Refusal("INVALID_ARGUMENT", "a frame of a tail has rows")
        return from_wire(message, self._stream.definition.schema)

    async def _say_attached(self) -> None:
        stream, ack = self._stream, self._ack
        if ack is None:
            raise Refusal("INTERNAL", f"{self._session.life} was attached, and nobody says so")
        self._ack = None
        attached = pb.Attached(
            sidecar=stream.life.slot,
            epoch=stream.epoch,
            durable_stable=ack.durable_stable,
            feedback=ack.feedback,
            credits=CREDITS,
            frame_bytes_max=self._limits.frame_bytes_max,
        )
        await self._write(pb.PushReply(attached=attached).SerializeToString())

    async def _merge(self, message: said.Attach | said.Data, sequence: int) -> None:
        """Gives it to the merger, as soon as that has room. Raises what the call ends with."""
        stream = self._stream
        while True:
            stream.happens(message)
            if self._refusal is not None:
                raise self._refusal
            if stream.machine.taken_in(self._session) >= sequence:
                return
            await stream.room()

    # -- reading ------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        """Reads until the producer has sent everything."""
        try:
            while (request := await self._read()) is not None and self._refusal is None:
                kind = request.WhichOneof("message")
                if kind == "detach":
                    await self._leave()
                    return
                if kind != "frame":
                    raise Refusal("INVALID_ARGUMENT", "after the attach come frames")
                await self._take(request.frame)
                await self._keep_pace(len(request.frame.body))
        except PushRefusal as e:
            self._end(e)
        except Refusal as e:
            self._end(of_frame(e))
        except GaplessError as e:
            self._end(PushRefusal(refusal_of(e), pb.Detached.WHY_UNKNOWN))
        finally:
            self._is_over = True
            self._woken.set()

    async def _keep_pace(self, size: int) -> None:
        """Reads on only once this producer may send more."""
        now_s = asyncio.get_running_loop().time()
        wait_s = max(self._bytes_pace.spend(size, now_s), self._frames_pace.spend(1, now_s))
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _take(self, message: pb.Frame) -> None:
        sequence = self._sequence = message.sequence
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
        number = self._tail_frames + sequence
        await self._merge(said.Data(self._session, number, frame), number)
        self._taken = sequence
        self._calls.pushed(stream.definition.name, len(frame), len(message.body))

    async def _leave(self) -> None:
        """The producer detaches: what it has not pushed no longer holds the output up. The
        call ends once all that it has said is durable, as nobody would say it again.
        """
        await self._stream.durable()
        if self._refusal is not None:
            return  # the stream ended meanwhile, and the producer says it elsewhere
        self._has_left = True
        self._stream.copies.leave(self._session.life, self)
        self._stream.copies.let_go(self._session.life)

    # -- telling ------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Sends acks until the call ends. Of several the newest includes all."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            ack, self._ack = self._ack, None
            if ack is not None:
                await self._write(self._ack_of(ack))
            if self._refusal is not None:
                await self._say_detached(self._refusal)
                raise self._refusal
            if self._is_over and self._ack is None:
                if self._has_left:
                    left = pb.Detached(why=pb.Detached.WHY_LEFT, reason="all that it said is safe")
                    await self._write(pb.PushReply(detached=left).SerializeToString())
                return

    async def _say_detached(self, refusal: Refusal) -> None:
        known = refusal if isinstance(refusal, PushRefusal) else self._refusal
        why = pb.Detached.WHY_UNKNOWN if known is None else known.why
        detached = pb.Detached(why=why, reason=refusal.sentence, sequence=self._sequence)
        await self._write(pb.PushReply(detached=detached).SerializeToString())

    def _ack_of(self, ack: said.Ack) -> bytes:
        message = pb.Ack(
            sequence=max(0, ack.sequence - self._tail_frames),
            durable_stable=ack.durable_stable,
            feedback=ack.feedback,
            credits=CREDITS,
            throttled=ack.throttled,
        )
        data: bytes = pb.PushReply(ack=message).SerializeToString()
        return data
