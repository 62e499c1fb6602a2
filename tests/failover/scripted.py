"""Mergers by script, and a network that loses: what subscribers are tested against.

A scripted merger has the whole of one physical stream in its journal from the start; more and more
of it becomes durable as time goes on. It answers as a merger does, and may be away, come back in
another epoch, or have forgotten what came first.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.messages import (
    Declined,
    Delivery,
    Fetch,
    Message,
    Open,
    Opened,
    Token,
)
from gapless.failover.parts import cut
from gapless.failover.subscriber.effects import Emit, Give, SubscriberEffect
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.subscriber.tokens import decode, encode
from gapless.failover.table import Received
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

TICK_MS = 50
FRAME_EVERY_MS = 60
SPAN_MS = 60_000


class ScriptedMerger:
    """One merger's journal, and how it answers."""

    def __init__(self, slot: str, frames: list[Frame], rng: random.Random) -> None:
        self.slot = slot
        self.epoch = 1
        self.is_away = False
        self.kept_from = 0  # the first frame that retention has left
        self._frames = frames
        self._rng = rng
        self._durable = 0
        self._rows = Frame.concat([f.with_stable(None) for f in frames])
        self._ends = [0]
        for frame in frames:
            self._ends.append(self._ends[-1] + len(frame))
        self._waiting: dict[str, Message] = {}
        self._tables: dict[str, list[Opened]] = {}  # handed out in parts

    @property
    def stable(self) -> int:
        return self._stable_at(self._durable)

    @property
    def offset(self) -> int:
        return self._ends[self._durable]

    def _stable_at(self, frames: int) -> int:
        stables = [f.stable for f in self._frames[:frames] if f.stable is not None]
        return stables[-1] if stables else BEGIN

    def grow(self) -> list[Send]:
        """One more frame is durable; waiting subscribers are answered."""
        if self._durable < len(self._frames):
            self._durable += 1
        waiting, self._waiting = self._waiting, {}
        return [send for question in waiting.values() for send in self.on(question)]

    def restart(self) -> None:
        self.epoch += 1
        self._waiting.clear()
        self._tables.clear()

    def trim(self) -> None:
        """All that is durable now is known as a table only."""
        self.kept_from = self._durable

    def on(self, question: Message) -> list[Send]:
        if self.is_away:
            return []
        match question:
            case Fetch(subscriber, token):
                answer: Message | None = self._fetched(token)
            case Open(subscriber, attempt, since, part):
                held = self._tables.get(subscriber, [])
                if 0 < part < len(held) and held[0].attempt == attempt:
                    return [Send(subscriber, held[part])]
                answer = self._opened(attempt, self.stable if since is None else since)
                if isinstance(answer, Opened):
                    self._tables[subscriber] = self._cut(answer)
                    answer = self._tables[subscriber][0]
            case _:
                raise AssertionError(question)
        if answer is None:
            self._waiting[subscriber] = question
            return []
        return [Send(subscriber, answer)]

    def _cut(self, whole: Opened) -> list[Opened]:
        """A table in parts, as large as they happen to be."""
        frames = cut(whole.frame, self._rng.randint(1, 5))
        return [replace(whole, frame=f, part=i, parts=len(frames)) for i, f in enumerate(frames)]

    def _fetched(self, token: Token) -> Message | None:
        if token.merger != self.slot:
            return Declined(self.slot, token, "elsewhere", f"the token is of {token.merger}")
        if token.offset > self.offset:
            return Declined(self.slot, token, "future", "nobody has given it")
        if token.offset < self._ends[self.kept_from]:
            return Declined(self.slot, token, "trimmed", "that is gone")
        if token.offset == self.offset and token.stable >= self.stable:
            return None
        ends = [
            k for k in range(self.kept_from, self._durable + 1) if self._ends[k] >= token.offset
        ]
        ends = [
            k for k in ends if self._ends[k] > token.offset or self._stable_at(k) > token.stable
        ]
        upto = self._rng.choice(ends[:4])
        rows = self._rows.slice(token.offset, self._ends[upto] - token.offset)
        stable = self._stable_at(upto)
        frame = rows.with_stable(stable if stable > token.stable else None)
        behind = Token(self.slot, self.epoch, self._ends[upto], max(stable, token.stable))
        return Delivery(token.offset, frame, behind)

    def _opened(self, attempt: int, since: int) -> Message | None:
        if since > self.stable:
            return None
        if self.kept_from and since < self._stable_at(self.kept_from):
            return Declined(self.slot, attempt, "trimmed", "that is gone")
        table = Tdb(self._rows.schema)
        for frame in self._frames[: self._durable]:
            table.fold(frame)
        frame = table.since(since).to_frame()
        return Opened(attempt, since, frame, Token(self.slot, self.epoch, self.offset, self.stable))


@dataclass
class Kept:
    """What a program has kept, as one."""

    held: Frame
    tokens: str
    since: int


@dataclass
class World:
    """Scripted mergers, a network, and one subscriber with its program."""

    rng: random.Random
    schema: StreamSchema
    mergers: dict[str, ScriptedMerger]
    subscriber: Callable[..., Subscriber]
    how: dict[str, Any]
    table: Tdb
    """What all shards together tell."""
    choose: Callable[[], Mapping[str, tuple[str, ...]]]
    """Which mergers the next life of the subscriber reads."""
    loss: float = 0.1
    repeat: float = 0.1
    delay_ms: int = 60
    now: int = 0
    given: Give | None = None
    kept: list[Kept] = field(default_factory=list)
    stables: list[int] = field(default_factory=list)
    _agenda: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _scheduled: int = 0

    def __post_init__(self) -> None:
        self.received = Received(self.schema, self.how.get("deliver", "changes"))
        self.machine = self._made("fresh")
        for merger in self.mergers.values():
            self.at(self.rng.randrange(FRAME_EVERY_MS), partial(self._grow, merger))

    def _made(self, start: Any) -> Subscriber:
        at = self.how["start"] if start == "fresh" else start
        how = {**self.how, "start": at}
        machine = self.subscriber("s", self.choose(), self.schema, **how)
        life = self.life = object()
        self.at(self.now, lambda: self._happens(Start()) if self.life is life else None)
        self._tick(life)
        return machine

    def at(self, when: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._agenda, (when, self._scheduled, action))

    def run(self) -> None:
        """Until the output has ended or the program got an error; or for too long."""
        while self.now < SPAN_MS and not self.machine.has_ended and self.given is None:
            self.now, _, action = heapq.heappop(self._agenda)
            action()

    def _tick(self, life: object) -> None:
        def tick() -> None:
            if self.life is life:
                self._happens(Tick())
                self._tick(life)

        self.at(self.now + TICK_MS, tick)

    def _grow(self, merger: ScriptedMerger) -> None:
        if not merger.is_away:
            self._send_all(merger.grow())
        self.at(self.now + self.rng.randint(1, 2 * FRAME_EVERY_MS), lambda: self._grow(merger))

    def _happens(self, event: Any) -> None:
        self._do(self.machine.on(event, self.now))
        self.machine.validate()

    def _do(self, effects: list[SubscriberEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send_all([effect])
                case Emit():
                    self.received.take(effect)
                    self.received.validate()
                    if effect.frame.stable is not None:
                        self.stables.append(effect.frame.stable)
                    self._keep()
                case Give():
                    self.given = effect

    def _keep(self) -> None:
        received = self.received
        self.kept.append(Kept(received.frame(), encode(received.tokens), received.since))

    def _send_all(self, sends: list[Send]) -> None:
        for send in sends:
            copies = (self.rng.random() >= self.loss) + (self.rng.random() < self.repeat)
            for _ in range(copies):
                when = self.now + self.rng.randint(1, self.delay_ms)
                self.at(when, partial(self._arrives, send))

    def _arrives(self, send: Send) -> None:
        merger = self.mergers.get(send.to)
        if merger is None:
            self._happens(send.message)
        else:
            self._send_all(merger.on(send.message))

    # -- faults -------------------------------------------------------------------------------

    def restart(self, back: int = 0) -> None:
        """The program dies, and begins again with what it had kept `back` emits before its last."""
        del self.kept[len(self.kept) - min(back, len(self.kept)) :]
        deliver = self.received.deliver
        if not self.kept:
            self.received, self.stables = Received(self.schema, deliver), []
            self.machine = self._made("fresh")
            return
        kept = self.kept[-1]
        tokens = decode(kept.tokens)
        self.received = Received(self.schema, deliver, kept.held, tokens, kept.since)
        self.stables = [] if self.received.stable == BEGIN else [self.received.stable]
        self.machine = self._made(tokens)
