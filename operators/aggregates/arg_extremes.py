"""arg_min and arg_max: a value of the row in which another column has its smallest or largest.

    src   len                 arg_max(src, len)    "b"
    "a"   7                   arg_min(src, len)    "a"
    "b"   9

Of several rows arg_min takes the smallest value, arg_max the largest, in the order of
`operators/order.py`, so that arrival never shows. A row counts that has neither null. What is kept
is the smallest or largest pair (len, src).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.forwarding import Forwarding
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.operators.aggregates.inputs import valid_rows
from gapless.operators.aggregates.picked import PickedValues
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.protocol.columns import take_rows
from gapless.protocol.documents import Document
from gapless.protocol.frame import Times


@dataclass(frozen=True, slots=True)
class _ArgExtreme(AggregateFunction):
    """What both have in common."""

    column: str
    by: str

    largest: ClassVar[bool]
    bounded = True
    differential = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of the answer, and the one that decides."""
        return (self.column,) if self.column == self.by else (self.column, self.by)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """The column's type."""
        place_of(self, schema, self.by)
        t: pa.DataType = schema.field(place_of(self, schema, self.column)).type
        return t

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """A pair of values an id."""
        self.result(schema)
        return _OfPairs(schema, (self.by, self.column), self.largest)

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column, "by": self.by}

    def __str__(self) -> str:
        return f"{self.name}({self.column}, {self.by})"


@dataclass(frozen=True, slots=True)
class ArgMin(_ArgExtreme):
    """The value where `by` is smallest; null if there are none."""

    name = "arg_min"
    largest = False
    sub = "smallest (by, value)"
    super_ = "value of the smallest of those"


@dataclass(frozen=True, slots=True)
class ArgMax(_ArgExtreme):
    """The value where `by` is largest; null if there are none."""

    name = "arg_max"
    largest = True
    sub = "largest (by, value)"
    super_ = "value of the largest of those"


class _OfPairs(Forwarding):
    """The smallest or largest pair of two columns, of which the second is the answer."""

    def __init__(self, schema: pa.Schema, names: tuple[str, str], largest: bool) -> None:
        self._places = [schema.get_field_index(name) for name in names]
        by, value = (schema.field(at).type for at in self._places)
        self._type = value
        self._pair = pa.struct([("by", plain_type(by)), ("value", plain_type(value))])
        super().__init__(PickedValues(0, self._pair, largest, timed=False))

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Offers the pairs of which neither is null."""
        for place in self._places:
            valid = valid_rows(rows.column(place))
            if valid is not None:
                ids, times, rows = ids[valid], times[valid], take_rows(rows, valid)
        columns = [plain_values(rows.column(place)) for place in self._places]
        pairs = pa.StructArray.from_arrays(columns, fields=list(self._pair))
        self.inner.add(ids, pa.RecordBatch.from_arrays([pairs], ["pair"]), times)

    def results(self, ids: Ids) -> pa.Array:
        """The second of each pair."""
        pairs = self.inner.results(ids)
        values = pairs.field(1)
        if pairs.null_count:
            missing = pairs.is_null().to_numpy(zero_copy_only=False)
            values = values.take(pa.array(np.arange(len(ids)), mask=missing))
        return restored(values, self._type)
