"""SetLifetimes: how long a row lives, by a window or by what it says itself.

    window(range=10, slide=5)     ins(A,7,8)    stable(8)    adj(A,7,8,9)    adj(A,7,9,7)
                                  ins(A,10,20)  stable(10)                   adj(A,10,20,10)

What a row becomes depends on its time and payload, and never on its end. So an adjust that moves an
end changes nothing, and one that removes an event removes what was made of it: the same times are
worked out again. A row that no answer sees (it falls between windows) becomes nothing.

With `on=` another column is the row's time. Stables speak of `_vs`, so what is promised then comes
from the marks on that column.

Aside go rows without a time or with an end that is not after it, and those that would start when
time is over.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.operators.aside import Aside
from gapless.operators.evaluation import evaluate_rows
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.operators.windows import Cumulating, For, Hopping, Landmark, Sliding, Until
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS, StreamSchema

Window = Hopping | Cumulating | Landmark | Sliding | For | Until
"""What gives rows lifetimes."""


class SetLifetimes(Operator):
    """Gives each row the lifetime that `window` has for its time: `_vs`, or the column `on`."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Window,
        on: str | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.schema = schema
        self.reach = window.reach if on is None else INF
        self._window = window
        self._on = on
        self._place = 0 if on is None else schema.arrow.get_field_index(on)
        self._aside = aside or Aside()
        self._where = f"lifetime(end={window.end})" if isinstance(window, Until) else "window"
        if on is not None:
            if on not in schema.names:
                raise SchemaError(f"on={on!r}: the columns are {', '.join(schema.names)}")
            _check_times(f"on={on!r}", schema.payload.field(on).type, schema)
        if isinstance(window, Until):
            _check_times(self._where, window.end.type(schema.payload), schema)
        self._stable = BEGIN  # of the output

    # -- rows ---------------------------------------------------------------------------------

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The rows with their lifetimes, and what the input's promises say of these."""
        check_schema(frame, self.schema)
        out = self._rows(frame) if len(frame) else Frame.empty(self.schema)
        stable = self._promise(frame.stable, marks)
        out = out if stable is None else out.with_stable(stable)
        return Out(out, tuple(filter(None, map(self._translated, marks))) if marks else ())

    def _rows(self, frame: Frame) -> Frame:
        if not frame.insert_only:  # ends that move are of no interest
            frame = frame.take(frame.is_insert | (frame.ve == frame.vs))
        rows, starts, ends = self._living(frame)
        there = starts < ends
        if np.count_nonzero(there) < len(there):
            rows, starts, ends = rows.take(there), starts[there], ends[there]
        if rows.insert_only and starts is rows.vs:
            return rows.with_ends(ends)
        columns = rows.payload.columns
        if rows.insert_only:
            return Frame.made(self.schema, starts, ends, columns)
        inserts = rows.is_insert
        gone, was = np.where(inserts, ends, starts), np.where(inserts, BEGIN, ends)
        return Frame.made(self.schema, starts, gone, columns, was)

    def _living(self, rows: Frame) -> tuple[Frame, Times, Times]:
        """The rows that have a lifetime, maybe an empty one, and their lifetimes."""
        window = self._window
        if isinstance(window, Until):
            ends, left = evaluate_rows(window.end, rows.batch, self._aside, self._where)
            rows = rows if left is None else rows.take(left)
            starts, ends = self._times(rows), _as_times(ends)
        else:
            starts, ends = window.lifetimes(self._times(rows))
            if starts is rows.vs:  # which every row has
                return rows, starts, ends
        no_start = (starts == INF) | (starts == BEGIN)
        reason = "starts when time is over" if self._on is None else f"{self._on} is no time"
        rows, starts, ends = self._without(rows, starts, ends, no_start, reason)
        if isinstance(window, Until):
            reason = "the end is not after the start"
            rows, starts, ends = self._without(rows, starts, ends, ends <= starts, reason)
        return rows, starts, ends

    def _times(self, rows: Frame) -> Times:
        """The time of each row; INF where the column is null."""
        return rows.vs if self._on is None else _as_times(rows.batch.column(self._place))

    def _without(
        self, rows: Frame, starts: Times, ends: Times, bad: Mask, reason: str
    ) -> tuple[Frame, Times, Times]:
        if not np.count_nonzero(bad):
            return rows, starts, ends
        self._aside.put(self._where, rows.take(bad).batch, reason)
        good = ~bad
        return rows.take(good), starts[good], ends[good]

    # -- promises -----------------------------------------------------------------------------

    def _promise(self, stable: int | None, marks: Marks) -> int | None:
        """What the input has promised of rows' times, as a promise of starts, if it is news."""
        if self._on is not None:
            told = [t for mark in marks if (t := mark.as_stable(self._on)) is not None]
            stable = INF if stable == INF else max(told, default=None)
        if stable is None:
            return None
        promised = self._window.stable(stable)
        if promised <= self._stable:
            return None
        self._stable = promised
        return promised

    def _translated(self, mark: Punctuation) -> Punctuation | None:
        """The mark in terms of the new starts; None where `_vs` does not tell these."""
        bounds = dict(mark.bounds)
        if VS not in bounds:
            return mark
        if self._on is not None:
            return None
        bounds[VS] = self._window.stable(bounds[VS])
        return Punctuation(tuple(bounds.items()), mark.group)

    # -- the rest -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Asks for the rows that live until t; with `on=`, whose times are others, for all."""
        return self._window.rows_needed_from(t) if self._on is None else BEGIN

    def snapshot(self) -> State:
        """What has been promised."""
        return {FACTS: facts(stable=self._stable)}

    def restore(self, state: State) -> None:
        """Takes it back."""
        check_names(state, FACTS)
        (self._stable,) = read_facts(state, "stable")

    def validate(self) -> None:
        """Keeps nothing that could be wrong."""


def _check_times(what: str, t: pa.DataType, schema: StreamSchema) -> None:
    if pa.types.is_signed_integer(t) or (pa.types.is_date64(t) and schema.time_unit == "ms"):
        return
    if not pa.types.is_timestamp(t) or t.unit != schema.time_unit:
        raise SchemaError(
            f"{what} is {t}: cast it to int64, or to a timestamp in the stream's {schema.time_unit}"
        )


def _as_times(column: pa.Array) -> Times:
    """A column as times, null as INF."""
    temporal = pa.types.is_temporal(column.type)  # then it has 64 bits, as `_check_times` has seen
    ticks = column.view(pa.int64()) if temporal else column.cast(pa.int64())
    if ticks.null_count:
        ticks = ticks.fill_null(INF)
    times: Times = ticks.to_numpy()
    return times
