"""A seeded scheduler that runs the production machines through faults, in virtual time.

    a seed --> workload, faults, network --> agenda: what happens next, and when
                                               |
               processes (machines + shells) <-+-> network, disk      processes.py, cluster.py,
                                               |                      network.py, disk.py
                          facts --> history --> checkers              judge/history.py, checkers/

Three replicas and two mergers a shard, a supervisor and subscribers run exactly the code that they
run in production: state machines, engine, LMerge, journals. They die, freeze, lag behind, come back
as zombies; messages are late, lost, doubled, held up; disks are full, tear what was not synced,
flip bits. Everything follows from one seed, so a failure replays exactly; every step knows the step
that it follows from, so a failure comes with its chain of causes.

The checkers (one a promise) see every fact when it happens; at the end each says whether its
promise holds. No decision about the protocol is here.
"""

from __future__ import annotations

import gc
import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gapless.chaos.judge.history import Broken, Fact, History, Verdict, Written
from gapless.chaos.sim import work_time as toil
from gapless.chaos.sim.checkers.all import every
from gapless.chaos.sim.checkers.converge import Converges
from gapless.chaos.sim.checkers.memory import MemoryReturns
from gapless.chaos.sim.cluster import NODES, Cluster
from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.chaos.sim.drawn_faults import Fault, draw
from gapless.chaos.sim.limits import drawn, limited, told
from gapless.chaos.sim.memo import decoding_once
from gapless.chaos.sim.network import Network, Weather
from gapless.chaos.sim.network_disk import Client, Reach
from gapless.chaos.sim.story import HEADER, told_step
from gapless.chaos.sim.strikes import Striking
from gapless.chaos.sim.work_time import QUICK, Slow, Toil
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.chaos.sim.workloads.workload import SPARE, Workload
from gapless.engine.splice import Runnable, Splice
from gapless.failover.effects import Command, Tick
from gapless.failover.io.merger_io import MergerIO
from gapless.failover.job.desired import Desired, Stop, slot
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord
from gapless.failover.merger import openings
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import SUPERVISOR, Life
from gapless.failover.replica.machine import Replica
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.timing import Timing
from gapless.journal.writer import Writer
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError
from gapless.protocol.tdb import Tdb

REPLICAS, MERGERS = 3, 2
CHANGES, FINAL = SUBSCRIBERS = ("changes", "final")
"""The programs that read the output, by what is delivered to them."""
ALONE_SHARE = 0.5
"""Of the lives that read changes, those that read one merger alone."""
SOURCE_EVERY_MS = (25, 40, 90)
"""A batch comes at one of these paces: the sources, and with them the faults, span one to five
seconds. Then faults come one upon the other, or leave time for each of the killed to come back.
Where there are few batches they come as much slower."""
FRAMES_MIN = 300
"""That are read from a source, taken in by a merger or delivered, in every run: the sources go on
until then."""
LAST_FRAMES = 6
"""That come of the end of the sources at least: each replica reads it, and tells both mergers."""
SPAN_BATCHES = 14
"""Batches that are written at least. Faults begin while they are."""
LOOK_MS = 100
"""How often it is asked whether all is done."""
PATIENCE_MS = 8_000
"""After the last fault and the last row; then what has not converged never will. Of the
seeds 0 to 299 the slowest takes a quarter of it."""
PART_MS = 200
"""More of it for each further part of the table that a subscriber begins with: a round trip takes
120 ms at most, and one that is lost is asked for again after as long."""
STEPS_MAX = 100_000
"""Many times what a good run takes: of the seeds 0 to 299 the longest takes 2,131."""
VALIDATE_EVERY = 200
"""Happenings from one check of a machine's invariants to the next: a check costs more than they do.
In the end all are checked."""
DRAIN_SHARE = 0.25
"""Of the runs, those that are drained when all is done."""
CAUSES_MAX = 40
"""Of a chain of causes, the last ones."""
TIMING = Timing(
    heartbeat_ms=100,
    resend_ms=120,
    reattach_ms=60,
    snapshot_ms=150,
    fetch_ms=120,
    backfill_ms=150,
    disk_retry_ms=100,
    drain_ms=150,
    hang_ms=350,
    hang_max_ms=1_500,
    replace_ms=500,
    join_ms=700,
    lag_ms=700,
    absent_ms=600,
    adopt_ms=250,
    backoff_ms=30,
    backoff_max_ms=400,
    steady_ms=1_000,
    checkpoint_ms=500,
    kill_ms=200,
    start_ms=1_000,
)
"""Production's, a few times shorter: as many things happen in a second as do there in ten."""

Step = tuple[int, str, Any, int]
"""When, in which process, which event (or a note), and the step that it follows from."""
BY_TIME = -1
"""The cause of what follows from nothing but time."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Build:
    """Which machines run: production's, or one with a fault planted in it."""

    replica: type[Replica] = Replica
    merger: type[Merger] = Merger
    merge: type[LMerge] = LMerge
    subscriber: type[Subscriber] = Subscriber
    supervisor: type[Supervisor] = Supervisor
    output: type[OutputJournal] = OutputJournal
    merger_io: type[MergerIO] = MergerIO


PRODUCTION = Build()


@dataclass(slots=True)
class SimResult:
    """How one seed went."""

    seed: int
    workload: str
    ok: bool
    steps: int
    frames: int
    """Read from a source, taken in by a merger, or delivered to a subscriber."""
    faults: int
    """That struck."""
    told_faults: list[str]
    """All of its plan, and operations, as words; in the order in which they were to strike."""
    problem: str | None
    """What is wrong, for a person; None where all is well."""
    checker: str | None = None
    """Which checker saw it; None where a machine itself did."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)
    """The chain of steps that led to it, the first of them first."""
    trace: list[str] = field(default_factory=list, repr=False)
    limits: Mapping[str, int] = field(default_factory=dict)
    """By bound, what it was drawn as; all others were the product's."""
    reached: tuple[str, ...] = ()
    """Of these, those at which something stood."""


class Simulation:
    """One schedule: the job, what it runs on, and the faults."""

    def __init__(
        self,
        seed: int,
        build: Build = PRODUCTION,
        workload: Workload | None = None,
        faults_max: int | None = None,
        slow: Slow = QUICK,
        *,
        is_limited: bool = False,
    ) -> None:
        """`faults_max`: only so many of the seed's faults strike, the first ones. `slow`: in which
        ways time is a fault. `is_limited`: whether bounds of the product are set for it.
        """
        names = list(WORKLOADS)
        self.seed = seed
        self.build = build
        self.workload = workload or WORKLOADS[names[seed % len(names)]]
        self.schema = self.workload.schema
        self.timing = TIMING
        self.now = 0
        self.steps: list[Step] = []
        self.rng = random.Random(f"simulation {seed}")
        self._agenda: list[tuple[int, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0
        self._cause = BY_TIME
        self._until_validated = VALIDATE_EVERY
        self.batches = self.workload.batches(random.Random(f"workload {seed}"))
        self.waiting_for: dict[str, list[Callable[[], None]]] = {
            n: [] for n in self.workload.layouts
        }
        """By source, whom to wake when it has grown."""
        self.growth = dict.fromkeys(self.workload.layouts, 0)
        """How often it has grown."""
        self.frames = 0
        """Read from a source, taken in by a merger, or delivered to a subscriber."""
        self._expected: dict[int, Tdb] = {}  # by when the changed query begins
        self._tables: dict[str, int] = {}  # from when on a plan has another table
        self._pace_ms = self.rng.choice(SOURCE_EVERY_MS) * -(-SPAN_BATCHES // len(self.batches))
        self.span_ms = self._pace_ms * min(SPAN_BATCHES, len(self.batches))
        self.source_time = 0
        """How far the sources are."""
        self.is_stopped = False
        self._ended_at: int | None = None  # when the sources did
        self._verdicts: dict[str, Verdict] | None = None
        self._failed: Exception | None = None  # while a process stood in the middle of something
        faults = draw(random.Random(f"faults {seed}"), self.span_ms)
        self.faults: Sequence[Fault] = faults[:faults_max]
        self.striking = Striking(self)
        self.toil = None if slow == QUICK else Toil(self, slow)
        choose = self.rng.choice
        weather = Weather(choose((4, 20, 60)), choose((0.0, 0.02, 0.1)), choose((0.0, 0.05)))
        self.network = Network(self.rng, weather)
        self.disk = SimulatedDisk()
        reach_rng = random.Random(f"reach {seed}")
        reach = Reach.drawn(reach_rng)
        self.clients = {
            node: Client(self.disk, reach, reach_rng, lambda: self.now) for node in NODES
        }
        """What each machine knows of the disk."""
        self.job_disk = View(self.disk, "job")
        self.plans: dict[str, Runnable] = dict(self.workload.all_plans)
        self.job = self._made_job()
        self.cluster = Cluster(self)
        checkers = every(self, is_limited=is_limited)
        self._last_checkers = [c for c in checkers if isinstance(c, Converges | MemoryReturns)]
        self.history = History(checkers)
        self._writers = {
            name: Writer(
                self.source_disk(name),
                layout,
                who="producer",
                token="p",
                now_ms=lambda: self.now,
            )
            for name, layout in self.workload.layouts.items()
        }

    def _made_job(self) -> Job:
        work = self.workload
        record = JobRecord(
            work.name.replace(" ", "-"),
            {name: f"sources/{name}" for name in work.layouts},
            work.insert_only,
            work.case,
        )
        desired = Desired(REPLICAS, work.racing, MERGERS, work.shards)
        job = Job.create(
            self.job_disk, "maker", record, work.plans, desired, assume_equivalent=True
        )
        if work.spare_plan is not None:
            job.add_plan(SPARE, work.spare_plan, work.functions)
        return job

    def changed_plan(self, at: int) -> str:
        """The name of the plan that is the changed query's from a time on."""
        name = f"switched-{at}"
        if name not in self.plans and self.workload.switched is not None:
            old = self.plans[self.desired.plans[0]]
            self.plans[name] = Splice(old, self.workload.switched, at)
            self.job.add_plan(name, self.plans[name], self.workload.functions)
            self._tables[name] = at
        return name

    # -- what checkers look at ----------------------------------------------------------------

    @property
    def expected(self) -> Tdb:
        """The table that the output has to be: that of the query that is desired."""
        at = self._tables.get(self.desired.plans[0], INF)
        table = self._expected.get(at)
        if table is None:
            work = self.workload
            if at == INF or work.expected_at is None:
                table = work.expected(self.batches)
            else:
                table = work.expected_at(self.batches, at)
            self._expected[at] = table
        return table

    @property
    def desired(self) -> Desired:
        """What should run."""
        return self.cluster.desired

    @property
    def outputs(self) -> dict[str, View]:
        """The output journal of each merger's slot."""
        slots = (slot("m", s, i) for s in range(self.workload.shards) for i in range(MERGERS))
        return {name: self.cluster.output_disk(name) for name in slots}

    @property
    def machines(self) -> dict[Life, Any]:
        """The machines that are alive and not frozen."""
        return {p.life: p.machine for p in self.cluster.processes.values() if not p.frozen}

    @property
    def supervisor(self) -> Supervisor | None:
        """The present supervisor, if it is alive."""
        process = self.cluster.newest[SUPERVISOR]
        return process.machine if process.is_alive else None

    # -- the world ----------------------------------------------------------------------------

    def run(self) -> dict[str, Verdict]:
        """Runs the schedule to its end; raises where a promise breaks. The checkers' verdicts."""
        self.cluster.start_supervisor()
        self.cluster.subscribe(CHANGES, self._reads_changes)
        self.cluster.subscribe(FINAL, self._reads_final)
        self._write(0)
        self.striking.plan(self.faults)
        self.at(self.span_ms, self._look)
        while not self.is_stopped:
            self._go_on()
            self._until_validated -= 1
            if not self._until_validated:
                self._validate_one()
        if self._failed is not None:
            raise self._failed
        return self._judge() if self._verdicts is None else self._verdicts

    def _go_on(self) -> None:
        """What is next on the agenda."""
        if len(self.steps) > STEPS_MAX:
            raise Broken("progress", f"{STEPS_MAX} steps and no end")
        self.now, _, self._cause, call, args = heapq.heappop(self._agenda)
        call(*args)

    def goes_on_until(self, when: int) -> None:
        """All but the process that has stopped goes on, to some time. What fails meanwhile has
        nothing to do with what that process was doing, and does not go through its code.
        """
        cause = self._cause
        try:
            while not self.is_stopped and self._agenda[0][0] < when:
                self._go_on()
        except Exception as e:  # noqa: BLE001  # it is raised when the process has been left
            self._failed = e
            self.is_stopped = True
        self.now, self._cause = (self.now if self.is_stopped else when), cause

    def _validate_one(self) -> None:
        """Looks at the invariants of one machine."""
        self._until_validated = VALIDATE_EVERY
        processes = list(self.cluster.processes.values())
        if processes:
            processes[self._scheduled % len(processes)].machine.validate()

    def _reads_changes(self) -> dict[str, Any]:
        """All changes: of both mergers, or of one; of another one after each death, maybe."""
        shards = self.workload.shards
        one = {str(s): (slot("m", s, self.below(MERGERS)),) for s in range(shards)}
        is_alone = self.rng.random() < ALONE_SHARE
        start = "earliest" if is_alone and self.rng.random() < ALONE_SHARE else BEGIN
        how = self._reads_final()
        return how | {"deliver": CHANGES, "start": start} | ({"mergers": one} if is_alone else {})

    def _reads_final(self) -> dict[str, Any]:
        """Each event once, of both mergers."""
        work = self.workload
        both = {str(s): (slot("m", s, 0), slot("m", s, 1)) for s in range(work.shards)}
        what = {"insert_only": work.starts_are_final, "case": work.case}
        return {"mergers": both, "deliver": FINAL, "start": BEGIN, **what}

    def _write(self, number: int) -> None:
        """The next batch, and all that follow; or the end, once there were frames enough."""
        self.by_time()
        is_enough = number >= SPAN_BATCHES and self.frames >= FRAMES_MIN - LAST_FRAMES
        if (is_enough and not self.workload.whole) or number == len(self.batches):
            self.batches = self.batches[:number]
            self._expected.clear()
            self._ended_at = self.now
            for name, writer in self._writers.items():
                writer.end()
                self._grown(name, INF)
            return
        source, rows = self.batches[number]
        writer = self._writers[source]
        writer.append(rows)
        self.source_time = max(self.source_time, writer.stable)
        self._grown(source, writer.stable)
        self.at(self.now + self._pace_ms, self._write, number + 1)

    def _grown(self, source: str, stable: int) -> None:
        self.say(Written(source, stable))
        self.growth[source] += 1
        waiting, self.waiting_for[source] = self.waiting_for[source], []
        for wake in waiting:
            wake()

    def source_disk(self, name: str) -> View:
        """Where the journal of a source lies."""
        return View(self.disk, f"sources/{name}")

    def _look(self) -> None:
        """Asks whether all is done; after long patience that is for the checkers to say."""
        if self._is_done:
            self._verdicts = self._judge()
            if self.rng.random() < DRAIN_SHARE:
                self.cluster.to_supervisor(Command(Stop(drain=True)))
                self.at(self.now + LOOK_MS, self._look_at_end, self.now + PATIENCE_MS)
            else:
                self.is_stopped = True
        elif self._ended_at is not None and self.now > self._patient_until(self._ended_at):
            self.is_stopped = True
        else:
            self.at(self.now + LOOK_MS, self._look)

    def _patient_until(self, ended_at: int) -> int:
        """Parts of a table come one after the other, and the more of them the smaller they are."""
        parts = -(-len(self.expected) // int(openings.PART_ROWS_MAX))
        more_ms = PART_MS * max(0, parts - 1)
        return max(ended_at, self.striking.ends_at) + PATIENCE_MS + more_ms

    def _look_at_end(self, until: int) -> None:
        """Whether a job that was told to drain has gone, and left nobody behind."""
        left = [p.name for p in self.cluster.processes.values() if p.life.slot not in SUBSCRIBERS]
        self.is_stopped = not left and self.desired.state == "stopped"
        if not self.is_stopped and self.now > until:
            raise Broken("converge", f"the job is {self.desired.state}, and there are still {left}")
        if not self.is_stopped:
            self.at(self.now + LOOK_MS, self._look_at_end, until)

    def _judge(self) -> dict[str, Verdict]:
        """What each checker says of the whole run."""
        for process in self.cluster.processes.values():
            process.machine.validate()
        return {checker.name: checker.verdict(self) for checker in self.history.checkers}

    @property
    def _is_done(self) -> bool:
        """Whether nothing is broken, missing or under way any more."""
        supervisor = self.cluster.newest[SUPERVISOR]
        subscribers = [self.cluster.newest[name] for name in SUBSCRIBERS]
        return (
            self.striking.is_over
            and not (self.toil and self.toil.open)
            and supervisor.is_alive
            and all(s.is_alive and s.machine.stable == INF for s in subscribers)
            and self._is_whole(supervisor.machine)
            and not any(checker.problems(self) for checker in self._last_checkers)
        )

    @staticmethod
    def _is_whole(supervisor: Supervisor) -> bool:
        """Whether all that is desired runs, and nothing is under way."""
        state = supervisor.state()
        return (
            not state.is_adopting
            and not state.cutover
            and all(s.state == "running" and s.successor is None for s in state.slots)
        )

    # -- what processes use -------------------------------------------------------------------

    def at(self, when: int, call: Callable[..., None], *args: Any) -> None:
        """Lets something happen at a time, as a consequence of what happens now."""
        self._scheduled += 1
        heapq.heappush(self._agenda, (when, self._scheduled, self._cause, call, args))

    def begin_step(self, name: str, event: Any) -> None:
        """An event reaches a process; all that happens until the next one follows from it."""
        if type(event) is Tick:  # that time passes is no step, and has no cause
            self._cause = BY_TIME
            return
        self.steps.append((self.now, name, event, self._cause))
        self._cause = len(self.steps) - 1

    def by_time(self) -> None:
        """What happens now follows from nothing but time."""
        self._cause = BY_TIME

    def note(self, what: Any) -> None:
        """Something for the trace that is not an event."""
        self.steps.append((self.now, "", what, self._cause))

    def say(self, fact: Fact) -> None:
        """A fact, for the checkers."""
        self.history.say(self.now, fact)

    def below(self, n: int) -> int:
        """A number of 0 to n - 1."""
        return int(self.rng.random() * n)

    def between(self, bounds: tuple[int, int]) -> int:
        """A number within bounds."""
        return bounds[0] + self.below(bounds[1] - bounds[0] + 1)

    def choose(self, several: Sequence[_T]) -> _T:
        """One of several."""
        return several[self.below(len(several))]

    # -- telling ------------------------------------------------------------------------------

    def causes(self) -> list[str]:
        """The steps that led to what happens now, the first of them first; to the last one, where
        that follows from time alone.
        """
        chain: list[int] = []
        step = len(self.steps) - 1 if self._cause == BY_TIME else self._cause
        while step != BY_TIME and len(chain) < CAUSES_MAX:
            chain.append(step)
            step = self.steps[step][3]
        return [told_step(*self.steps[i][:3]) for i in reversed(chain)]

    def trace(self) -> list[str]:
        """Everything that happened except for the passing of time, a line each."""
        return [HEADER, *(told_step(*step[:3]) for step in self.steps)]


def run_seed(
    seed: int,
    build: Build = PRODUCTION,
    workload: Workload | None = None,
    *,
    faults_max: int | None = None,
    traced: bool = False,
    limits: Mapping[str, int] | None = None,
) -> SimResult:
    """Runs one schedule; never raises for a broken promise, says it in the result.

    `limits`: bounds that are set for this run; the seed draws them where nothing is said.
    """
    collects = gc.isenabled()
    gc.disable()  # all that a run makes lives as long as it; behind it, it is one heap of garbage
    values = drawn(seed) if limits is None else limits
    try:
        with limited(values) as watched:
            result = _run(_begun(seed, build, workload, faults_max, values), traced=traced)
        result.limits = dict(values)
        result.reached = tuple(name for name, bound in watched.items() if bound.reached)
        return result
    finally:
        if collects:
            gc.enable()
            gc.collect(0)


def _begun(
    seed: int,
    build: Build,
    workload: Workload | None,
    faults_max: int | None,
    limits: Mapping[str, int],
) -> Simulation:
    """A schedule that is about to run. Nobody else holds it: it is garbage behind its run."""
    slow = toil.drawn(seed)
    simulation = Simulation(seed, build, workload, faults_max, slow, is_limited=bool(limits))
    if limits:
        simulation.note(f"limits: {told(limits)}")
    return simulation


def _run(simulation: Simulation, *, traced: bool) -> SimResult:
    problem, checker, verdicts = None, None, {}
    try:
        with decoding_once():
            verdicts = {name: v.value for name, v in simulation.run().items()}
    except GaplessError as e:
        problem = f"at {simulation.now} ms: {type(e).__name__}: {e}"
        checker = e.checker if isinstance(e, Broken) else None
    return SimResult(
        simulation.seed,
        simulation.workload.name,
        problem is None,
        len(simulation.steps),
        simulation.frames,
        simulation.striking.struck,
        [str(fault) for fault in simulation.faults],
        problem,
        checker,
        verdicts,
        [] if problem is None else simulation.causes(),
        simulation.trace() if traced else [],
    )
