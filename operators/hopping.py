"""Windowed aggregates: one answer for each window and group that has rows.

    window(range=10, slide=5), count by src
    ins(A,7,8) stable(16)   ->   ins((A,1),10,15) ins((A,1),15,20) stable(20)

The answer as of e, over the rows in [e - range, e), is an event [e, e + slide): group columns, then
aggregates. The order of rows does not matter: a window is answered when the input's stable says
that no row of it can come any more (window-queries, chapter 6). How rows become answers is the
implementation's: `wid.py`, `paned.py`. What is said here is when, and how it is put out:

  stable t        windows below floor(t / slide) are answered, in order
  a group's mark  no more rows of src = 3 before t: its windows are answered now, the others later
  early           windows that end within `early` of the stable are answered provisionally, and
                  revised (`provisional.py`)

With `on=` a window reads a progressing column, not `_vs`, and is complete by the marks on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.answers import Answers, Grouping, Windowed
from gapless.operators.aside import Aside
from gapless.operators.closed_groups import ClosedGroups
from gapless.operators.operator import Marks, Operator, Out, check_schema, joined
from gapless.operators.paned import Paned
from gapless.operators.provisional import Told
from gapless.operators.state import State, as_part, facts, part, read_facts
from gapless.operators.wid import Wid
from gapless.operators.window_times import promised, ticks_of
from gapless.operators.windows import Hopping
from gapless.protocol.columns import take, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS, StreamSchema

Implementation = Literal["paned", "wid"]

EARLY_WINDOWS_MAX = 100_000
"""Windows answered provisionally at once: `early` reaches further than anybody can read."""

_NO_WINDOWS = INF, BEGIN


class HoppingAggregate(Operator):
    """Answers windows. Its input is a stream of inserts; only `_vs` of a row matters."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Hopping,
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
        if not aggregates:
            raise Misuse("aggregate: names at least one aggregate, as in n=count()")
        if implementation not in ("paned", "wid"):
            raise Misuse(f"implementation {implementation!r}: use 'paned' or 'wid'")
        self._input = schema
        self._window = window
        self._slide = window.slide
        if on is not None and on not in schema.names:
            raise SchemaError(f"window on={on!r}: the columns are {', '.join(schema.names)}")
        self._on = on
        self._time_names = {VS, *(name for name in (time, on) if name is not None)}
        self._group_by, self._groups = list(group_by), len(group_by)
        self._early = early
        self._aside = aside or Aside()
        functions = [function for _, function in aggregates]
        used = {VS, *group_by, *(name for f in functions for name in f.columns)}
        self._columns = [i for i, name in enumerate(schema.arrow.names) if name in used]
        rows = pa.schema([schema.arrow.field(i) for i in self._columns])
        grouping = Grouping(rows, group_by, functions, self._aside)
        if implementation == "wid":
            self._windowed: Windowed = Wid(window, grouping)
        else:
            self._windowed = Paned(window, grouping)
        self._told = Told(self.schema.payload)
        self._closed = ClosedGroups(pa.schema([schema.payload.field(name) for name in group_by]))
        self.reach = window.range + window.slide if on is None else INF
        self._complete = BEGIN  # windows below have been answered
        self._wanted = BEGIN  # windows below are not wanted any more
        self._needed_from = BEGIN  # rows before are in no wanted window
        self._stable = BEGIN  # of the output
        self._looked_to = BEGIN  # windows below were told as they were then
        self._changed = _NO_WINDOWS  # from, to below: rows have come for these since then
        self._nothing = Frame.empty(self.schema)
        self._none = self._nothing.payload

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
            complete = self._window.complete_below(stable)
            if complete > self._complete:
                for part, below in self._answer(complete):
                    if below < complete:
                        said = self._window.stable(below * self._slide)
                        yield Out(self._frame([*out, *part], said))
                        out = []
                    else:
                        out += part
            if self._early is not None and stable != INF:
                horizon = INF if self._early == INF else (stable + self._early) // self._slide
                out += self._look_ahead(horizon)
        yield Out(self._frame(out, None if stable is None else self._window.stable(stable)))

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
        self._windowed.add(times, frame.batch.select(self._columns), (earliest, latest))
        if self._early is not None:
            first, end = self._window.wids(earliest).start, self._window.wids(latest).stop
            self._changed = min(first, self._changed[0]), max(end, self._changed[1])

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
        return self._complete * self._slide if finite else self._complete

    # -- answering ----------------------------------------------------------------------------

    def _answer(self, complete: int) -> Iterator[tuple[list[Frame], int]]:
        """Answers the windows below `complete`; of each part, below which that is done then."""
        if self._early is None:
            for answers, below in self._windowed.answer(complete):
                yield [self._answered(answers)], below
        else:
            parts = [part.answers for part in self._windowed.answer(complete)]
            yield self._settle(complete, Answers.joined(parts) if parts else None), complete
        self._complete = complete
        self._closed.forget_before(complete)

    def _answered(self, answers: Answers) -> Frame:
        windows, columns = answers
        if self._closed:
            new = ~self._closed.answered(windows, columns[: self._groups])
            windows, columns = windows[new], [take(c, pa.array(new)) for c in columns]
        starts = (windows + 1) * self._slide
        return Frame.made(self.schema, starts, starts + self._slide, columns)

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

    # -- provisional answers ------------------------------------------------------------------

    def _settle(self, complete: int, answers: Answers | None) -> list[Frame]:
        """Final answers, beside what was told of their windows."""
        out = []
        if answers is not None:
            batch = self._batch(answers.columns)
            numbers = np.unique(answers.windows)
            starts = answers.windows.searchsorted(numbers).tolist()
            ends = answers.windows.searchsorted(numbers, "right").tolist()
            for window, start, end in zip(numbers.tolist(), starts, ends, strict=True):
                out += self._revise(window, batch.slice(start, end - start), final=True)
        for window in self._told.windows:  # of which no row is left
            if window < complete:
                out += self._revise(window, self._none, final=True)
        return out

    def _look_ahead(self, horizon: int) -> list[Frame]:
        """What is new of the windows below `horizon`. Most have not changed since the last time."""
        windows = self._windowed.open_windows(horizon)
        if len(windows) > EARLY_WINDOWS_MAX:
            raise Misuse(
                f"early: {len(windows)} windows are open, {EARLY_WINDOWS_MAX} are answered "
                "provisionally at most: say early='10s' or so in place of True"
            )
        first, end = self._changed
        out = []
        for window in windows:
            if window >= self._looked_to or first <= window < end:
                answers = self._windowed.provisional(window)
                out += self._revise(window, self._batch(answers.columns), final=False)
        self._looked_to, self._changed = horizon, _NO_WINDOWS
        return out

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.payload)

    def _revise(self, window: int, now: pa.RecordBatch, final: bool) -> list[Frame]:
        gone, new = self._told.revise(window, now, final)
        start, end = (window + 1) * self._slide, (window + 2) * self._slide
        out = []
        for batch, ve, was in ((gone, start, end), (new, end, None)):
            if batch.num_rows:
                vs, ends = (np.full(batch.num_rows, t, np.int64) for t in (start, ve))
                wases = None if was is None else np.full(batch.num_rows, was, np.int64)
                out.append(Frame.made(self.schema, vs, ends, batch.columns, wases))
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
            for window in self._windowed.open_windows(self._window.complete_below(bound)):
                out += self._close(mark, window)
        return out

    def _bound(self, mark: Punctuation) -> int | None:
        """Up to which time a mark closes a group; None where it does not."""
        if not mark.group or any(name not in self._group_by for name, _ in mark.group):
            return None
        if not mark.bounds:
            return INF
        (name, t), *more = mark.bounds
        return t if not more and name in self._time_names else None

    def _close(self, mark: Punctuation, window: int) -> list[Frame]:
        answers = self._windowed.provisional(window)
        if not len(answers.windows):
            return []
        groups = pa.RecordBatch.from_arrays(answers.columns[: self._groups], names=self._group_by)
        matching = pa.array(Punctuation((), mark.group).matches(groups))
        columns = [take(c, matching) for c in answers.columns]
        if not len(columns[0]):
            return []
        frame = self._answered(Answers(np.full(len(columns[0]), window, np.int64), columns))
        self._closed.close(columns[: self._groups], window + 1)
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
            self._told.forget([w for w in self._told.windows if w < wanted])
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
        if self._windowed.open_windows(max(self._complete, self._wanted)):
            raise Bug("a window that has been answered, or is not wanted, is still open")


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
