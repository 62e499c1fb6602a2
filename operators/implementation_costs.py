"""What each implementation of a windowed aggregate costs: Eqs. 6.1 to 6.9 of window-queries.

`implementation="auto"` takes the cheapest one. It is chosen from the query alone: what rows come
would tell more, but replicas and restarts have to choose alike.

    P    panes of a window                               RANGE 9 min, SLIDE 6 min: 3
    N    of these, new since the window before           2
    R    rows of a group in a slide, which nobody knows: a few, or many where there are no groups
    T    rows of a group in a window: R * RANGE / SLIDE

Work of one window and group, where to count a row, to make a sub-aggregate, and to put one into a
window or take it out cost the same: 1. A holistic sub-aggregate is as large as its rows: L = R / N
instead of 1.

    paned    not differential    R + L*N + L*min(P, 2*N + 1)         (6.1)
             differential        R + L*N + 2*L*N                     (6.2)
    wid                          T + L                               (6.3)

Eqs. 6.1 and 6.2 count the rows of one new pane a window, T/P, and make one sub-aggregate. There are
SLIDE / GCD(RANGE, SLIDE) new panes, which is N: of our panes 2 at the most (`panes.py`). Two stacks
put a pane in twice and join once (`two_stacks.py`), so 6.1 has P only where that is less. And wid
makes an answer, too, L. Windows that cumulate take no pane out, and have half of their panes on
average. Eq. 6.4 is of a buffer in order, which is no implementation here.

Memory: a group takes AGGR in each pane if it is eager, and TUP * R if it is lazy (6.5, 6.8; neither
disorder nor skew can be known before, and of Cond. 6.9 AGGR > TUP * R is left). Where that holds
for many rows, as for the 4 KB of count_distinct(method="hll"), adaptive is worth its time, unless
windows have so many panes that rows are counted too often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa

from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.eager_threshold import VARIABLE_BYTES
from gapless.operators.panes import pairs_of_windows
from gapless.operators.present_window import width_of
from gapless.operators.windows import Cut

GROUP_ROWS = 4
"""R of a group: wid is then chosen where windows hardly overlap, and with more rows or fewer that
is not much slower."""
ALL_ROWS = 1_000_000
"""R where there are no groups: so many that what becomes of panes hardly counts."""
LAZY_ROWS_MIN = 32
"""AGGR / TUP from which on memory decides: groups of fewer rows in a pane take less as rows."""
LAZY_PANES_MAX = 64
"""Panes of a window of which memory decides: lazy rows are counted in each of its windows."""
TIME_BYTES = 8
"""Of a row that waits, besides its columns."""
TEXT_BYTES = 16
"""Of its columns that have no fixed width."""


class Chosen(NamedTuple):
    """The cheapest implementation, and why it is, in a clause."""

    implementation: Literal["paned", "wid", "adaptive"]
    why: str


@dataclass(frozen=True, slots=True)
class Work:
    """What a query says of an aggregate's work."""

    panes: int
    """P; of windows that cumulate the average, rounded up."""
    new: int
    """N."""
    overlap: float
    """RANGE / SLIDE; of windows that cumulate the average."""
    grouped: bool
    bounded: bool
    differential: bool
    cumulates: bool
    aggregate_bytes: int
    """AGGR, of all its functions together."""
    row_bytes: int
    """TUP."""

    @staticmethod
    def of(
        window: Cut,
        rows: pa.Schema,
        group_by: Sequence[str],
        functions: Sequence[AggregateFunction],
    ) -> Work:
        """That of these functions over rows of these columns."""
        panes = pairs_of_windows(window)
        states = [function.accumulator(rows) for function in functions]
        used = {*group_by, *(name for function in functions for name in function.columns)}
        return Work(
            panes=(panes.span + 2) // 2 if panes.cumulate else panes.span,
            new=min(panes.step, panes.span),
            overlap=(panes.span + 1) / 2 if panes.cumulate else panes.range / panes.slide,
            grouped=bool(group_by),
            bounded=all(function.bounded for function in functions),
            differential=all(state.differential for state in states),
            cumulates=panes.cumulate,
            aggregate_bytes=sum(_width(s.partial_schema, VARIABLE_BYTES) for s in states),
            row_bytes=TIME_BYTES + _width([rows.field(name) for name in used], TEXT_BYTES),
        )

    @property
    def rows(self) -> float:
        """R, without rows that are in no window."""
        return (GROUP_ROWS if self.grouped else ALL_ROWS) * min(1.0, self.overlap)

    @property
    def merge(self) -> float:
        """L: what it costs to make a sub-aggregate, or to merge one."""
        return 1.0 if self.bounded else self.rows / self.new

    @property
    def paned(self) -> float:
        """Eqs. 6.1 and 6.2."""
        if self.cumulates:
            merges = self.new
        elif self.differential:
            merges = 2 * self.new
        else:
            merges = min(self.panes, 2 * self.new + 1)
        return self.rows + self.merge * (self.new + merges)

    @property
    def wid(self) -> float:
        """Eq. 6.3."""
        return self.rows * max(1.0, self.overlap) + self.merge

    @property
    def rows_of_aggregate(self) -> int:
        """How many rows take as much memory as a sub-aggregate (Eqs. 6.5 and 6.8)."""
        return self.aggregate_bytes // self.row_bytes


def cheapest(work: Work) -> Chosen:
    """The implementation for this work; of equal ones paned."""
    large = work.rows_of_aggregate >= LAZY_ROWS_MIN
    if large and work.grouped and work.panes <= LAZY_PANES_MAX:
        why = f"a sub-aggregate takes as much as {work.rows_of_aggregate:,} rows"
        return Chosen("adaptive", why)
    window = "a window of a group" if work.grouped else "a window"
    if work.wid < work.paned:
        return Chosen("wid", f"{window} takes {work.wid:,.0f} steps, {work.paned:,.0f} by panes")
    return Chosen("paned", f"{window} takes {work.paned:,.0f} steps, {work.wid:,.0f} by wid")


def _width(fields: Iterable[pa.Field], variable: int) -> int:
    """Bytes of a row; `variable` of a column in which they differ."""
    widths = [width_of(pa.schema([field])) for field in fields]
    return sum(variable if width is None else width for width in widths)
