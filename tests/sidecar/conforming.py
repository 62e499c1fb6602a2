"""A client of the wire that was written from docs/sidecar.md alone, and ways to break each rule.

It has no thread and no machine: it pushes the workload of the examination step by step, and keeps
in a dictionary what is not settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import grpc

from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Stable
from gapless.protocol.frame import Frame
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.conformance import workload
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.frames import to_wire

READY_S = 0.5
AWAY = ("UNAVAILABLE", "DATA_LOSS")


class Ended(Exception):
    """It is over for good."""


class Conforming:
    """Keeps the rules. Each method may be overridden by one that does not."""

    incarnation = 7

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(
            address,
            [
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.initial_reconnect_backoff_ms", 20),
                ("grpc.max_reconnect_backoff_ms", 50),
            ],
        )

    def run(self) -> None:
        """The whole examination."""
        for stream in (workload.STREAM, workload.FENCED_STREAM):
            self.stream = stream
            self.known: dict[int, int] = {}
            self.own = self.durable = BEGIN
            self.ended = False
            try:
                self.push_all()
            except Ended:
                return

    def push_all(self) -> None:
        """Call after call, until all is said."""
        self.waiting: list[list[Element]] = []  # steps that were not acknowledged
        self.steps = iter(
            [*(workload.step(t) for t in range(1, workload.STEPS + 1)), workload.end()]
        )
        while not self.ended:
            try:
                self.call()
            except grpc.RpcError as e:
                self.goes_by(e)

    def goes_by(self, error: Any) -> None:
        """What an error means: rule 10."""
        if self.why == pb.Detached.WHY_ABSENT:
            self.incarnation += 1
        elif error.code().name not in AWAY:
            raise Ended

    def call(self) -> None:
        """One call."""
        self.said: SimpleQueue[pb.PushRequest | None] = SimpleQueue()
        self.why: int | None = None
        try:
            grpc.channel_ready_future(self.channel).result(READY_S)
        except grpc.FutureTimeoutError:
            raise Ended from None
        for request in self.first():
            self.said.put(request)
        push = self.channel.stream_stream(
            "/gapless.v1.Sidecar/Push", pb.PushRequest.SerializeToString, pb.PushReply.FromString
        )
        self.replies = push(iter(self.said.get, None))
        self.sequence = self.acked = 0
        for reply in self.replies:
            kind = reply.WhichOneof("message")
            if kind == "detached":
                self.why = reply.detached.why
                continue
            heard = reply.attached if kind == "attached" else reply.ack
            self.acked = max(self.acked, getattr(heard, "sequence", 0))
            self.credits = heard.credits
            self.durable = max(self.durable, heard.durable_stable)
            self.forget()
            self.send()
        self.said.put(None)

    # -- what is told first -------------------------------------------------------------------

    def first(self) -> Iterator[pb.PushRequest]:
        """The attach, and the tail."""
        tail = self.tail()
        attach = pb.Attach(
            stream=self.stream,
            producer="examined",
            incarnation=self.incarnation,
            schema=schema_to_wire(workload.SCHEMA),
            tail_frames=len(tail),
        )
        if self.durable != BEGIN:
            attach.join_at = self.joins_at()
        yield pb.PushRequest(attach=attach)
        for frame in tail:
            yield pb.PushRequest(frame=frame)

    def joins_at(self) -> int:
        """From where on all is told."""
        return min(self.durable, self.own)

    def tail(self) -> list[pb.Frame]:
        """What is not settled, in two frames, and the stable behind them."""
        rows: list[Element] = [Insert((n,), n, end) for n, end in self.known.items()]
        if self.own == BEGIN:
            return []
        half = len(rows) // 2
        parts = [part for part in (rows[:half], rows[half:]) if part]
        return [*map(self.frame, parts), self.frame([Stable(self.own)])]

    # -- what follows -------------------------------------------------------------------------

    def send(self) -> None:
        """As many frames as there is credit for; after a round all of it is waited for."""
        while self.may_send():
            step = next(self.steps, None)
            if step is None:
                if self.acked == self.sequence:
                    self.leave()
                return
            self.sequence += 1
            self.keep(step)
            self.said.put(pb.PushRequest(frame=self.frame(step, self.sequence)))

    def may_send(self) -> bool:
        """Whether there is credit."""
        return not self.ended and self.sequence - self.acked < self.credits

    def keep(self, step: list[Element]) -> None:
        """What is said may have to be repeated."""
        for element in step:
            if isinstance(element, Stable):
                self.own = element.t
            elif isinstance(element, Insert | Adjust):
                self.known[element.payload[0]] = element.ve

    def forget(self) -> None:
        """What is settled."""
        floor = self.floor()
        self.known = {n: end for n, end in self.known.items() if end >= floor}

    def floor(self) -> int:
        """What ends before it is settled."""
        return min(self.durable, self.own)

    def leave(self) -> None:
        """All is said."""
        self.ended = True
        self.said.put(pb.PushRequest(detach=pb.Detach(reason="done")))

    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        """A frame, as a message."""
        return to_wire(Frame.from_elements(workload.SCHEMA, elements), sequence=sequence)


# -- clients that break a rule --------------------------------------------------------------------


class SaysAFrameFirst(Conforming):
    def first(self) -> Iterator[pb.PushRequest]:
        yield pb.PushRequest(frame=self.frame(workload.step(1), 1))


class HasTheLastIncarnationThereIs(Conforming):
    incarnation = 2**64 - 1


class LeavesASequenceOut(Conforming):
    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        return super().frame(elements, sequence + (sequence > 3))


class KnowsNoCredits(Conforming):
    def may_send(self) -> bool:
        return not self.ended and self.sequence - self.acked < 8


class ForgetsByTheDurableStableAlone(Conforming):
    def floor(self) -> int:
        return self.durable


class TellsNothingAgain(Conforming):
    def tail(self) -> list[pb.Frame]:
        return []


class JoinsTooLate(Conforming):
    def joins_at(self) -> int:
        return self.durable + 100


class HasItsStableInTheFirstFrameOfATail(Conforming):
    def tail(self) -> list[pb.Frame]:
        tail = super().tail()
        return [*tail[-1:], *tail[:-1]]


class CountsTheFramesOfATail(Conforming):
    def tail(self) -> list[pb.Frame]:
        tail = super().tail()
        for number, frame in enumerate(tail, 1):
            frame.sequence = number
        return tail


class PromisesTooMuch(Conforming):
    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        made = super().frame(elements, sequence)
        made.stable = 5 if sequence == 4 else made.stable
        return made


class AdjustsWhatIsNotThere(Conforming):
    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        if sequence == 2:
            return super().frame([Adjust((50,), 50, 53, 90)], sequence)
        return super().frame(elements, sequence)


class GoesBack(Conforming):
    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        made = super().frame(elements, sequence)
        made.stable = -made.stable if sequence == 5 else made.stable
        return made


class HasAWrongChecksum(Conforming):
    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        made = super().frame(elements, sequence)
        made.crc32 ^= sequence == 3
        return made


class SaysRowsThatAreNone(Conforming):
    def frame(self, elements: list[Element], sequence: int = 0) -> pb.Frame:
        made = super().frame(elements, sequence)
        if sequence == 2:
            made.ClearField("crc32")
            made.body = b"rows"
        return made


class BreaksOffWhenItLeaves(Conforming):
    def leave(self) -> None:
        super().leave()
        self.replies.cancel()


class TalksOnAfterItHasLeft(Conforming):
    def leave(self) -> None:
        super().leave()
        self.said.put(pb.PushRequest(frame=self.frame([Stable(INF)], self.sequence + 1)))


class EndsWithoutADetach(Conforming):
    def leave(self) -> None:
        self.ended = True
        self.said.put(None)


class GivesUpAfterAChecksum(Conforming):
    def goes_by(self, error: Any) -> None:
        if error.code().name == "DATA_LOSS":
            raise Ended
        super().goes_by(error)


class StaysWhoItIsAfterAnAbsence(Conforming):
    def goes_by(self, error: Any) -> None:
        if self.why != pb.Detached.WHY_ABSENT:
            super().goes_by(error)


class ComesAgainThoughALaterOneHas(Conforming):
    def goes_by(self, error: Any) -> None:
        if self.why != pb.Detached.WHY_FENCED:
            super().goes_by(error)


BROKEN: dict[type[Conforming], int] = {
    SaysAFrameFirst: 1,
    HasTheLastIncarnationThereIs: 1,
    LeavesASequenceOut: 2,
    KnowsNoCredits: 3,
    ForgetsByTheDurableStableAlone: 4,
    TellsNothingAgain: 4,
    JoinsTooLate: 5,
    HasItsStableInTheFirstFrameOfATail: 6,
    CountsTheFramesOfATail: 6,
    PromisesTooMuch: 7,
    AdjustsWhatIsNotThere: 7,
    GoesBack: 7,
    HasAWrongChecksum: 8,
    SaysRowsThatAreNone: 8,
    BreaksOffWhenItLeaves: 9,
    TalksOnAfterItHasLeft: 9,
    EndsWithoutADetach: 9,
    GivesUpAfterAChecksum: 10,
    StaysWhoItIsAfterAnAbsence: 10,
    ComesAgainThoughALaterOneHas: 10,
}
"""Each with the rule that it breaks."""
