"""What the effects of a replica do, to the journals of its sources and to checkpoints.

    OpenSources      open         SourceFailed, or nothing
    ReadSource       source, ...  SourceRead | SourceFailed; nothing once they are opened anew
    SkipSource       open         nothing
    WriteCheckpoint  checkpoint   CheckpointWritten
    LoadCheckpoint   checkpoint   CheckpointLoaded
    DropCheckpoint   checkpoint   nothing
    Work             work         Done

Every error of a disk or a journal becomes one of these events here, and nowhere else:

    sources      JournalError, OSError,     the source has failed: nothing more is read of any
                 Misuse (it is no journal)
    checkpoints  GaplessError, OSError      written: the reason; loaded: none, and the reason;
                                            dropped: an alarm, for somebody drops it later

A read looks one frame further, so that the machine knows whether more is there:

    journal    0      16      32      48          16 rows at once
    given             |                           SourceRead(rows 0 to 15, more=True)
    read ahead        |.......|                   the next answer, without a read

- It is given in smaller frames where the pace has fallen meanwhile, with what follows where it has
  risen.
- A skip drops its rows, if none of them is needed any more; an opening drops all of it.
- Where a source has nothing new the step is followed by another look, which the shell does when
  something may be there; it gives the answer `instead` once it has waited long enough.
- While the machine drains, rows are left out that were not there yet when it first found any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, assert_never, get_args

from gapless.failover.io.steps import Outcome, Step
from gapless.failover.replica import checkpoint as checkpoints
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    Done,
    DropCheckpoint,
    LoadCheckpoint,
    OpenSources,
    Position,
    ReadSource,
    ReplicaEvent,
    SkipSource,
    SourceFailed,
    SourceRead,
    Work,
    WriteCheckpoint,
)
from gapless.failover.replica.sources import Sources
from gapless.journal.disk import Disk
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, GaplessError, JournalError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

READ_AHEAD_TIMES_MAX = 2
"""How many times larger, or smaller, than the pace a frame may be that was read ahead. One that is
larger yet, because the plan has turned out to be slow, is not given to it: it would be inside for
too long. One that is smaller costs a call too much."""

InterpretedEffect = (
    OpenSources | ReadSource | SkipSource | WriteCheckpoint | LoadCheckpoint | DropCheckpoint | Work
)
"""What is interpreted here."""
EFFECTS: tuple[type[InterpretedEffect], ...] = get_args(InterpretedEffect)
"""The same, as classes."""
_UNREADABLE = (JournalError, Misuse, OSError)


class TrimGuard(Protocol):
    """Keeps from being trimmed what somebody may have to read again. Called at the places where
    the steps are done; it raises nothing.
    """

    def opened(self, positions: Mapping[str, Position]) -> None:
        """The sources are open, and are read from here on."""

    def keep(self, name: str, positions: Mapping[str, Position]) -> None:
        """Keeps what a replica would read that begins with this checkpoint."""

    def drop(self, name: str) -> None:
        """Keeps nothing for this checkpoint any more."""


class ReplicaIO:
    """Interprets the effects of one life of a replica."""

    def __init__(
        self,
        sources: Sources,
        disk: Disk,
        schema: StreamSchema,
        pace: Callable[[], int],
        on_alarm: Callable[[str], None],
        *,
        trim_guard: TrimGuard | None = None,
    ) -> None:
        """`disk`: where checkpoints lie, of a plan whose output has this schema. `pace`: how many
        rows of a source are wanted at once, by now. `on_alarm`: is told, on the thread of the step,
        what a person should know. `trim_guard`: None where nobody trims the sources.
        """
        self._sources = sources
        self._disk = disk
        self._schema = schema
        self._pace = pace
        self._on_alarm = on_alarm
        self._guard = trim_guard
        self.given: Mapping[str, Position] = {}
        """By source, behind what the machine was given."""
        self.taken: Mapping[str, Position] = {}
        """Behind what it has taken in: it asks for one read at a time, once it has."""
        self.skipped: dict[str, int] = {}
        """By source, the time before which its rows are not needed."""
        self.is_open = False
        """Whether there are sources to be read: they were opened, and have not failed."""
        self._reads = 0  # asked for; each is answered once
        self._ahead: dict[str, tuple[Frame, Position]] = {}  # what was read ahead, by source
        self._ends: dict[str, Position] = {}  # while draining: what was there, by source
        self._cut: set[str] = set()  # of those, the ones that have gone on since

    def step(self, effect: InterpretedEffect) -> Step[ReplicaEvent]:  # one for each effect
        """The first step of an effect."""
        match effect:
            case OpenSources():
                self._reads += 1  # what is being read is of before
                return Step("open", partial(self._open, effect))
            case ReadSource():
                self.taken = self.given
                return self._next_look(effect)
            case SkipSource():
                return Step("open", partial(self._skip, effect))
            case WriteCheckpoint():
                return Step("checkpoint", partial(self._write, effect))
            case LoadCheckpoint():
                return Step("checkpoint", partial(self._load, effect))
            case DropCheckpoint():
                return Step("checkpoint", partial(self._drop, effect))
            case Work():
                return Step("work", partial(self._work, effect))
        assert_never(effect)

    def do(self, effect: InterpretedEffect) -> ReplicaEvent | None:
        """All that an effect does, on one thread; it does not wait for what is new."""
        return self.step(effect).finish()

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken. For the thread that reads."""
        for source, (frame, position) in self._ahead.items():
            if not self.is_open:
                raise Bug(f"{source} is read ahead, and is not open")
            given = self.given[source]
            if any(position[p] < row for p, row in given.items()):
                raise Bug(f"{source} is read ahead to {position}, and given to {given}")
            if _is_before(frame, self.skipped.get(source, BEGIN)):
                raise Bug(f"{source} is skipped, and rows before that are kept to be given")

    # -- sources ------------------------------------------------------------------------------

    def _open(self, effect: OpenSources) -> Outcome[ReplicaEvent]:
        self._forget()
        try:
            self._sources.open(effect.positions, effect.since)
        except _UNREADABLE as e:
            return self._failed("", e)
        self.is_open = True
        self.given = self.taken = self._sources.positions
        if self._guard is None:
            return None
        return Step("checkpoint", partial(self._guard.opened, self.given))

    def _forget(self) -> None:
        """All that was read ahead is of other positions, and so is how far a drain has come."""
        self._ahead.clear()
        self.skipped.clear()
        self._cut.clear()

    def _skip(self, effect: SkipSource) -> None:
        if not self.is_open:  # a replay asks for it with the opening, which may have failed
            return
        self._sources.skip(effect.source, effect.t)
        self.skipped[effect.source] = max(effect.t, self.skipped.get(effect.source, BEGIN))
        self._drop_ahead(effect.source)

    def _drop_ahead(self, source: str) -> None:
        """Drops the rows that were read ahead if none of them is needed any more. What they promise
        stays.
        """
        frame, position = self._ahead.get(source, (None, {}))
        if frame is not None and _is_before(frame, self.skipped.get(source, BEGIN)):
            self._ahead[source] = frame.slice(0, 0, frame.stable), position

    def _next_look(
        self, effect: ReadSource, instead: SourceRead | None = None
    ) -> Step[ReplicaEvent]:
        """Of all looks that were asked for the last one counts."""
        self._reads += 1
        return Step("source", partial(self._look, effect, self._reads), instead)

    def _look(self, effect: ReadSource, number: int) -> Outcome[ReplicaEvent]:
        if number != self._reads or not self.is_open:
            return None  # the failure was reported, and once is enough
        source = effect.source
        try:
            frame, position = self._read_next(source)
            if frame is None:  # a drain may have left rows unread behind what was given
                return self._next_look(effect, SourceRead(source, None, self.given[source]))
            if effect.drains and self._is_past_end(source, frame):
                return self._answered(SourceRead(source, None, self.given[source]))
            # A frame that is full was cut: more is there, or will be in a moment.
            more = self._reads_ahead(source) or len(frame) >= self._pace()
        except _UNREADABLE as e:
            return self._failed(source, e)
        return self._answered(SourceRead(source, frame, position, more))

    def _answered(self, answer: SourceRead) -> SourceRead:
        self._reads += 1
        self.given = {**self.given, answer.source: answer.position}
        return answer

    def _read_next(self, source: str) -> tuple[Frame | None, Position]:
        """What was read ahead, as the pace is by now: in smaller frames where it has fallen, with
        what follows where it has risen.
        """
        rows = self._pace()
        frame, position = self._ahead.pop(source, (None, {}))
        if frame is None:
            return self._sources.read(source, rows)
        if len(frame) > READ_AHEAD_TIMES_MAX * rows:
            self._sources.go_back(source, self.given[source])
            return self._sources.read(source, rows)
        if READ_AHEAD_TIMES_MAX * len(frame) > rows:
            return frame, position
        more, behind = self._sources.read(source, rows - len(frame))
        if more is None:
            return frame, position
        stable = frame.stable if more.stable is None else more.stable
        return Frame.concat([frame.with_stable(None), more]).with_stable(stable), behind

    def _reads_ahead(self, source: str) -> bool:
        """Reads the frame behind the one that was asked for, if it is there: whether it is says
        the machine how to send. It is given when it is asked for.
        """
        frame, position = self._sources.read(source, self._pace())
        if frame is None:
            return False
        self._ahead[source] = frame, position
        self._drop_ahead(source)
        return True

    def _is_past_end(self, source: str, frame: Frame) -> bool:
        """Whether a frame came after the drain: a source that never pauses would keep the machine
        reading for ever. From the first such rows on all is: their stables count with them.
        """
        if source not in self._ends:
            self._ends[source] = self._end(source)
        given, end = self.given[source], self._ends[source]
        if len(frame) and all(given[p] >= row for p, row in end.items()):
            self._cut.add(source)
        return source in self._cut

    def _end(self, source: str) -> Position:
        """Behind all rows of a source that are there now."""
        return self._sources.end(source)

    def _failed(self, source: str, error: Exception) -> SourceFailed:
        self._reads += 1
        self.is_open = False
        self._ahead.clear()
        return SourceFailed(source, str(error))

    # -- checkpoints --------------------------------------------------------------------------

    def _write(self, effect: WriteCheckpoint) -> CheckpointWritten:
        name, positions = effect.name, effect.checkpoint.positions
        self._keep(name, positions)
        try:
            checkpoints.write(self._disk, name, effect.checkpoint)
        except (GaplessError, OSError) as e:
            self._let_go(name)
            return CheckpointWritten(name, str(e))
        self._keep(name, positions)  # a sweep may not have seen its file yet
        return CheckpointWritten(name)

    def _keep(self, name: str, positions: Mapping[str, Position]) -> None:
        if self._guard is not None:
            self._guard.keep(name, positions)

    def _let_go(self, name: str) -> None:
        if self._guard is not None:
            self._guard.drop(name)

    def _load(self, effect: LoadCheckpoint) -> CheckpointLoaded:
        try:
            found = checkpoints.read(self._disk, effect.name, self._schema)
        except (GaplessError, OSError) as e:
            return CheckpointLoaded(effect.name, None, str(e))
        return CheckpointLoaded(effect.name, found)

    def _drop(self, effect: DropCheckpoint) -> None:
        try:
            checkpoints.drop(self._disk, effect.name)
        except (GaplessError, OSError) as e:  # the next root drops what no supervisor has named
            self._on_alarm(f"checkpoint {effect.name} is not dropped: {e}")
        self._let_go(effect.name)

    # -- work ---------------------------------------------------------------------------------

    @staticmethod
    def _work(effect: Work) -> Done:
        return Done(effect.number, effect.do())


def _is_before(frame: Frame, t: int) -> bool:
    """Whether a frame has rows, and all of them end by a time: source rows live for an instant."""
    return t > BEGIN and len(frame) > 0 and frame.insert_only and int(frame.ve.max()) <= t
