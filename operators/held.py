"""Aggregates of all that came before: landmark windows, whose answers are held.

    window("all", slide=5), count by src
    ins(A,1,2) ins(A,17,18) stable(20)  ->  ins((A,1),5,inf) adj((A,1),5,inf,20) ins((A,2),20,inf)

The answer as of e, over all rows before e, stands from e until the next e at which rows of its
group have come: [e, next e), the last one [e, INF). So an answer is an event that is open, and is
ended by the answer that follows, also where both say the same.

An answer repeated at every e would have no last one: how often it were said would depend on how far
the stable had come before the end, and with several sources on which of them ended first.

    rows -> cells (pane, group)     until the pane [e - slide, e) is complete
    complete pane -> Standing       by group: what it has added up to, and since when that is held

Only the groups of a complete pane are looked at: one that has nothing new costs nothing.

With `early` the panes that end within it of the stable are entered into a copy, and what that says
is told; where it turns out otherwise it is taken back (`provisional.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.window_bounds import Bounds
from gapless.operators.ahead import EARLY_WINDOWS_MAX
from gapless.operators.answers import Grouping
from gapless.operators.aside import Aside
from gapless.operators.cells import Cells
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.memory import Memory
from gapless.operators.operator import ANSWER_ROWS_MAX, Marks, Operator, Out, check_schema, joined
from gapless.operators.present_window import panes_of
from gapless.operators.provisional import Told
from gapless.operators.standing import Standing
from gapless.operators.state import State, facts, read_facts
from gapless.operators.two_stacks import Pane
from gapless.operators.window_times import promised, ticks_of
from gapless.operators.windows import Landmark
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import VE, VS, StreamSchema

_ALL = 0
"""What is told early is one table, of all windows."""


class HeldAggregate(Operator):
    """Answers landmark windows. Its input is a stream of inserts; only `_vs` of a row matters."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Landmark,
        group_by: Sequence[str],
        aggregates: Sequence[tuple[str, AggregateFunction]],
        on: str | None = None,
        early: int | None = None,
        aside: Aside | None = None,
    ) -> None:
        if window.slide is None:
            raise Misuse("a landmark window without a slide has no answers: say slide=")
        if not aggregates:
            raise Misuse("aggregate: names at least one aggregate, as in n=count()")
        if on is not None and on not in schema.names:
            raise SchemaError(f"window on={on!r}: the columns are {', '.join(schema.names)}")
        self.schema = answer_schema(schema, group_by, aggregates)
        self._bounds = Bounds(len(group_by), aggregates)
        computed = answer_schema(schema, group_by, self._bounds.computed)
        self.reach = INF
        self._input, self._window = schema, window
        self._on, self._early = on, early
        self._aside = aside or Aside()
        functions = [function for _, function in self._bounds.computed]
        used = {VS, *group_by, *(name for f in functions for name in f.columns)}
        self._columns = [i for i, name in enumerate(schema.arrow.names) if name in used]
        rows = pa.schema([schema.arrow.field(i) for i in self._columns])
        grouping = Grouping(rows, group_by, functions, self._aside)
        self._grouping = grouping
        self._groups = Groups(grouping.rows, grouping.group_by)
        self._open = Cells(grouping)  # of panes that are not complete
        self._standing = Standing(grouping, self._groups, window)
        times = [pa.field(name, pa.int64(), nullable=False) for name in (VS, VE)]
        self._events = pa.schema([*times, *computed.payload])
        self._told = Told(self._events)
        self._complete = BEGIN  # panes below have entered
        self._stable = BEGIN  # of the output
        self._nothing = Frame.empty(self.schema)
        self._none = Frame.empty(computed).payload.columns

    def limited(self, memory: Memory) -> None:
        """Answers are asked for, too."""
        super().limited(memory)
        self._grouping.memory = memory

    # -- taking rows in -----------------------------------------------------------------------

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in, then answers what has become complete."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; each part promises that the panes before its last are answered."""
        check_schema(frame, self._input)
        if len(frame):
            self._take_in(frame)
        stable = frame.stable
        if self._on is not None and stable != INF:
            stable = promised(marks, self._on)
        if stable is None:
            yield Out(self._nothing)
            return
        out: list[Frame] = []
        complete = self._window.complete_below(stable)
        if complete > self._complete:
            out += self._tell(None)
            rows = sum(map(len, out))
            for frames, pane in self._answer_below(complete):
                if rows >= ANSWER_ROWS_MAX:
                    yield Out(self._frame(out, self._window.stable(self._window.end(pane - 1))))
                    out, rows = [], 0
                out += frames
                rows += sum(map(len, frames))
            self._complete = complete
        if self._early is not None and stable != INF:
            horizon = self._window.complete_below(min(INF, stable + self._early))
            out += self._tell(self._ahead(horizon))
        yield Out(self._frame(out, self._window.stable(stable)))

    def _take_in(self, frame: Frame) -> None:
        if not frame.insert_only:
            raise Misuse("windows count rows that are settled: put Settle first; got an adjust")
        times = frame.vs if self._on is None else ticks_of(frame.batch, self._on)
        countable = self._countable(frame, times)
        if countable is not None:
            frame, times = frame.take(countable), times[countable]
        if len(times):
            panes, rows = self._window.first(times), frame.batch.select(self._columns)
            groups = self._groups.of(rows)
            self._open.add(panes, groups, self._groups.capacity, times, rows)

    def _countable(self, frame: Frame, times: Times) -> Mask | None:
        """Which rows count, None where all do; the others go aside."""
        answered_to = self._complete
        if BEGIN < answered_to < INF:
            answered_to = self._window.end(answered_to - 1)
        if int(times.min()) >= answered_to and int(times.max()) <= self._window.latest:
            return None
        without, late = times == INF, times < answered_to
        beyond = (times > self._window.latest) & ~without
        last = f"these windows take rows up to {self._window.latest}: answers begin before inf"
        answered = "late: windows that it belongs to have been answered"
        for bad, reason in ((without, f"{self._on} is no time"), (beyond, last), (late, answered)):
            if np.count_nonzero(bad):
                self._aside.put("window", take_rows(frame.batch, bad), reason)
        countable: Mask = ~(without | beyond | late)
        return countable

    # -- answering ----------------------------------------------------------------------------

    def _answer_below(self, complete: int) -> Iterator[tuple[list[Frame], int]]:
        """The answers of each complete pane, and its number."""
        found = self._open.between(BEGIN, complete)
        partials = self._open.take(found)
        self._open.forget(found)
        for pane in panes_of(found, partials):
            yield self._answer(pane), pane.number

    def _answer(self, pane: Pane) -> list[Frame]:
        """Ends what was held of the groups of a complete pane, and holds what it makes of them."""
        end = self._window.end(pane.number)
        starts, before = self._standing.answers(pane.groups)
        self._standing.enter(pane)
        windows, now = self._standing.entered(pane)
        return [
            *self._made(starts, _all(end, starts), before, _all(INF, starts)),
            *self._made(_all(end, windows), _all(INF, windows), now),
        ]

    def _made(
        self, vs: Times, ve: Times, columns: Sequence[pa.Array], was: Times | None = None
    ) -> list[Frame]:
        """A frame of these rows, where there are any."""
        if not len(vs):
            return []
        return [Frame.made(self.schema, vs, ve, self._bounds.filled(columns, vs, vs), was)]

    def _frame(self, out: list[Frame], stable: int) -> Frame:
        """All of it, and the stable if it says something new."""
        frame = Frame.concat(out) if len(out) > 1 else out[0] if out else self._nothing
        if stable <= self._stable:
            return frame
        self._stable = stable
        return frame.with_stable(stable)

    # -- provisional answers ------------------------------------------------------------------

    def _ahead(self, horizon: int) -> pa.RecordBatch:
        """The events that there would be of groups with rows below `horizon`, were they all."""
        found = self._open.between(BEGIN, horizon)
        panes = list(panes_of(found, self._open.take(found)))
        if len(panes) > EARLY_WINDOWS_MAX:
            raise Misuse(
                f"early: {len(panes)} windows are open, {EARLY_WINDOWS_MAX} are answered "
                "provisionally at most: say early='10s' or so in place of True"
            )
        groups = np.unique(found.groups)
        ahead = self._standing.copy_of(groups)
        events = [self._batch(np.empty(0, np.int64), INF, self._none)]
        for pane in panes:
            starts, before = ahead.answers(pane.groups)
            events.append(self._batch(starts, self._window.end(pane.number), before))
            ahead.enter(pane)
        starts, held = ahead.answers(groups)
        return pa.concat_batches([*events, self._batch(starts, INF, held)])

    def _batch(self, starts: Times, end: int, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        times = [pa.array(starts), pa.array(_all(end, starts))]
        return pa.RecordBatch.from_arrays([*times, *columns], schema=self._events)

    def _tell(self, events: pa.RecordBatch | None) -> list[Frame]:
        """What makes the output say these events, beside what is final; None: nothing beside it."""
        if self._early is None:
            return []
        now = self._told_nothing if events is None else events
        gone, new = self._told.revise(_ALL, now, final=False)
        return [*self._said(gone, takes_back=True), *self._said(new, takes_back=False)]

    @property
    def _told_nothing(self) -> pa.RecordBatch:
        return self._batch(np.empty(0, np.int64), INF, self._none)

    def _said(self, events: pa.RecordBatch, *, takes_back: bool) -> list[Frame]:
        """Ends of what is held are moved; other events come and go."""
        if not events.num_rows:
            return []
        vs, ve = (events.column(i).to_numpy() for i in range(2))
        held_to = self._window.end(self._complete - 1) if self._complete > BEGIN else BEGIN
        out: list[Frame] = []
        for is_final in (True, False):
            mask = (vs <= held_to) == is_final
            columns = take_rows(events, mask).columns[2:]
            starts, ends = vs[mask], ve[mask]
            open_ = _all(INF, starts)
            if takes_back:
                out += self._made(starts, open_ if is_final else starts, columns, ends)
            else:
                out += self._made(starts, ends, columns, open_ if is_final else None)
        return out

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Every answer needs every row."""
        del t
        return BEGIN

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Where it stands, the rows counted, and what was told early."""
        found, held = self._open.between(BEGIN, INF), self._standing.held
        since, standing = self._standing.since(held), self._standing.take(held)
        return {
            "facts": facts(complete=self._complete, stable=self._stable),
            "told": self._told.snapshot(),
            **write_cells("open", found.places, found.groups, self._open.take(found), self._groups),
            **write_cells("held", since, held, standing, self._groups),
        }

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        self._complete, self._stable = read_facts(state, "complete", "stable")
        self._told.restore(state, "told")
        since, groups, partials = read_cells("held", state, self._open.states, self._groups)
        self._standing.put(groups, since, partials)
        places, groups, partials = read_cells("open", state, self._open.states, self._groups)
        if len(places):
            self._open.merge(places, groups, self._groups.capacity, partials)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        state = self._groups.nbytes + self._open.nbytes + self._standing.nbytes
        return state + self._told.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._groups.validate()
        self._open.validate()
        self._standing.validate()
        if len(self._open.between(BEGIN, self._complete).ids):
            raise Bug("a pane that is complete has not entered")


def _all(time: int, like: Times) -> Times:
    """One time for each of these."""
    return np.full(len(like), time, np.int64)
