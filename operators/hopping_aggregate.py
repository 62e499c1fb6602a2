"""Windowed aggregates: one answer for each window and group that has rows.

    window(range=10, slide=5), count by src
    ins(A,7,8) stable(16)   ->   ins((A,1),10,15) ins((A,1),15,20) stable(20)

The answer as of e, over the rows in [e - range, e), is an event [e, e + slide): group columns, then
aggregates. Windows that cumulate have those since the last restart before e. The order of rows does
not matter: a window is answered when the input's stable says that no row of it can come any more
(window-queries, chapter 6). How rows become answers is the implementation's: `wid.py`, `paned.py`.
What is said here is when, and how it is put out:

  stable t        windows below floor(t / slide) are answered, in order
  a group's mark  no more rows of src = 3 before t: its windows are answered now, the others later
  early           windows that end within `early` of the stable are answered provisionally, and
                  revised (`provisional.py`)

With `on=` a window reads a progressing column, not `_vs`, and is complete by the marks on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.operators.adaptive import Adaptive
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.window_bounds import Bounds, before
from gapless.operators.ahead import Ahead
from gapless.operators.answers import Answers, Grouping, Windowed
from gapless.operators.aside import Aside
from gapless.operators.closed_groups import ClosedGroups
from gapless.operators.memory import Memory
from gapless.operators.operator import Marks, Operator, Out, check_schema, joined
from gapless.operators.paned import Paned
from gapless.operators.state import State, as_part, facts, part, read_facts
from gapless.operators.told_answers import Revision, ToldAnswers
from gapless.operators.two_level import TwoLevel, TwoLevelOptions
from gapless.operators.wid import Wid
from gapless.operators.window_times import promised, ticks_of
from gapless.operators.windows import Cut
from gapless.protocol.columns import take, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS, StreamSchema

Name = Literal["paned", "wid", "two_level", "adaptive"]
NAMES: tuple[Name, ...] = ("paned", "wid", "two_level", "adaptive")
DEFAULT: Name = "paned"
"""What answers windows unless a plan says otherwise."""
Implementation = Name | TwoLevelOptions


class HoppingAggregate(Operator):
    """Answers windows. Its input is a stream of inserts; only `_vs` of a row matters."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Cut,
        group_by: Sequence[str],
        aggregates: Sequence[tuple[str, AggregateFunction]],
        implementation: Implementation = "paned",
        on: str | None = None,
        early: int | None = None,
        aside: Aside | None = None,
        time: str | None = None,
    ) -> None:
        """`time` names a column that equals `_vs`: marks of groups may speak of it."""
        self.schema = answer_schema(schema, group_by, aggregates)
        self._bounds = Bounds(len(group_by), aggregates)
        if not aggregates:
            raise Misuse("aggregate: names at least one aggregate, as in n=count()")
        self._input = schema
        self._window = window
        if on is not None and on not in schema.names:
            raise SchemaError(f"window on={on!r}: the columns are {', '.join(schema.names)}")
        self._on = on
        self._time_names = {on} if on is not None else {VS, time or VS}
        self._group_by, self._groups = list(group_by), len(group_by)
        self._early = early
        self._aside = aside or Aside()
        functions = [function for _, function in self._bounds.computed]
        used = {VS, *group_by, *(name for f in functions for name in f.columns)}
        self._columns = [i for i, name in enumerate(schema.arrow.names) if name in used]
        rows = pa.schema([schema.arrow.field(i) for i in self._columns])
        grouping = Grouping(rows, group_by, functions, self._aside)
        ahead = None if early is None else Ahead()
        self._grouping = grouping
        self._windowed = _implemented(implementation, replace(window, origin=0), grouping, ahead)
        computed = answer_schema(schema, group_by, self._bounds.computed)
        self._told = ToldAnswers(computed.payload, self._groups)
        self._closed = ClosedGroups(pa.schema([schema.payload.field(name) for name in group_by]))
        self.reach = window.reach if on is None else INF
        self._complete = BEGIN  # windows below have been answered
        self._wanted = BEGIN  # windows below are not wanted any more
        self._needed_from = BEGIN  # rows before are in no wanted window
        self._stable = BEGIN  # of the output
        self._nothing = Frame.empty(self.schema)
        self._none = Frame.empty(computed).payload

    def limited(self, memory: Memory) -> None:
        """Answers are asked for, too."""
        super().limited(memory)
        self._grouping.memory = memory

    # -- taking rows in -----------------------------------------------------------------------

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in, then answers the windows that have become complete."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; each part promises that the windows before its last are answered."""
        check_schema(frame, self._input)
        if len(frame):
            self._take_in(frame)
        stable = frame.stable
        out: list[Frame] = []
        if marks:
            out += self._close_groups(marks)
            if self._on is not None and stable != INF:
                stable = promised(marks, self._on)
        elif self._on is not None and stable != INF:
            stable = None
        if stable is not None:
            stable, complete = self._promised(stable)
            if complete > self._complete:
                for part, below in self._answer(complete):
                    if below < complete:
                        said = self._window.stable(self._window.end(below - 1))
                        yield Out(self._frame([*out, *part], said))
                        out = []
                    else:
                        out += part
            if self._early is not None and stable != INF:
                horizon = self._window.complete_below(min(INF, stable + self._early))
                for look in self._windowed.look(horizon):
                    if out:
                        yield Out(self._frame(out, None))
                    out = self._revised(self._told.revise(*look))
        yield Out(self._frame(out, None if stable is None else self._window.stable(stable)))

    def _promised(self, stable: int) -> tuple[int, int]:
        """Up to which time all is said at a stable, and below which window."""
        complete = self._window.complete_below(stable)
        promised = self._windowed.promised(complete)
        return (stable if promised == complete else self._window.end(promised - 1)), promised

    def _take_in(self, frame: Frame) -> None:
        if not frame.insert_only:
            raise Misuse("windows count rows that are settled: put Settle first; got an adjust")
        times = frame.vs if self._on is None else ticks_of(frame.batch, self._on)
        earliest, latest = int(times.min()), int(times.max())
        if latest > self._window.latest or earliest < max(self._answered_to, self._needed_from):
            frame = frame.take(self._countable(frame, times))
            if not len(frame):
                return
            times = frame.vs if self._on is None else ticks_of(frame.batch, self._on)
            earliest, latest = int(times.min()), int(times.max())
        if self._window.origin:
            times = self._window.relative(times)
            earliest, latest = int(times.min()), int(times.max())
        self._windowed.add(times, frame.batch.select(self._columns), (earliest, latest))

    def _countable(self, frame: Frame, times: Times) -> Mask:
        """Which rows count somewhere; those that ought to and cannot go aside."""
        without, late = times == INF, times < self._answered_to
        beyond = (times > self._window.latest) & ~without
        last = f"these windows take rows up to {self._window.latest}: answers end before inf"
        answered = "late: windows that it belongs to have been answered"
        none = f"{self._on} is no time"
        for bad, reason in ((without, none), (beyond, last), (late, answered)):
            if np.count_nonzero(bad):
                self._aside.put("window", take_rows(frame.batch, bad), reason)
        countable: Mask = ~(without | beyond | late) & (times >= self._needed_from)
        return countable

    @property
    def _answered_to(self) -> int:
        """A row before this time belongs to a window that has been answered."""
        finite = BEGIN < self._complete < INF
        return self._window.end(self._complete - 1) if finite else self._complete

    # -- answering ----------------------------------------------------------------------------

    def _answer(self, complete: int) -> Iterator[tuple[list[Frame], int]]:
        """Answers the windows below `complete`; of each part, below which that is done then."""
        for answers, below in self._windowed.answer(complete):
            if self._early is None:
                yield [self._answered(answers)], below
            else:
                yield self._revised(self._told.settle(below, answers)), below
        if self._early is not None:  # of which no row is left
            none = Answers(np.empty(0, np.int64), self._none.columns)
            yield self._revised(self._told.settle(complete, none)), complete
        self._complete = complete
        self._closed.forget_before(complete)

    def _answered(self, answers: Answers) -> Frame:
        windows, columns = answers
        if self._closed:
            new = ~self._closed.answered(windows, columns[: self._groups])
            windows, columns = windows[new], [take(c, pa.array(new)) for c in columns]
        starts, ends = self._window.ends(windows), self._window.ends(windows + 1)
        return Frame.made(self.schema, starts, ends, self._filled(starts, columns))

    def _filled(self, ends: Times, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        """The columns of answers of windows with these ends."""
        return self._bounds.filled(columns, before(ends, self._window.spans(ends)), ends)

    def _frame(self, out: list[Frame], stable: int | None) -> Frame:
        """All of it, and the stable if it says something new."""
        if stable is not None:
            if stable > self._stable:
                self._stable = stable
            else:
                stable = None
        if not out:
            return self._nothing if stable is None else self._nothing.with_stable(stable)
        frame = out[0] if len(out) == 1 else Frame.concat(out)
        return frame if stable is None else frame.with_stable(stable)

    def _revised(self, revision: Revision) -> list[Frame]:
        """What was told and is not so, and what is told in its place."""
        out = []
        for (windows, computed), goes in ((revision.gone, True), (revision.new, False)):
            if len(windows):
                starts, ends = self._window.ends(windows), self._window.ends(windows + 1)
                columns = self._filled(starts, computed)
                out.append(
                    Frame.made(self.schema, starts, starts, columns, ends)
                    if goes
                    else Frame.made(self.schema, starts, ends, columns)
                )
        return out

    # -- single groups ------------------------------------------------------------------------

    def _close_groups(self, marks: Marks) -> list[Frame]:
        """Answers groups of which no row of some windows comes any more.

        With `early` their answers are out already, as provisional ones.
        """
        if self._early is not None:
            return []
        out = []
        for mark in marks:
            bound = self._bound(mark)
            if bound is None:
                continue
            limit = self._window.complete_below(bound)
            for answers in self._windowed.of_groups(limit, partial(_matching, mark)):
                out += self._close(answers)
        return out

    def _bound(self, mark: Punctuation) -> int | None:
        """Up to which time a mark closes a group; None where it does not."""
        if not mark.group or any(name not in self._group_by for name, _ in mark.group):
            return None
        if not mark.bounds:
            return INF
        (name, t), *more = mark.bounds
        return t if not more and name in self._time_names else None

    def _close(self, answers: Answers) -> list[Frame]:
        """Puts out final answers of groups that close, in ascending order of windows."""
        if not len(answers.windows):
            return []
        frame = self._answered(answers)
        self._closed.close(answers.columns[: self._groups], answers.windows + 1)
        return [frame] if len(frame) else []

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Drops the windows whose answers end before t, counted or not."""
        if self._on is not None:
            return BEGIN
        if t in (BEGIN, INF):
            return t
        wanted = self._window.first_wanted(t)
        if wanted > self._wanted:
            self._wanted = wanted
            self._needed_from = self._window.rows_needed_from(t)
            self._windowed.skip_to(wanted)
            self._told.forget_below(wanted)
        return self._window.rows_needed_from(t)

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Where it stands, the rows counted, what was told early, and who was closed."""
        numbers = facts(
            complete=self._complete,
            wanted=self._wanted,
            needed_from=self._needed_from,
            stable=self._stable,
        )
        told = {"told": self._told.snapshot(), "closed": self._closed.snapshot()}
        return {"facts": numbers, **told, **as_part(self._windowed.snapshot(), "windowed")}

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        self._complete, self._wanted, self._needed_from, self._stable = read_facts(
            state, "complete", "wanted", "needed_from", "stable"
        )
        self._told.restore(state, "told")
        self._closed.restore(state, "closed")
        self._windowed.restore(part(state, "windowed"))
        self._windowed.skip_to(max(self._complete, self._wanted))

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._windowed.nbytes + self._told.nbytes + self._closed.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._windowed.validate()
        self._closed.validate()
        self._told.validate()
        if self._windowed.has_open(max(self._complete, self._wanted)):
            raise Bug("a window that has been answered, or is not wanted, is still open")


def _implemented(
    implementation: Implementation, window: Cut, grouping: Grouping, ahead: Ahead | None
) -> Windowed:
    match implementation:
        case "paned":
            return Paned(window, grouping, ahead)
        case "wid":
            return Wid(window, grouping, ahead)
        case "adaptive":
            return Adaptive(window, grouping, ahead)
        case "two_level":
            return TwoLevel(window, grouping, TwoLevelOptions(), ahead)
        case TwoLevelOptions():
            return TwoLevel(window, grouping, implementation, ahead)
    raise Misuse(f"implementation {implementation!r}: use one of {', '.join(NAMES)}")


def _matching(mark: Punctuation, groups: pa.RecordBatch) -> Mask:
    """The groups that a mark names."""
    matching: Mask = Punctuation((), mark.group).matches(groups)
    return matching


def answer_schema(
    schema: StreamSchema,
    group_by: Sequence[str],
    aggregates: Sequence[tuple[str, AggregateFunction]],
) -> StreamSchema:
    """The schema of an aggregate's answers: group columns, then aggregates."""
    missing = [g for g in group_by if g not in schema.names]
    if missing:
        raise SchemaError(f"group_by {missing[0]!r}: the columns are {', '.join(schema.names)}")
    groups = [schema.payload.field(g) for g in group_by]
    fields = [pa.field(name, f.result(schema.payload)) for name, f in aggregates]
    return StreamSchema(pa.schema([*groups, *fields]), schema.time_unit)
