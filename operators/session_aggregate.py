"""Aggregates of sessions: one answer for each session of a partition, and each group in it.

    session 5, by src     rows A:2 A:4 A:8 A:20     sessions of A: [2, 8] end 13, [20, 20] end 25
    count by src          stable(14)  ->  ins((A,3),13,14) stable(14)

Rows of a partition whose neighbours are at most the gap apart are a session. It ends a gap after
its last row; once the input's stable has passed that, its answer is given, as an event of one
instant, and never taken back.

No rows are kept, and sessions are not looked for while rows come. Rows of a partition in one pane
of gap + 1 are at most a gap apart, so they are in one session, whatever comes between: they count
in a cell, with their earliest and latest time. Once a pane is complete its cells are put together
with the session so far of their partition (`sessions.py`), whose state is merged, not its rows:

    rows -> cells (pane, group)     until the pane is complete
    complete pane -> standing       by group: the session that may yet go on, one a partition

A session so far that ends below the stable has ended, unless the pane that is not complete has a
row at most a gap behind it. What ends when is on an agenda, so a stable looks at what ends.

With `early` the sessions that end within it of the stable are answered as they are by now, and
revised (`provisional.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.span import Span
from gapless.operators.aggregates.window_bounds import Bounds
from gapless.operators.answers import Answers, Grouping
from gapless.operators.aside import Aside
from gapless.operators.groups import Groups
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.memory import Memory
from gapless.operators.operator import Marks, Operator, Out, check_schema, joined
from gapless.operators.partitions import Partitions
from gapless.operators.provisional import Told
from gapless.operators.session_state import SessionState
from gapless.operators.state import FACTS, State, as_part, facts, part, read_facts
from gapless.operators.window_times import promised, ticks_of
from gapless.protocol.columns import int64s, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import VS, StreamSchema

_ALL = 0
"""What is told early is one table."""
_END, _START = "_end", "_start"


class SessionAggregate(Operator):
    """Answers sessions. Its input is a stream of inserts; only `_vs` of a row matters."""

    reach = INF  # a session may have begun at any time

    def __init__(
        self,
        schema: StreamSchema,
        gap: int,
        partition_by: Sequence[str],
        group_by: Sequence[str],
        aggregates: Sequence[tuple[str, AggregateFunction]],
        on: str | None = None,
        early: int | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.schema = answer_schema(schema, group_by, aggregates)
        if not aggregates:
            raise Misuse("aggregate: names at least one aggregate, as in n=count()")
        for name in (*partition_by, *([] if on is None else [on])):
            if name not in schema.names:
                raise SchemaError(f"session {name!r}: the columns are {', '.join(schema.names)}")
        self._input, self._gap = schema, gap
        self._on, self._early = on, early
        self._aside = aside or Aside()
        self._bounds = Bounds(len(group_by), aggregates)
        functions = [function for _, function in self._bounds.computed]
        keys = [*partition_by, *(name for name in group_by if name not in partition_by)]
        used = {VS, *keys, *(name for f in functions for name in f.columns)}
        self._columns = [i for i, name in enumerate(schema.arrow.names) if name in used]
        rows = pa.schema([schema.arrow.field(i) for i in self._columns])
        self._grouping = Grouping(rows, [*keys, _START], functions, self._aside, (Span(),))
        groups = Groups(rows, keys)
        partitions = Partitions(groups, rows, partition_by)
        self._state = SessionState(self._grouping, gap, groups, partitions)
        self._start = len(keys)  # of the columns of answers, and those that are shown
        self._shown = [keys.index(name) for name in group_by]
        self._shown += range(self._start + 1, self._start + 1 + len(functions))
        answers = [pa.field(_END, pa.int64()), *groups.schema, pa.field(_START, pa.int64())]
        computed = answer_schema(schema, group_by, self._bounds.computed).payload
        answers += list(computed)[len(group_by) :]
        self._answers = pa.schema([f.with_name(str(i)) for i, f in enumerate(answers)])
        self._told = Told(self._answers)
        self._latest = INF - 2 - gap  # of a row whose session's answer ends before INF
        self._seen = BEGIN  # no row below comes any more
        self._stable = BEGIN  # of the output
        self._nothing = Frame.empty(self.schema)

    def limited(self, memory: Memory) -> None:
        """Answers are asked for, too."""
        super().limited(memory)
        self._grouping.memory = memory

    # -- taking rows in -----------------------------------------------------------------------

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in, then answers the sessions that have ended."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; the stable comes with the last."""
        check_schema(frame, self._input)
        if len(frame):
            self._take_in(frame)
        stable = frame.stable
        if self._on is not None and stable != INF:
            stable = promised(marks, self._on)
        if stable is None:
            yield Out(self._nothing)
            return
        self._seen = max(self._seen, stable)
        if self._early is None:
            for answers in self._state.end(stable):
                yield Out(self._frame(self._batch(answers)))
        else:
            for frame in self._revised(stable):
                yield Out(frame)
        yield Out(self._promise(stable))

    def _take_in(self, frame: Frame) -> None:
        if not frame.insert_only:
            raise Misuse("windows count rows that are settled: put Settle first; got an adjust")
        times = frame.vs if self._on is None else ticks_of(frame.batch, self._on)
        if int(times.min()) < self._seen or int(times.max()) > self._latest:
            countable = self._countable(frame, times)
            frame, times = frame.take(countable), times[countable]
        if len(times):
            self._state.add(times, frame.batch.select(self._columns))

    def _countable(self, frame: Frame, times: Times) -> Mask:
        """Which rows count; the others go aside."""
        without, late = times == INF, times < self._seen
        beyond = (times > self._latest) & ~without
        last = f"these sessions take rows up to {self._latest}: answers end before inf"
        answered = "late: sessions that it might belong to have been answered"
        for bad, reason in ((without, f"{self._on} is no time"), (beyond, last), (late, answered)):
            if np.count_nonzero(bad):
                self._aside.put("window", take_rows(frame.batch, bad), reason)
        countable: Mask = ~(without | beyond | late)
        return countable

    # -- answering ----------------------------------------------------------------------------

    def _batch(self, answers: Answers) -> pa.RecordBatch:
        columns = [int64s(answers.windows), *answers.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._answers)

    def _frame(self, answers: pa.RecordBatch, *, takes_back: bool = False) -> Frame:
        """The events of answers, or what takes them back."""
        ends = answers.column(0).to_numpy()
        starts = answers.column(1 + self._start).to_numpy()
        columns = [answers.column(1 + i) for i in self._shown]
        columns = self._bounds.filled(columns, starts, ends)
        if takes_back:
            return Frame.made(self.schema, ends, ends, columns, ends + 1)
        return Frame.made(self.schema, ends, ends + 1, columns)

    def _promise(self, stable: int) -> Frame:
        """A session that has not ended ends at the stable or later."""
        if stable <= self._stable:
            return self._nothing
        self._stable = stable
        return self._nothing.with_stable(stable)

    def _revised(self, stable: int) -> Iterator[Frame]:
        """What makes the output say what has ended, and what is to end soon by what is known."""
        none = [_none_of(self._answers)]
        final = [*none, *map(self._batch, self._state.end(stable))]
        horizon = INF if self._early == INF else stable + (self._early or 0)
        ahead = none if stable == INF else [*none, *map(self._batch, self._state.ahead(horizon))]
        soon = pa.concat_batches(ahead)
        gone, new = self._told.revise(_ALL, pa.concat_batches([*final, soon]), final=False)
        self._told.revise(_ALL, soon, final=False)  # what is final is not told any more
        for answers, takes_back in ((gone, True), (new, False)):
            if answers.num_rows:
                yield self._frame(answers, takes_back=takes_back)

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its input: a session may have begun at any time."""
        del t
        return BEGIN

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Where it stands, the cells and sessions, and what was told early."""
        return {
            FACTS: facts(seen=self._seen, stable=self._stable),
            "told": self._told.snapshot(),
            **as_part(self._state.snapshot(), "sessions"),
        }

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        self._seen, self._stable = read_facts(state, "seen", "stable")
        self._told.restore(state, "told")
        self._state.restore(part(state, "sessions"))

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._state.nbytes + self._told.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._state.validate(self._seen)


def _none_of(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
