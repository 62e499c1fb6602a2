"""window_start(), window_end(), window_time(): of the window that an answer is about.

    window(10 s / 5 s), as of 20:     start 10, end 20, time 20 less one tick

They are columns of the answer, not of its rows: the operator that answers a window puts them there
(`Bounds`), and nothing is kept for them. The time is the last one that the window covers, so a
window that reads it finds the answer among the rows that it is about; by `_vs`, which is the end,
answers of 10 s would go into the next 30 s.

Their type is that of the source's time, if that is a number, and else a timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.counts import CountAccumulator
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.protocol.columns import int64s
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

Which = Literal["start", "end", "time"]
Named = Sequence[tuple[str, AggregateFunction]]


@dataclass(frozen=True, slots=True)
class WindowBound(AggregateFunction):
    """One of the three; the step that it is in gives it a type."""

    which: Which
    type: pa.DataType | None = None

    columns = ()
    bounded = True
    differential = True
    sub = "nothing"
    super_ = "what the window says of itself"

    def __post_init__(self) -> None:
        if self.which not in get_args(Which):
            raise Misuse(f"a window has a start, an end and a time, and no {self.which!r}")

    @property
    def name(self) -> str:
        """What it is called."""
        return f"window_{self.which}"

    def result(self, schema: pa.Schema) -> pa.DataType:
        """A time."""
        return self.type or pa.int64()

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """A stand-in: no rows are asked."""
        return CountAccumulator(None)

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name}

    def __str__(self) -> str:
        return f"{self.name}()"


def typed(aggregates: Named, time: pa.DataType, unit: str) -> Named:
    """The same, with the type that bounds have where times have these."""
    t = time
    if not pa.types.is_int64(time):
        t = pa.timestamp(unit, time.tz if pa.types.is_timestamp(time) else None)
    return tuple(
        (n, replace(f, type=t) if isinstance(f, WindowBound) else f) for n, f in aggregates
    )


class Bounds:
    """Where the bounds stand among the columns of answers."""

    def __init__(self, groups: int, aggregates: Named) -> None:
        """`groups`: so many columns come before the aggregates."""
        self.computed = [(n, f) for n, f in aggregates if not isinstance(f, WindowBound)]
        """The aggregates that rows are asked for."""
        self._places = [
            (groups + i, f) for i, (_, f) in enumerate(aggregates) if isinstance(f, WindowBound)
        ]

    def filled(self, columns: Sequence[pa.Array], starts: Times, ends: Times) -> list[pa.Array]:
        """All columns, of those that were computed, and the bounds of each row's window."""
        made = list(columns)
        for place, bound in self._places:
            made.insert(place, _column(bound, starts, ends))
        return made


def _column(bound: WindowBound, starts: Times, ends: Times) -> pa.Array:
    times = starts if bound.which == "start" else ends - (bound.which == "time")
    return int64s(np.ascontiguousarray(times)).view(bound.type or pa.int64())


def before(ends: Times, spans: Times) -> Times:
    """So much before each of these times, or the first time that there is."""
    starts: Times = np.maximum(ends, BEGIN + 1 + spans) - spans
    return starts
