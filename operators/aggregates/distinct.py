"""count_distinct: how many different values, exactly or by a sketch.

exact                every value is kept with its count: no bound, and it slides
hll, precision=12    4096 registers a group: bounded, 1.6 % off as a rule, and it does not slide
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.operators.aggregates.hll import PRECISION_MAX, PRECISION_MIN, Registers
from gapless.operators.aggregates.inputs import present_rows
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.aggregates.plain import plain_type, plain_values
from gapless.operators.aggregates.tally import Tally
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

Method = Literal["exact", "hll"]
METHODS: tuple[Method, ...] = ("exact", "hll")
PRECISION = 12
"""4096 registers: 1.6 % off as a rule, in 4 KB."""


@dataclass(frozen=True, slots=True)
class CountDistinct(AggregateFunction):
    """How many different values there are; 0 if there are none, and never null."""

    column: str
    method: Method = "exact"
    precision: int = PRECISION

    name = "count_distinct"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise Misuse(f"count_distinct: method {self.method!r}: use 'exact' or 'hll'")
        p = self.precision
        if type(p) is not int or not PRECISION_MIN <= p <= PRECISION_MAX:
            raise Misuse(
                f"count_distinct: precision {p!r}: {PRECISION_MIN} to {PRECISION_MAX}, for 2^p "
                "registers a group"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def bounded(self) -> bool:
        """A sketch is."""
        return self.method == "hll"

    @property
    def differential(self) -> bool:
        """Counted values are; a sketch's registers forget what made them."""
        return self.method == "exact"

    @property
    def sub(self) -> str:
        """What is kept of a pane."""
        return "values and their counts" if self.method == "exact" else "HyperLogLog registers"

    @property
    def super_(self) -> str:
        """What makes the answer of those."""
        if self.method == "exact":
            return "number of values in the sum of the counts"
        return "estimate from the largest of each register"

    def result(self, schema: pa.Schema) -> pa.DataType:
        """int64, whatever is counted."""
        place_of(self, schema, self.column)
        return pa.int64()

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """By every value, or by register."""
        place = place_of(self, schema, self.column)
        if self.method == "hll":
            return _Sketched(place, self.precision)
        return _Exact(place, schema.field(place).type)

    def to_document(self) -> Document:
        """The function as plain data."""
        return {
            "function": self.name,
            "column": self.column,
            "method": self.method,
            "precision": self.precision,
        }

    def __str__(self) -> str:
        method = "" if self.method == "exact" else f', method="hll", precision={self.precision}'
        return f"count_distinct({self.column}{method})"


class _Exact(OfParts):
    """Every value, with its count."""

    differential = True

    def __init__(self, place: int, t: pa.DataType) -> None:
        self._place = place
        self._tally = Tally(plain_type(t))
        super().__init__(self._tally)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts each value."""
        ids, column = present_rows(ids, rows.column(self._place))
        self._tally.add(ids, plain_values(column))

    def results(self, ids: Ids) -> pa.Array:
        """How many there are."""
        return pa.array(self._tally.sizes(ids))


class _Sketched(OfParts):
    """A HyperLogLog sketch."""

    differential = False

    def __init__(self, place: int, precision: int) -> None:
        self._place = place
        self._registers = Registers(precision)
        super().__init__(self._registers)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Hashes each value into its register."""
        self._registers.add(*present_rows(ids, rows.column(self._place)))

    def results(self, ids: Ids) -> pa.Array:
        """The estimates."""
        return pa.array(self._registers.estimates(ids))
