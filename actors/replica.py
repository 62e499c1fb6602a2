"""A replica's shell: reads sources and checkpoints for the machine, on a disk that others share.

Sources are read on the pump's own thread: it has nothing else to do, and a read that finds nothing
costs one stat. Where nothing is new it looks again after 1 to 10 ms, and tells the machine so after
FOLLOW_MS, as the machine has other things to ask then. Checkpoints go to a thread of their own, as
does what the replica, and they, keep from being trimmed (registering.py), and what its plan could
not process (rejects.py); what the machine has done beside it goes to another, for a fold must not
wait for a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gapless.actors import registering
from gapless.actors.hands import Hands
from gapless.actors.pace import Pace
from gapless.actors.registering import REGISTER_MS, Registering
from gapless.actors.rejects import Rejects
from gapless.actors.setup import JobDir, Setup
from gapless.actors.shell import Shell
from gapless.failover import effects as ask
from gapless.failover.effects import Position
from gapless.failover.life_start import ReplicaStart
from gapless.failover.replica import checkpoint as checkpoints
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.sources import Sources
from gapless.protocol.documents import Document
from gapless.protocol.errors import Bug, GaplessError, JournalError
from gapless.protocol.frame import Frame

POLL_MS_MIN, POLL_MS_MAX = 1, 8
"""Between two looks at a source that has nothing new, doubled from the first to the second: a row
is seen within the second, at a hundred looks a second."""
FOLLOW_MS = 150
"""How long a read waits for a source to grow before it says that there is nothing new."""
READ_AHEAD_TIMES_MAX = 2
"""How many times larger, or smaller, than the pace a frame may be that was read ahead. One that is
larger yet, because the plan has turned out to be slow, is not given to it: it would be inside for
too long. One that is smaller costs a call too much."""


class ReplicaShell(Shell):
    """One life of a replica."""

    def __init__(self, setup: Setup, job_dir: JobDir, at_end: Callable[[str], None]) -> None:
        super().__init__(setup, job_dir, at_end)
        start = setup.start
        if not isinstance(start, ReplicaStart):
            raise Bug(f"{setup.life} is started as {start}")
        executor = job_dir.executor(start.plan)
        self._start = start
        self._sources = Sources(
            {name: disk for name, disk in job_dir.sources().items() if name in executor.sources},
            executor.sources,
            job_dir.partitions(start.shard),
            registering.began(job_dir.disk),
        )
        self._registering = Registering.of(job_dir, self._tell)
        self._began_at: Mapping[str, Position] = {}  # where this life began to read
        self._given: Mapping[str, Position] = {}  # behind what the machine was given
        self._taken: Mapping[str, Position] = {}  # behind what it has taken in
        self._was_at: Mapping[str, Position] = {}  # the same, a round ago
        self._reads = 0  # asked for; each is answered once
        self._is_open = False
        self._pace = Pace()
        executor.on_took = self._pace.took
        self._next: dict[str, tuple[Frame, Position]] = {}  # read ahead, by source
        self._ends: dict[str, Position] = {}  # while draining: what was there, by source
        self._cut: set[str] = set()  # of those, the ones that have gone on since
        self.machine = Replica(setup.life, start, executor, setup.timing)
        self._does |= {
            ask.OpenSources: self._open,
            ask.ReadSource: self._read,
            ask.SkipSource: self._skip,
            ask.WriteCheckpoint: self._write_checkpoint,
            ask.LoadCheckpoint: self._load_checkpoint,
            ask.DropCheckpoint: self._drop_checkpoint,
            ask.Work: self._work,
        }
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

    def _work(self, effect: ask.Work) -> None:
        self._beside.do(lambda: self.pump.post(ask.Done(effect.number, effect.do())))

    # -- sources ------------------------------------------------------------------------------

    def _open(self, effect: ask.OpenSources) -> None:
        self._reads += 1  # what is being read is of before
        try:
            self._next.clear()
            self._sources.open(effect.positions, effect.since)
            self._is_open = True
            self._given = self._taken = self._sources.positions
            self._began_at = self._was_at = self._given
            self._disk.do(partial(self._keep, self._given, self._given))
        except (JournalError, OSError) as e:
            self._failed("", e)

    def _skip(self, effect: ask.SkipSource) -> None:
        if self._is_open:  # a replay asks for it with the opening, which may have failed
            self._sources.skip(effect.source, effect.t)

    def _read(self, effect: ask.ReadSource) -> None:
        self._reads += 1
        self._taken = self._given  # it asks for one read at a time
        if self._is_open:  # else it has been told that they failed, and once is enough
            self._look(effect.source, self._reads, POLL_MS_MIN, FOLLOW_MS)

    def _look(self, source: str, number: int, wait_ms: int, left_ms: int) -> None:
        """Reads; where there is nothing new, looks again after a while."""
        if number != self._reads:
            return
        try:
            frame, position = self._read_next(source)
            if frame is not None and self.machine.is_draining and self._is_past_end(source, frame):
                frame, position, left_ms = None, self._given[source], 0
            # A frame that is full was cut: more is there, or will be in a moment.
            more = frame is not None and (
                self._reads_ahead(source) or len(frame) >= self._pace.rows
            )
        except (JournalError, OSError) as e:
            self._failed(source, e)
            return
        if frame is None and left_ms > 0:
            again = partial(
                self._look, source, number, min(2 * wait_ms, POLL_MS_MAX), left_ms - wait_ms
            )
            self.pump.later(wait_ms, again)
            return
        self._given = {**self._given, source: position}
        # Not within the call of the machine that asked: a source that is far ahead would nest.
        self.pump.do(partial(self.pump.happens, ask.SourceRead(source, frame, position, more)))

    def _read_next(self, source: str) -> tuple[Frame | None, Position]:
        """What was read ahead, as the pace is by now: in smaller frames where it has fallen, with
        what follows where it has risen.
        """
        frame, position = self._next.pop(source, (None, {}))
        if frame is None:
            return self._sources.read(source, self._pace.rows)
        if len(frame) > READ_AHEAD_TIMES_MAX * self._pace.rows:
            self._sources.go_back(source, self._given[source])
            return self._sources.read(source, self._pace.rows)
        if READ_AHEAD_TIMES_MAX * len(frame) > self._pace.rows:
            return frame, position
        more, behind = self._sources.read(source, self._pace.rows - len(frame))
        if more is None:
            return frame, position
        stable = frame.stable if more.stable is None else more.stable
        return Frame.concat([frame.with_stable(None), more]).with_stable(stable), behind

    def _is_past_end(self, source: str, frame: Frame) -> bool:
        """Whether a frame came after the drain: a source that never pauses would keep the machine
        reading for ever. From the first such rows on all is: their stables count with them.
        """
        if source not in self._ends:
            self._ends[source] = self._sources.end(source)
        given, end = self._given[source], self._ends[source]
        if len(frame) and all(given[p] >= row for p, row in end.items()):
            self._cut.add(source)
        return source in self._cut

    def _reads_ahead(self, source: str) -> bool:
        """Reads the frame behind the one that was asked for, if it is there: whether it is says
        the machine how to send. It is given when it is asked for.
        """
        frame, position = self._sources.read(source, self._pace.rows)
        if frame is None:
            return False
        self._next[source] = frame, position
        return True

    def _failed(self, source: str, error: Exception) -> None:
        self._reads += 1
        self._is_open = False
        self.pump.post(ask.SourceFailed(source, str(error)))

    # -- what is kept from being trimmed ------------------------------------------------------

    def _register(self) -> None:
        """Keeps what a new replica may need: as of a round before, for what one that joins was
        given is that old at most.
        """
        if self._is_open:
            was_at, self._was_at = self._was_at, self._taken
            self._disk.do(partial(self._keep, was_at, self._began_at))
        self.pump.later(REGISTER_MS, self._register)

    def _keep(self, at: Mapping[str, Position], began_at: Mapping[str, Position]) -> None:
        """On the thread of checkpoints. Without one a new replica would replay all that we read."""
        try:
            is_safe = registering.has_checkpoint(self.dir.disk, self._start.shard, self._start.plan)
        except OSError as e:
            self._tell(f"the job's directory does not say which checkpoints there are: {e}")
            return
        self._registering.keep(self.life.slot, at if is_safe else began_at)

    # -- checkpoints --------------------------------------------------------------------------

    def _write_checkpoint(self, effect: ask.WriteCheckpoint) -> None:
        who, positions = registering.of_checkpoint(effect.name), effect.checkpoint.positions

        def write() -> None:
            reason = ""
            self._registering.keep(who, positions)
            try:
                checkpoints.write(self.dir.disk, effect.name, effect.checkpoint)
            except (GaplessError, OSError) as e:
                reason = str(e)
                self._registering.drop(who)
            else:
                self._registering.keep(who, positions)  # the sweep has not seen its file yet
            self.pump.post(ask.CheckpointWritten(effect.name, reason))

        self._disk.do(write)

    def _drop_checkpoint(self, effect: ask.DropCheckpoint) -> None:
        def drop() -> None:
            try:
                checkpoints.drop(self.dir.disk, effect.name)
            except OSError as e:  # the next root drops what no supervisor has named
                self._tell(f"checkpoint {effect.name} is not dropped: {e}")
            self._registering.drop(registering.of_checkpoint(effect.name))

        self._disk.do(drop)

    def _load_checkpoint(self, effect: ask.LoadCheckpoint) -> None:
        def load() -> None:
            try:
                found = checkpoints.read(self.dir.disk, effect.name, self.machine.schema)
            except (GaplessError, OSError) as e:
                self.pump.post(ask.CheckpointLoaded(effect.name, None, str(e)))
            else:
                self.pump.post(ask.CheckpointLoaded(effect.name, found))

        self._disk.do(load)
