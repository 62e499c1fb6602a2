"""SketchedHeavy: the heavy values of each window, in memory that does not grow with their number.

    window(range=10, slide=5), heavy src, share 0.5
    ins(A,7,8) ins(A,8,9) ins(B,8,9) stable(16)   ->   ins((A,2),10,15) ins((A,2),15,20) stable(20)

Of each window it tells every value that has at least the share of its rows, with an estimate of how
often it came that is never too low; and maybe values of a little less, whose estimates are too high
(`count_min.py`). Answers live `[e, e + slide)` and are final; windows come one after the other, in
each the most frequent values first: a plan that ends here leads to LMerge's case r1.

Rows wait until the input's stable has passed them; then `sketched_panes.py` takes them, in order of
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.counts import Count
from gapless.operators.aside import Aside
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.memory import Memory
from gapless.operators.operator import Marks, Operator, Out, check_schema, joined
from gapless.operators.panes import panes_of_windows
from gapless.operators.sketched_panes import SketchedPanes, Told
from gapless.operators.state import FACTS, State, as_part, facts, part, read_facts, table
from gapless.operators.waiting_rows import WaitingRows
from gapless.operators.window_choices import millionths
from gapless.operators.window_times import promised, ticks_of
from gapless.operators.windows import Cut
from gapless.protocol.columns import int64s, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import VS, StreamSchema

_WAITING, _PANES = "waiting", "panes"


class SketchedHeavy(Operator):
    """Tells heavy values. Its input is a stream of inserts; only `_vs` of a row matters."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Cut,
        columns: Sequence[str],
        share: float,
        on: str | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.schema = answer_schema(schema, columns, [("n", Count())])
        if not columns:
            raise Misuse("heavy: name the columns whose values are counted")
        if on is not None and on not in schema.names:
            raise SchemaError(f"window on={on!r}: the columns are {', '.join(schema.names)}")
        self._input, self._window, self._on = schema, window, on
        self._aside = aside or Aside()
        self._columns = [schema.arrow.get_field_index(name) for name in columns]
        fields = [pa.field(VS, pa.int64(), nullable=False)]
        fields += [schema.arrow.field(i) for i in self._columns]
        self._rows = pa.schema(fields)  # of rows that wait
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in fields], schema=self._rows)
        self._waiting = WaitingRows(empty)
        counted = replace(window, origin=0)
        self._panes_of = panes_of_windows(counted)
        self._panes = SketchedPanes(empty, self._panes_of, millionths(share))
        self.reach = window.reach if on is None else INF
        self._seen = BEGIN  # no row below comes any more
        self._needed_from = BEGIN  # rows before are in no wanted window
        self._stable = BEGIN  # of the output
        self._nothing = Frame.empty(self.schema)

    def limited(self, memory: Memory) -> None:
        """Answers are asked for, too."""
        super().limited(memory)
        self._panes.memory = memory

    # -- taking rows in -----------------------------------------------------------------------

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in, then tells what is heavy in windows that have become complete."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; each part promises that the windows before its last are told."""
        check_schema(frame, self._input)
        if len(frame):
            self._take_in(frame)
        stable = frame.stable
        if self._on is not None and stable != INF:
            stable = promised(marks, self._on)
        if stable is None or stable <= self._seen:
            yield Out(self._nothing)
            return
        self._seen = stable
        complete = self._window.complete_below(stable)
        self.memory.ask(self._waiting.nbytes, "rows that are counted")
        rows = self._waiting.take(INF if stable == INF else self._relative(stable))
        for told in self._panes.take(rows, complete):
            said = None
            if told.below < complete:
                said = self._promise(self._window.stable(self._window.end(told.below - 1)))
            yield Out(self._frame(told).with_stable(said))
        yield Out(self._nothing.with_stable(self._promise(self._window.stable(stable))))

    def _relative(self, t: int) -> int:
        return max(t, BEGIN + 1 + self._window.origin) - self._window.origin

    def _promise(self, stable: int) -> int | None:
        """A stable of the output, if it says something new."""
        if stable <= self._stable:
            return None
        self._stable = stable
        return stable

    def _take_in(self, frame: Frame) -> None:
        if not frame.insert_only:
            raise Misuse("windows count rows that are settled: put Settle first; got an adjust")
        times = frame.vs if self._on is None else ticks_of(frame.batch, self._on)
        kept = self._countable(frame, times)
        times = self._window.relative(times)
        if self._panes_of.span < self._panes_of.step:
            kept &= ~self._panes_of.between(times // self._panes_of.length)
        columns = [int64s(times), *(frame.batch.column(i) for i in self._columns)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._rows)
        self._waiting.add(rows if kept.all() else take_rows(rows, kept))

    def _countable(self, frame: Frame, times: Times) -> Mask:
        """Which rows count somewhere; those that ought to and cannot go aside."""
        without, late = times == INF, times < self._seen
        beyond = (times > self._window.latest) & ~without
        last = f"these windows take rows up to {self._window.latest}: answers end before inf"
        counted = "late: rows of its time have been counted"
        for bad, reason in ((without, f"{self._on} is no time"), (beyond, last), (late, counted)):
            if np.count_nonzero(bad):
                self._aside.put("window", take_rows(frame.batch, bad), reason)
        countable: Mask = ~(without | beyond | late) & (times >= self._needed_from)
        return countable

    def _frame(self, told: Told) -> Frame:
        starts, ends = self._window.ends(told.windows), self._window.ends(told.windows + 1)
        return Frame.made(self.schema, starts, ends, [*told.values.columns, int64s(told.n)])

    # -- skipping -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Drops the windows whose answers end before t, counted or not."""
        if self._on is not None:
            return BEGIN
        if t in (BEGIN, INF):
            return t
        needed = self._window.rows_needed_from(t)
        if needed > self._needed_from:
            self._needed_from = needed
            self._waiting.take(self._relative(needed))
            self._panes.skip_to(self._window.first_wanted(t))
        return needed

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Where it stands, the rows that wait, and the panes."""
        numbers = facts(
            seen=self._seen,
            needed_from=self._needed_from,
            stable=self._stable,
        )
        return {
            FACTS: numbers,
            _WAITING: self._waiting.rows,
            **as_part(self._panes.snapshot(), _PANES),
        }

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        self._seen, self._needed_from, self._stable = read_facts(
            state, "seen", "needed_from", "stable"
        )
        self._waiting.add(table(state, _WAITING, self._rows))
        self._panes.restore(part(state, _PANES))

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of rows that wait, and of panes."""
        return self._waiting.nbytes + self._panes.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._panes.validate()
        if self._waiting.first < self._relative(max(self._seen, self._needed_from)):
            raise Bug("a row waits that the stable has passed, or that is not wanted")
