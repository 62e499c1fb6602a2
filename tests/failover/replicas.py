"""A replica at work in tests: real plans over rows in memory, and mergers that only take in.

    world = World(seed, plan, faults)      one replica, two receivers, a network between them
    world.run()
    world.receivers["m0.0"].table          what a merger would know

A receiver is the smallest thing that a merger is to a replica: it takes the frames of a session in
order, once each, and adds them up. Its journal is the table that it keeps when it restarts; what it
took in since the last append is lost then, as with a merger.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.failover.effects import Exit, Send, Start, Tick
from gapless.failover.life_start import Origin, Replay, ReplicaStart
from gapless.failover.messages import SUPERVISOR, Ack, Attach, Data, Life, Refused, Session
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    Done,
    LoadCheckpoint,
    OpenSources,
    ReadSource,
    ReplicaEffect,
    ReplicaEvent,
    SkipSource,
    SourceRead,
    Work,
)
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.timing import Timing
from gapless.operators.aggregates.calls import count
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

LIFE = Life("r0.0", Incarnation(3, 1))
MERGERS = ("m0.0", "m0.1")
TICK_MS = 50
SLIDE = 10
LATENESS = 8
END = 300
"""Other replicas are no further than that."""


def flows(name: str = "flows") -> Query:
    return source(name, {"ts": "int64", "src": "string", "len": "int64"}, time="ts", lateness=8)


def counting(early: bool = False) -> Plan:
    """A filter and a tumbling count; with early answers, and their revisions."""
    query = flows().where(col("len") > 2).window(range=SLIDE, slide=SLIDE).group_by("src")
    return Plan(query.aggregate(early=True if early else None, packets=count()))


def passing() -> Plan:
    return Plan(flows().where(col("len") > 2))


def joining() -> Plan:
    """Two sources."""
    left = flows().window(range=SLIDE, slide=SLIDE).group_by("src").aggregate(packets=count())
    right = (
        flows("others").window(range=SLIDE, slide=SLIDE).group_by("src").aggregate(others=count())
    )
    return Plan(left.join(right, on="src"))


PLANS = {
    "counting": counting,
    "early": lambda: counting(early=True),
    "passing": passing,
    "joining": joining,
}


def rows(schema: StreamSchema, times: Sequence[int], rng: random.Random) -> Frame:
    columns = {
        "ts": pa.array(times, pa.int64()),
        "src": pa.array([rng.choice("abc") for _ in times], pa.string()),
        "len": pa.array([rng.randint(0, 9) for _ in times], pa.int64()),
    }
    ts = columns["ts"].to_numpy()
    return Frame.from_columns(schema, ts, ts + 1, [columns[n] for n in schema.names])


def journal(schema: StreamSchema, rng: random.Random, frames: int = 100) -> list[Frame]:
    """Frames as a journal's reader gives them: rows in disorder, stables, an end."""
    out, front, promised = [], 0, BEGIN
    for _ in range(frames):
        times = []
        for _ in range(rng.randint(0, 5)):
            front += rng.randint(0, 4)
            times.append(max(0, promised, front - rng.randint(0, LATENESS)))
        frame = rows(schema, times, rng)
        if rng.random() < 0.8 and front - LATENESS > promised:
            promised = front - LATENESS
            frame = frame.with_stable(promised)
        out.append(frame)
    return [*out, Frame.empty(schema, INF)]


def answer(plan: Plan, journals: dict[str, list[Frame]]) -> Tdb:
    """What an undisturbed run puts out."""
    executor = Executor("plan", plan)
    table = Tdb(executor.schema)
    for name, frames in journals.items():
        for frame in frames:
            table.fold(executor.push(name, frame))
    return table


def started_with(
    *origins: Origin, held_at: int = INF, mergers: tuple[str, ...] = MERGERS
) -> ReplicaStart:
    return ReplicaStart(0, "plan", mergers, 1, origins or (Replay(),), held_at)


def sent(effects: Sequence[ReplicaEffect], kind: type) -> list[Any]:
    """The messages of a kind."""
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


@dataclass
class Pump:
    """Does what a replica's effects say, except for messages to mergers: those it gives back."""

    journals: dict[str, list[Frame]]
    opened: OpenSources | None = None
    skips: list[SkipSource] = field(default_factory=list)
    stored: dict[str, Checkpoint] = field(default_factory=dict)
    shown: int | None = None
    """How many frames of each journal are there; None: all."""
    exited: str | None = None

    def drive(self, machine: Replica, event: ReplicaEvent, now: int) -> list[Send]:
        """Everything that follows from an event at once."""
        said, events = [], [event]
        while events:
            for effect in machine.on(events.pop(0), now):
                match effect:
                    case Send():
                        said.append(effect)
                    case Exit(reason):
                        self.exited = reason
                    case _:
                        events += self.answers(effect)
        return said

    def answers(self, effect: ReplicaEffect) -> list[ReplicaEvent]:
        match effect:
            case OpenSources():
                self.opened = effect
                given = effect.positions or {}
                self.at = {name: given.get(name, {0: 0})[0] for name in self.journals}
            case SkipSource():
                self.skips.append(effect)
            case ReadSource(name):
                return [self.read(name)]
            case LoadCheckpoint(name):
                return [CheckpointLoaded(name, self.stored.get(name))]
            case Work(number, _, do):
                return [Done(number, do())]
        return []

    def read(self, name: str) -> SourceRead:
        frames, at = self.journals[name], self.at[name]
        if at >= (len(frames) if self.shown is None else min(self.shown, len(frames))):
            return SourceRead(name, None, {0: at})
        self.at[name] += 1
        return SourceRead(name, frames[at], {0: at + 1})


@dataclass
class Receiver:
    """What a merger is to a replica."""

    slot: str
    schema: StreamSchema
    epoch: int = 1
    session: Session | None = None
    taken: int = -1
    detours: int = 0
    """Sessions before this one."""
    busy_until: int = 0
    is_busy: bool = False
    """Whether it takes nothing in, for it holds too much."""

    def __post_init__(self) -> None:
        self.durable = Tdb(self.schema)
        self.held: list[Frame] = []
        self.join_at = BEGIN

    @property
    def table(self) -> Tdb:
        """What is durable, and then, of `ve` from the join on, what the session told."""
        told = Tdb(self.schema)
        for frame in self.held:
            told.fold(frame)
        return told

    def on(self, message: Any) -> Ack | Refused:
        match message:
            case Attach(session, join_at, tail):
                if self.session is None or session > self.session:
                    self.detours += self.session is not None
                    self.session, self.taken = session, 0
                    self.held, self.join_at = [tail], join_at
                elif session < self.session:
                    return Refused(session, self.epoch, "a later session is attached")
            case Data(session, sequence, frame):
                if session != self.session:
                    return Refused(session, self.epoch, "no such session")
                if sequence == self.taken + 1 and not self.is_busy:
                    self.taken = sequence
                    self.held.append(frame)
        return self.ack()

    def ack(self) -> Ack:
        assert self.session is not None
        stable = self.durable.stable
        return Ack(self.session, self.epoch, self.taken, stable, stable, throttled=self.is_busy)

    def append(self) -> None:
        """Makes all durable, if the session holds what follows on what is."""
        if self.join_at > self.durable.stable or self.session is None:
            return
        told = self.table
        if told.stable < self.durable.stable:
            return
        at = self.durable.stable
        kept = [e for e in self.durable.events if e.ve < at]
        whole = Tdb(self.schema, [*kept, *told.since(at).events])
        whole.stable = told.stable
        self.durable = whole

    def hear_of(self, truth: Tdb, t: int) -> None:
        """Other replicas have told it all up to a time."""
        if t > self.durable.stable:
            self.durable = Tdb(self.schema, [e for e in truth.events if e.vs < t])
            self.durable.stable = t

    def restart(self) -> None:
        """Another life, with what the journal holds."""
        self.epoch += 1
        self.session, self.taken, self.held, self.join_at = None, -1, [], BEGIN


@dataclass(frozen=True)
class Faults:
    """How bad it is."""

    loss: float = 0.1
    doubled: float = 0.1
    delay_ms: int = 120
    restarts: float = 0.01
    """Of a receiver, each tick."""
    others: float = 0.05
    """A receiver hears of other replicas how it goes on: so often, each tick; the second one only
    with odd seeds."""
    busy: float = 0.02
    """A receiver takes in nothing for a while: begins so often, each tick."""
    blackouts: float = 0.02
    """A receiver is out of reach for a while: begins so often, each tick."""


class World:
    """One replica and its receivers, over a network that loses, doubles and reorders."""

    def __init__(
        self, seed: int, plan: Plan, faults: Faults, replica: type[Replica] = Replica
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.faults = faults
        self.executor = Executor("plan", plan)
        sources = self.executor.sources
        self.journals = {name: journal(schema, self.rng) for name, schema in sources.items()}
        self.truth = answer(plan, self.journals)
        self.pump = Pump(self.journals)
        self.machine = replica(LIFE, started_with(), self.executor, Timing())
        self.receivers = {slot: Receiver(slot, self.executor.schema) for slot in MERGERS}
        self.now = 0
        self.on_way: list[tuple[int, int, str, Any]] = []
        self.sent = 0
        self.dark: dict[str, int] = {}
        """Until when a receiver is out of reach."""
        self.skips = 0
        """How often frames were left out that were settled before they were sent."""

    def post(self, to: str, message: Any, quiet: bool) -> None:
        if to == SUPERVISOR:
            return
        copies = 1
        if not quiet:
            copies = 0 if self.rng.random() < self.faults.loss else 1
            copies += self.rng.random() < self.faults.doubled
        for _ in range(copies):
            self.sent += 1
            at = self.now + self.rng.randint(1, self.faults.delay_ms)
            self.on_way.append((at, self.sent, to, message))

    def run(self, calm: int, ticks: int = 200) -> None:
        """Faults for a while, then calm, in which all must come right."""
        self.pump.shown = 1
        self.step(Start(), quiet=False)
        for tick in range(ticks + calm):
            quiet = tick >= ticks
            self.pump.shown = 1 + tick * 120 // ticks
            self.now += TICK_MS
            due = sorted(m for m in self.on_way if m[0] <= self.now)
            self.on_way = [m for m in self.on_way if m[0] > self.now]
            for _, _, to, message in due:
                if self.now < self.dark.get(to, 0) and not quiet:
                    continue
                if to in self.receivers:
                    self.post("replica", self.receivers[to].on(message), quiet)
                else:
                    self.step(message, quiet)
            for receiver in self.receivers.values():
                self.live(receiver, quiet)
            self.step(Tick(), quiet)

    def live(self, receiver: Receiver, quiet: bool) -> None:
        if self.rng.random() < 0.2:
            receiver.append()
            if receiver.session is not None:
                self.post("replica", receiver.ack(), quiet)
        if not quiet and self.rng.random() < self.faults.restarts:
            receiver.restart()
        may_hear = receiver.slot == MERGERS[0] or self.seed % 2
        if not quiet and may_hear and self.rng.random() < self.faults.others:
            at = max(self.executor.stable, receiver.durable.stable, 0)
            receiver.hear_of(self.truth, min(at + self.rng.randint(0, 40), END))
        if not quiet and self.rng.random() < self.faults.blackouts:
            self.dark[receiver.slot] = self.now + self.rng.randint(100, 2000)
        if not quiet and self.rng.random() < self.faults.busy:
            receiver.busy_until = self.now + self.rng.randint(500, 3000)
        receiver.is_busy = self.now < receiver.busy_until and not quiet

    def step(self, event: ReplicaEvent, quiet: bool) -> None:
        for send in self.pump.drive(self.machine, event, self.now):
            self.post(send.to, send.message, quiet)
        self.machine.validate()
        self.skips += any(link.skipped > BEGIN for link in self.machine.output.links)
