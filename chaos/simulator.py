"""A seeded scheduler that runs the production machines through faults, in virtual time.

Two replicas, a merger and a subscriber, as they run in production, exchange their messages over
a network that delays, loses and repeats them, and keep their journals on a disk that forgets what
was not synced. One replica is killed and comes back at a join time, sometimes ahead of the
output; the merger is killed and comes back from its journal. Everything follows from one seed, so
a failure replays exactly.

After every step that moves the output it must be compatible with everything the replicas have
said; what the subscriber sees is exactly what the journal holds; and at the end it equals the
table computed from scratch. The shells below only pump: no decision about the protocol is here.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from gapless.chaos import workload
from gapless.chaos.storage import SimulatedDisk
from gapless.chaos.told import HEADER, told, told_session
from gapless.failover.merger import Merger
from gapless.failover.messages import (
    Append,
    Appended,
    Attach,
    Data,
    Effect,
    Emit,
    Event,
    OutputRead,
    ReadOutput,
    ReadSource,
    Send,
    Session,
    SourceRead,
    Start,
    Tick,
)
from gapless.failover.replica import Replica
from gapless.failover.subscriber import Subscriber
from gapless.journal.disk import Disk
from gapless.journal.file import JournalFile
from gapless.merge.compatible import check_compatible
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import BadData, Bug, GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb

REPLICAS = ("r1", "r2")
MERGER, SUBSCRIBER = "m1", "s1"
SOURCE_LOG, OUTPUT_LOG = "source.log", "output.log"
TICK_MS = 50
"""A quarter of the silence after which machines speak again: they notice it soon."""
SOURCE_FRAMES = 60
SOURCE_EVERY_MS = 20
"""A frame comes at this pace, so the source, and with it the faults, spans 1.2 s: time for half a
dozen resends, and for each of the killed to come back."""
READ_MS_MAX, SYNC_MS_MAX = 10, 30
"""How long the disk takes at most. Syncs may take longer than a frame's pace, so they queue."""
REPLICA_DOWN_MS, MERGER_DOWN_MS = (50, 400), (20, 400)
"""How long a killed machine stays away: less and more than the silence that others bear."""
STEPS_MAX = 20_000
"""A run that has not ended by then never will: about ten times what the longest good run takes."""


class Machine(Protocol):
    """What every state machine offers."""

    def on(self, event: Event, now: int) -> list[Effect]:
        """What follows from `event`."""

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


@dataclass(frozen=True, slots=True)
class Build:
    """Which machines run: production's, or one with a fault planted in it."""

    replica: type[Replica] = Replica
    merger: type[Merger] = Merger
    merge: type[LMerge] = LMerge
    subscriber: type[Subscriber] = Subscriber


PRODUCTION = Build()


@dataclass(slots=True)
class SimResult:
    """How one seed went."""

    seed: int
    ok: bool
    steps: int
    problem: str | None
    """What is wrong, for a person; None where all is well."""
    trace: list[str] = field(repr=False)


class Broken(BadData):
    """A promise of the product does not hold."""


class Simulation:
    """One schedule: the machines, their network and disk, and the faults."""

    def __init__(self, seed: int, build: Build = PRODUCTION, disk: Disk | None = None) -> None:
        self.now = 0
        self.steps = 0
        self.trace: list[str] = [HEADER]
        """What happened, a line each; ticks are left out."""
        self._rng = random.Random(f"simulation {seed}")
        self._build = build
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._machines: dict[str, Machine] = {}
        self._lives: dict[str, int] = {}
        self._loss = self._rng.choice((0.0, 0.05, 0.2))
        self._repeat = self._rng.choice((0.0, 0.1))
        self._delay_ms = self._rng.choice((5, 40, 150))

        self._disk: Disk = disk if disk is not None else SimulatedDisk()
        self._frames = workload.source_frames(self._rng, SOURCE_FRAMES)  # of the source
        self._source = JournalFile(self._disk, SOURCE_LOG, workload.SOURCE)
        self._source_stable = BEGIN
        self._schema = workload.plan().schema
        self._output = JournalFile(self._disk, OUTPUT_LOG, self._schema)
        self._writer = Incarnation(0, 0)
        self._merge = build.merge(self._schema, "r3")  # that of the merger's present life
        self._synced_at = 0  # appends become durable in their order

        self._said: dict[tuple[Session, int], Tdb] = {}  # what each session told each epoch
        self._merged = Tdb(self._schema)  # the output so far, durable or not
        self._seen = Tdb(self._schema)  # what the subscriber got

    # -- the world ----------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the schedule to its end; raises where a promise breaks."""
        for i, frame in enumerate(self._frames):
            self._at(SOURCE_EVERY_MS * i, partial(self._write_source, frame))
        self._start_merger()
        for name in REPLICAS:
            self._start_replica(name, BEGIN)
        self._start(SUBSCRIBER, self._build.subscriber(SUBSCRIBER, MERGER))
        self._plan_faults()
        while self._seen.stable != INF:
            if not self._agenda or self.steps >= STEPS_MAX:
                raise Broken(self._stopped())
            self.now, _, action = heapq.heappop(self._agenda)
            self.steps += 1
            action()
        wanted = workload.expected(self._frames)
        if self._seen != wanted:
            raise Broken(
                f"the output is not the table (left: output):\n{self._seen.difference(wanted)}"
            )

    def _stopped(self) -> str:
        """That nothing more comes, and what each machine waits for."""
        lines = [f"the output stopped at stable {format_time(self._seen.stable)}"]
        for name, life in self._lives.items():
            match self._machines.get(name):
                case None:
                    waits = "is down"
                case Merger():
                    waits = f"waits for {self._merge.waiting_for or 'what an input may say'}"
                case Replica() as replica:
                    waits = f"tells {told_session(replica.session)}"
                case Subscriber() as subscriber:
                    waits = f"waits for what follows byte {subscriber.token.offset}"
                case _:
                    waits = "is there"
            lines.append(f"{name}.{life} {waits}")
        return "\n  ".join(lines)

    def _plan_faults(self) -> None:
        end = SOURCE_EVERY_MS * SOURCE_FRAMES
        victim = self._rng.choice(REPLICAS)
        self._at(self._rng.randrange(end), lambda: self._kill_replica(victim))
        for _ in range(self._rng.randint(1, 2)):
            self._at(self._rng.randrange(end), self._kill_merger)

    def _tell(self, what: str) -> None:
        self.trace.append(f"{self.now:>6} {what}")

    def _at(self, when: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._agenda, (when, self._scheduled, action))

    def _write_source(self, frame: Frame) -> None:
        self._source.append(frame, self._writer)
        if frame.stable is not None:
            self._source_stable = frame.stable

    # -- machines and their shells ------------------------------------------------------------

    def _start(self, name: str, machine: Machine) -> None:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        self._machines[name] = machine
        self._happens(name, life, Start())
        self._tick(name, life)

    def _tick(self, name: str, life: int) -> None:
        if self._lives[name] == life and name in self._machines:
            self._happens(name, life, Tick())
            self._at(self.now + TICK_MS, lambda: self._tick(name, life))

    def _happens(self, name: str, life: int, event: Event) -> None:
        """Gives an event to a machine, if that life of it still lives, and does what follows."""
        machine = self._machines.get(name)
        if machine is None or self._lives[name] != life:
            return
        if not isinstance(event, Tick):
            self._tell(f"{name}.{life} {told(event)}")
        for effect in machine.on(event, self.now):
            self._do(name, life, effect)
        machine.validate()
        if isinstance(machine, Merger) and isinstance(event, Attach | Data):
            check_compatible(list(self._said.values()), self._merged)

    def _do(self, name: str, life: int, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self._send(f"{name}.{life}", to, message)
            case ReadSource(position, since):
                self._read_source(name, life, position, since)
            case Append(frame, stable):
                self._merged.fold(frame)
                offset = self._output.append(frame, Incarnation(0, life))
                done = Appended(offset, stable)
                self._synced_at = max(self._synced_at, self.now + self._rng.randint(1, SYNC_MS_MAX))
                self._at(self._synced_at, lambda: self._synced(name, life, done))
            case ReadOutput(subscriber, after):
                record = self._output.read(after)
                if record is None:
                    raise Bug(f"the output journal ends before offset {after}")
                self._happens(name, life, OutputRead(subscriber, after, *record))
            case Emit(frame, _):
                self._seen.fold(frame)

    def _read_source(self, name: str, life: int, position: int | None, since: int) -> None:
        at = self._source.seek(since) if position is None else position
        record = self._source.read(at)
        read = SourceRead(None, at) if record is None else SourceRead(*record)
        when = self.now + self._rng.randint(1, READ_MS_MAX)
        self._at(when, lambda: self._happens(name, life, read))

    def _synced(self, name: str, life: int, done: Appended) -> None:
        if self._lives[name] == life and name in self._machines:
            self._output.sync()
            self._happens(name, life, done)

    def _send(self, sender: str, to: str, message: Event) -> None:
        copies = (self._rng.random() >= self._loss) + (self._rng.random() < self._repeat)
        if copies != 1:
            fate = "repeated" if copies else "lost"
            self._tell(f"{fate} on the way from {sender} to {to}: {told(message)}")
        for _ in range(copies):
            when = self.now + self._rng.randint(1, self._delay_ms)
            self._at(when, lambda: self._arrive(to, message))

    def _arrive(self, to: str, message: Event) -> None:
        machine = self._machines.get(to)
        if machine is None:
            self._tell(f"lost, as {to} is down: {told(message)}")
            return
        if isinstance(machine, Merger):
            self._overhear(machine, message)
        self._happens(to, self._lives[to], message)

    def _overhear(self, merger: Merger, message: Event) -> None:
        """Keeps what each session tells this life of the merger, for the compatibility check."""
        if isinstance(message, Attach):
            key = (message.session, merger.epoch)
            if merger.expects(message.session, 0) and key not in self._said:
                self._said[key] = Tdb(self._schema)
                self._said[key].fold(message.tail)
        elif isinstance(message, Data) and merger.expects(message.session, message.sequence):
            self._said[message.session, merger.epoch].fold(message.frame)

    # -- faults -------------------------------------------------------------------------------

    def _start_replica(self, name: str, join_at: int) -> None:
        incarnation = Incarnation(0, self._lives.get(name, 0))
        self._start(name, self._build.replica(name, incarnation, workload.plan(), MERGER, join_at))

    def _kill_replica(self, name: str) -> None:
        self._tell(f"kill {name}")
        del self._machines[name]
        self._at(self.now + self._rng.randint(*REPLICA_DOWN_MS), lambda: self._rejoin(name))

    def _rejoin(self, name: str) -> None:
        """Back at the durable stable, or ahead of it, where it may not act before the output."""
        merger = self._machines.get(MERGER)
        durable = merger.durable_stable if isinstance(merger, Merger) else BEGIN
        ahead = max(durable, self._source_stable)
        join_at = self._rng.choice((durable, ahead))
        self._tell(f"{name} joins at {format_time(join_at)}")
        self._start_replica(name, BEGIN if join_at == INF else join_at)

    def _start_merger(self) -> None:
        live, offset = self._recover_output()
        epoch = self._lives.get(MERGER, 0) + 1
        self._merge = self._build.merge(self._schema, "r3")
        self._start(MERGER, self._build.merger(MERGER, epoch, self._merge, live, offset))

    def _recover_output(self) -> tuple[Frame, int]:
        offset = self._output.recover()
        table = Tdb(self._schema)
        for frame, _ in self._output.frames():
            table.fold(frame)
        self._merged = table
        return table.to_frame(), offset

    def _kill_merger(self) -> None:
        if MERGER not in self._machines:
            return
        self._tell(f"kill {MERGER}")
        del self._machines[MERGER]
        if isinstance(self._disk, SimulatedDisk):
            size = self._disk.size(OUTPUT_LOG)
            self._disk.crash(OUTPUT_LOG, self._rng)
            self._tell(f"forgot {size - self._disk.size(OUTPUT_LOG)} bytes of {OUTPUT_LOG}")
        self._at(self.now + self._rng.randint(*MERGER_DOWN_MS), self._start_merger)


def run_seed(seed: int, build: Build = PRODUCTION) -> SimResult:
    """Runs one schedule; never raises for a broken promise, says it in the result."""
    simulation = Simulation(seed, build)
    problem = None
    try:
        simulation.run()
    except GaplessError as e:
        problem = f"at {simulation.now} ms: {type(e).__name__}: {e}"
    return SimResult(seed, problem is None, simulation.steps, problem, simulation.trace)
