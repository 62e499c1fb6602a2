"""A subscribe call: one subscription, the wire's end of a cursor on the output.

    the call   <-- Delivery --   Emit   subscriber   Fetch -->  merger
                                                    <-- Delivery --
    subscriber   the machine of failover/subscriber/machine.py

The machine that decides where it begins, what is final and what token stands behind each frame is
the one that a job's programs run. It asks for more once the transport has taken what there was: who
reads slowly lags in the journal and keeps one delivery here; who never reads is told OUT_OF_RANGE,
once it reads, when retention has passed it by.

Each delivery costs a core some time, so many subscribers share it: one that has just been served
asks again at the next beat, and the more there are the longer a beat is. At a beat all ask at once,
get the same rows, and so the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import chain
from uuid import uuid4

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.machines import unhandled
from gapless.failover.messages import Declined, Delivery, Fetch, Message, Open, Opened
from gapless.failover.subscriber import effects as ask
from gapless.failover.subscriber.machine import StartAt, Subscriber
from gapless.failover.subscriber.tokens import decode, encode
from gapless.failover.table import Deliver
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, GaplessError
from gapless.protocol.frame import Frame
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.frames import ROWS_PER_FRAME, cut, to_wire
from gapless.sidecar.server.refusals import Code, Refusal, refusal_of
from gapless.sidecar.server.stream import ENCODED_MAX, Stream
from gapless.sidecar.server.views import FrameView, ViewKey

SHARD = "0"
"""A stream is one shard."""
BEAT_US = 250
"""Of a beat, for each subscriber of the stream: so deliveries take less than half of a core."""
BEAT_MS_MAX = 250
"""The longest beat: what a thousand subscribers have to bear."""
LOST_MS = 1000
"""After so long without an answer the question is repeated: the merger may have had no room."""

TIMING = Timing(fetch_ms=LOST_MS)


class SubscribeCall:
    """One subscription of one stream."""

    def __init__(self, stream: Stream, view: FrameView, deliver: Deliver, start: StartAt) -> None:
        self._stream = stream
        self._view = view
        self._name = f"s-{uuid4().hex}"
        definition = stream.definition
        self._machine = Subscriber(
            self._name,
            {SHARD: (stream.life.slot,)},
            definition.schema,
            deliver=deliver,
            insert_only=definition.ends_with_start,
            start=start,
            case=definition.case,
            timing=TIMING,
        )
        self._questions: deque[Open | Fetch] = deque()
        self._emits: deque[ask.Emit] = deque()
        self._refusal: Refusal | None = None
        self._woken = asyncio.Event()
        self._asked_at_beat = 0.0

    # -- what the stream calls ----------------------------------------------------------------

    def hear(self, message: Message) -> None:
        """Takes a message of the merger."""
        if not isinstance(message, Delivery | Opened | Declined):
            raise Bug(f"a subscriber's call was sent {message!r:.200}")
        self._do(message)

    def lost(self, refusal: Refusal) -> None:
        """The stream is over."""
        self._refusal = self._refusal or refusal
        self._woken.set()

    def _do(self, event: ask.SubscriberEvent) -> None:
        for effect in self._machine.on(event, self._stream.now_ms()):
            match effect:
                case Send(_, (Open() | Fetch()) as question):
                    self._questions.append(question)
                case Send():
                    raise Bug(f"a subscriber sends no {effect.message!r:.200}")
                case ask.Emit():
                    self._emits.append(effect)
                case ask.Give():
                    is_gone = effect.why in ("trimmed", "future")
                    code: Code = "OUT_OF_RANGE" if is_gone else "INTERNAL"
                    self._refusal = self._refusal or Refusal(code, effect.reason)
                case _:
                    raise unhandled("a subscriber's call", effect)
        self._woken.set()

    # -- what the call does -------------------------------------------------------------------

    async def deliveries(self) -> AsyncGenerator[bytes]:
        """What is sent, one after the other. Raises the `Refusal` that the call ends with; returns
        where the stream itself has ended.
        """
        stream = self._stream
        stream.subscribe(self._name, self)
        try:
            yield self._first()
            self._do(Start())
            while (emit := await self._next()) is not None:
                for data in self._encoded(emit):
                    yield data
        finally:
            stream.unsubscribe(self._name)

    async def _next(self) -> ask.Emit | None:
        """The next frame; None at the end of the stream."""
        while not self._emits:
            if self._refusal is not None:
                raise self._refusal
            if self._machine.has_ended:
                return None
            await self._ask()
            if self._emits or self._refusal is not None:
                continue
            self._woken.clear()
            try:
                async with asyncio.timeout(LOST_MS / 1000):
                    await self._woken.wait()
            except TimeoutError:
                self._do(Tick())
        return self._emits.popleft()

    async def _ask(self) -> None:
        """Asks what there is to ask, at a beat that all subscribers share."""
        if not self._questions:
            return
        beat_s = min(self._stream.subscribers * BEAT_US / 1e6, BEAT_MS_MAX / 1000)
        now_s = asyncio.get_running_loop().time()
        if beat_s > 0.001 and now_s - self._asked_at_beat < beat_s:
            next_s = (now_s // beat_s + 1) * beat_s
            await asyncio.sleep(next_s - now_s)
            now_s = next_s
        self._asked_at_beat = now_s
        questions, self._questions = self._questions, deque()
        for question in questions:
            self._stream.happens(question)

    async def table(self, at: int | None) -> Iterable[bytes]:
        """The answer at a time: by default at the last instant at which anything is alive, or was
        where nothing is any more.
        """
        stream = self._stream
        stream.subscribe(self._name, self)
        try:
            self._do(Start())
            emit = await self._next()
            if emit is None:
                return [self._first()]
            frame = emit.frame
            if at is None and not len(frame):
                frame = await stream.last_events()
        finally:
            stream.unsubscribe(self._name)
        if len(frame):
            if at is None:
                frame = frame.take(frame.ve == int(frame.ve.max()), frame.stable)
            else:
                frame = frame.take((frame.vs <= at) & (at < frame.ve), frame.stable)
        made = ask.Emit(frame, emit.tokens, emit.reset, emit.since)
        return chain([self._first()], self._encoded(made))

    # -- as bytes -----------------------------------------------------------------------------

    def _first(self) -> bytes:
        """The first delivery identifies the sidecar, and has nothing else."""
        definition = self._stream.definition
        subscribed = pb.Subscribed(
            sidecar=self._stream.life.slot,
            epoch=self._stream.epoch,
            schema=schema_to_wire(self._view.schema),
            properties=definition.properties(),
            lmerge_case=definition.case,
        )
        data: bytes = pb.Delivery(subscribed=subscribed).SerializeToString()
        return data

    def _encoded(self, emit: ask.Emit) -> Iterator[bytes]:
        """An emit as deliveries: a small one made once for all who see the same, a large one piece
        by piece, as the transport takes it.
        """
        try:
            if emit.reset or len(emit.frame) > ROWS_PER_FRAME:
                yield from _deliveries(emit, self._view)
                return
            token = emit.tokens[SHARD]
            key = (self._view.key, token, len(emit.frame), emit.frame.stable)
            kept = self._stream.encoded
            data = kept.get(key)
            if data is None:
                data = kept[key] = next(_deliveries(emit, self._view))
                if len(kept) > ENCODED_MAX:
                    kept.popitem(last=False)
        except Refusal:
            raise
        except GaplessError as e:
            raise refusal_of(e) from None
        yield data


def _deliveries(emit: ask.Emit, view: FrameView) -> Iterator[bytes]:
    pieces: list[Frame] = cut(view.of(emit.frame))
    token = encode(emit.tokens)
    for i, piece in enumerate(pieces):
        is_last = i == len(pieces) - 1
        message = pb.Delivery(
            frames=[to_wire(piece, view.encoding)],
            token=token if is_last else "",
            reset=emit.reset,
            since=emit.since if emit.reset else BEGIN,
            more=not is_last,
        )
        data: bytes = message.SerializeToString()
        yield data


def start_of(request: pb.SubscribeRequest) -> StartAt:
    """Where a subscriber wants to begin. Raises `GaplessError`."""
    kind = request.WhichOneof("start")
    if kind == "token":
        return decode(request.token)
    if kind == "time":
        return int(request.time)
    if request.edge == pb.EDGE_BEGIN:
        return "earliest"
    if request.edge == pb.EDGE_NOW:
        return "now"
    raise Refusal("INVALID_ARGUMENT", f"start {request.edge}: 0 is now, 1 is the earliest")


def deliver_of(request: pb.SubscribeRequest) -> Deliver:
    """What a subscriber wants. Raises `Refusal`."""
    if request.deliver == pb.DELIVER_CHANGES:
        return "changes"
    if request.deliver == pb.DELIVER_FINAL:
        return "final"
    raise Refusal("INVALID_ARGUMENT", f"deliver {request.deliver}: 0 is changes, 1 final")


def view_of(
    stream: Stream, request: pb.SubscribeRequest | pb.TableRequest, columns_max: int
) -> FrameView:
    """What a subscriber wants to see. Raises `Refusal`."""
    key = ViewKey(tuple(request.columns), request.filter, int(request.encoding))
    return FrameView(stream.definition.schema, key, columns_max)
