"""A replica's shell: its threads, and how often it looks at a source that has nothing new.

What effects do says failover/io/replica_io.py; here is on which thread. Sources are read on the
pump's own thread: it has nothing else to do, and a read that finds nothing costs one stat. Where
nothing is new it looks again after 1 to 10 ms, and tells the machine so after FOLLOW_MS, as the
machine has other things to ask then. Where the cores are taken it leaves a source that it has read
to its end alone for a moment (lull.py). Checkpoints go to a thread of their own, as does what the
replica, and they, keep from being trimmed (trim_guard.py), and what its plan could not process
(rejects.py); what the machine has done beside it goes to another, for a fold must not wait for a
disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gapless.actors import reader_registry
from gapless.actors.hands import Hands
from gapless.actors.lull import Lull
from gapless.actors.pace import Pace
from gapless.actors.pump import now_ms
from gapless.actors.reader_registry import REGISTER_MS
from gapless.actors.rejects import Rejects
from gapless.actors.setup import JobDir, Setup
from gapless.actors.shell import Shell
from gapless.actors.trim_guard import ReplicaTrimGuard
from gapless.failover.io.replica_io import EFFECTS, ReplicaIO
from gapless.failover.io.steps import Outcome, Step
from gapless.failover.life_start import ReplicaStart
from gapless.failover.replica.effects import ReadSource, ReplicaEvent, SourceRead
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.sources import Sources
from gapless.protocol.documents import Document
from gapless.protocol.errors import Bug

POLL_MS_MIN, POLL_MS_MAX = 1, 8
"""Between two looks at a source that has nothing new, doubled from the first to the second: a row
is seen within the second, at a hundred looks a second."""
FOLLOW_MS = 150
"""How long a read waits for a source to grow before it says that there is nothing new."""


class ReplicaShell(Shell):
    """One life of a replica."""

    def __init__(self, setup: Setup, job_dir: JobDir, at_end: Callable[[str], None]) -> None:
        super().__init__(setup, job_dir, at_end)
        start = setup.start
        if not isinstance(start, ReplicaStart):
            raise Bug(f"{setup.life} is started as {start}")
        executor = job_dir.executor(start.plan)
        self._start = start
        self._guard = ReplicaTrimGuard(job_dir, self.life.slot, start, self._tell)
        pace = Pace()
        executor.on_took = pace.took
        self.machine = Replica(setup.life, start, executor, setup.timing)
        self._io = ReplicaIO(
            Sources(
                {n: disk for n, disk in job_dir.sources().items() if n in executor.sources},
                executor.sources,
                job_dir.partitions(start.shard),
                reader_registry.began(job_dir.disk),
            ),
            job_dir.disk,
            executor.schema,
            lambda: pace.rows,
            self._tell,
            trim_guard=self._guard,
        )
        self._lull = Lull()
        self._does |= dict.fromkeys(EFFECTS, lambda effect: self._has_done(self._io.step(effect)))
        self._does[ReadSource] = self._read
        self._pump(self.machine)
        self.pump.do(lambda: self.pump.later(REGISTER_MS, self._register))
        self._disk = Hands(f"checkpoints {self.life}", self._broken)
        self._rejects = Rejects(
            self.life, start.plan, job_dir.disk, self._disk.do, self.pump.do, self._tell
        )
        executor.on_aside = self._rejects.take
        self._beside = Hands(f"work of {self.life}", self._broken)

    def _plans(self) -> Mapping[str, Document]:
        return {self._start.plan: self.dir.plan(self._start.plan).to_document()}

    def _let_go(self) -> None:
        self._disk.end()
        self._beside.end()

    # -- effects ------------------------------------------------------------------------------

    def _has_done(self, step: Step[ReplicaEvent]) -> None:
        """Has a step done by its thread, and then what follows from it."""
        match step.place:
            case "open" | "source":
                self._look(step, POLL_MS_MIN, FOLLOW_MS)
            case "work":
                self._beside.do(lambda: self._follows(step.do()))
            case _:
                self._disk.do(lambda: self._follows(step.do()))

    def _read(self, effect: ReadSource) -> None:
        """Reads a source, at once or after its lull."""
        step = self._io.step(effect)
        left_ms = self._lull.left_ms(effect.source, self.pump.late_ms, now_ms())
        if left_ms:
            self.pump.later(left_ms, partial(self._has_done, step))
        else:
            self._has_done(step)

    def _look(self, step: Step[ReplicaEvent], wait_ms: int, left_ms: int) -> None:
        """Does a step that concerns sources; where nothing is new it looks again after a while."""
        done = step.do()
        if isinstance(done, Step) and done.instead is not None:
            if left_ms > 0:
                wait = min(2 * wait_ms, POLL_MS_MAX)
                self.pump.later(wait_ms, partial(self._look, done, wait, left_ms - wait_ms))
                return
            done = done.instead
        self._follows(done)

    def _follows(self, done: Outcome[ReplicaEvent]) -> None:
        """From any thread. An answer waits for its turn, also on the pump's own: within the call of
        the machine that asked, a source that is far ahead would nest.
        """
        if isinstance(done, Step):
            self._has_done(done)
            return
        if isinstance(done, SourceRead) and done.frame is not None:
            self._lull.was_read(done.source, to_its_end=not done.more, now=now_ms())
        if done is not None:
            self.pump.post(done)

    # -- what is kept from being trimmed ------------------------------------------------------

    def _register(self) -> None:
        """Keeps what a new replica may need."""
        if self._io.is_open:
            self._disk.do(partial(self._guard.goes_on, self._io.taken))
        self.pump.later(REGISTER_MS, self._register)
