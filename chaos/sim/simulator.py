"""A seeded scheduler that runs the production machines through faults, in virtual time.

    a seed --> workload, faults, network --> agenda: what happens next, and when       agenda.py
                                               |
        rows come, faults strike, until all    |      source_journals.py, strikes.py, run_end.py
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
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gapless.chaos.judge.history import Broken, Fact, History, Verdict
from gapless.chaos.sim import work_time as toil
from gapless.chaos.sim.agenda import Agenda, Step
from gapless.chaos.sim.checkers.all import every
from gapless.chaos.sim.cluster import MERGERS, NODES, REPLICAS, Cluster
from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.chaos.sim.disk_errors import DiskError
from gapless.chaos.sim.disk_reach import DiskReach
from gapless.chaos.sim.drawn_faults import Fault, draw
from gapless.chaos.sim.limits import drawn, limited, told
from gapless.chaos.sim.memo import decoding_once
from gapless.chaos.sim.midway_drain import MidwayDrain
from gapless.chaos.sim.network import Network, Weather
from gapless.chaos.sim.queries import Queries
from gapless.chaos.sim.run_end import RunEnd
from gapless.chaos.sim.source_journals import SourceJournals
from gapless.chaos.sim.strikes import Strikes
from gapless.chaos.sim.subscriptions import Subscriptions
from gapless.chaos.sim.work_time import QUICK, Slow, Toil
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.chaos.sim.workloads.workload import Workload
from gapless.engine.splice import Runnable
from gapless.failover.io.merger_io import MergerIO
from gapless.failover.io.replica_io import ReplicaIO
from gapless.failover.io.supervisor_io import SupervisorIO
from gapless.failover.job.desired import Desired, slot
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import SUPERVISOR, Life
from gapless.failover.replica.machine import Replica
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.timing import Timing
from gapless.merge.lmerge import LMerge
from gapless.protocol.errors import GaplessError
from gapless.protocol.tdb import Tdb

VALIDATE_EVERY = 200
"""Happenings from one check of a machine's invariants to the next: a check costs more than they do.
In the end all are checked."""
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
    replica_io: type[ReplicaIO] = ReplicaIO
    supervisor_io: type[SupervisorIO] = SupervisorIO


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
    disk_errors: tuple[DiskError, ...] = ()
    """Those that a disk has raised."""


class Simulation:
    """One schedule: the job, what it runs on, and the faults. Its parts find each other in it."""

    def __init__(
        self,
        seed: int,
        build: Build = PRODUCTION,
        workload: Workload | None = None,
        faults_max: int | None = None,
        slow: Slow = QUICK,
        *,
        is_limited: bool = False,
        disk_errors: Sequence[DiskError] | None = None,
    ) -> None:
        """`faults_max`: only so many of the seed's faults strike, the first ones. `slow`: in which
        ways time is a fault. `is_limited`: whether bounds of the product are set for it.
        `disk_errors`: which calls of its disk fail; the seed draws them where nothing is said.
        """
        names = list(WORKLOADS)
        self.seed = seed
        self.build = build
        self.workload = workload or WORKLOADS[names[seed % len(names)]]
        self.schema = self.workload.schema
        self.timing = TIMING
        self.rng = random.Random(f"simulation {seed}")
        self.frames = 0
        """Read from a source, taken in by a merger, or delivered to a subscriber."""
        agenda = self.agenda = Agenda()
        self.at, self.begin_step, self.by_time = agenda.at, agenda.begin_step, agenda.by_time
        self.note, self.causes, self.trace = agenda.note, agenda.causes, agenda.trace
        self.sources = SourceJournals(self)
        faults = draw(random.Random(f"faults {seed}"), self.sources.span_ms)
        self.faults: Sequence[Fault] = faults[:faults_max]
        self.strikes = Strikes(self)
        self.toil = None if slow == QUICK else Toil(self, slow)
        choose = self.rng.choice
        weather = Weather(choose((4, 20, 60)), choose((0.0, 0.02, 0.1)), choose((0.0, 0.05)))
        self.network = Network(self.rng, weather)
        self.disk = SimulatedDisk()
        self.disk_reach = DiskReach(self, NODES, disk_errors)
        self.queries = Queries(self.workload)
        self.job = self._made_job()
        self.drain = MidwayDrain.drawn(self)
        """Of a job that is drained while its sources go on."""
        self.cluster = Cluster(self)
        self.history = History(every(self, is_limited=is_limited))
        self.subscriptions = Subscriptions(self)
        self.run_end = RunEnd(self)
        self.sources.open()

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
            View(self.disk, "job"), "maker", record, work.plans, desired, assume_equivalent=True
        )
        self.queries.add_spare(job)
        return job

    # -- running ------------------------------------------------------------------------------

    def run(self) -> dict[str, Verdict]:
        """Runs the schedule to its end; raises where a promise breaks. The checkers' verdicts."""
        self.cluster.start_supervisor()
        self.subscriptions.begin()
        self.sources.begin()
        self.strikes.plan(self.faults)
        if self.drain is not None:
            self.drain.plan()
        else:
            self.run_end.begin(self.sources.span_ms)
        until_validated = VALIDATE_EVERY
        while not self.agenda.is_stopped:
            self.agenda.go_on()
            until_validated -= 1
            if not until_validated:
                until_validated = VALIDATE_EVERY
                self._validate_one()
        self.agenda.raise_failure()
        return self.run_end.verdicts()

    def _validate_one(self) -> None:
        """Looks at the invariants of one machine."""
        processes = list(self.cluster.processes.values())
        if processes:
            processes[self.agenda.scheduled % len(processes)].machine.validate()

    # -- what checkers look at ----------------------------------------------------------------

    @property
    def now(self) -> int:
        """Virtual milliseconds."""
        return self.agenda.now

    @property
    def steps(self) -> list[Step]:
        """All that has happened, except for the passing of time."""
        return self.agenda.steps

    @property
    def plans(self) -> Mapping[str, Runnable]:
        """The plans of the job, by name."""
        return self.queries.plans

    @property
    def expected(self) -> Tdb:
        """The table that the output has to be: that of the query that is desired."""
        return self.queries.expected(self.desired.plans[0], self.sources.batches)

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

    # -- what processes use -------------------------------------------------------------------

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


def run_seed(
    seed: int,
    build: Build = PRODUCTION,
    workload: Workload | None = None,
    *,
    faults_max: int | None = None,
    traced: bool = False,
    limits: Mapping[str, int] | None = None,
    disk_errors: Sequence[DiskError] | None = None,
) -> SimResult:
    """Runs one schedule; never raises for a broken promise, says it in the result.

    `limits`: bounds that are set for this run, `disk_errors`: calls of its disk that fail; the
    seed draws them where nothing is said.
    """
    collects = gc.isenabled()
    gc.disable()  # all that a run makes lives as long as it; behind it, it is one heap of garbage
    values = drawn(seed) if limits is None else limits
    try:
        with limited(values) as watched:
            result = _run(
                _begun(seed, build, workload, faults_max, values, disk_errors), traced=traced
            )
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
    disk_errors: Sequence[DiskError] | None,
) -> Simulation:
    """A schedule that is about to run. Nobody else holds it: it is garbage behind its run."""
    slow = toil.drawn(seed)
    simulation = Simulation(
        seed,
        build,
        workload,
        faults_max,
        slow,
        is_limited=bool(limits),
        disk_errors=disk_errors,
    )
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
        simulation.strikes.struck,
        [str(fault) for fault in simulation.faults],
        problem,
        checker,
        verdicts,
        [] if problem is None else simulation.causes(),
        simulation.trace() if traced else [],
        disk_errors=tuple(simulation.disk_reach.errors.raised),
    )
