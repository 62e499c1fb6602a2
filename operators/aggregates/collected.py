"""array_agg and string_agg: all values of a group, in order of time.

    ts   host                array_agg(host)          ["b", "a", "a"]
    1    "b"                 string_agg(host, "/")    "b/a/a"
    2    "a"
    2    "a"

Values of one time stand in the order of `operators/order.py`, so that arrival never shows. Nulls do
not count, here either. Each time and value is kept with its count: no constant bounds that, but it
slides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.operators.aggregates.inputs import valid_rows
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.aggregates.plain import plain_type, plain_values
from gapless.operators.aggregates.tally import Tally
from gapless.protocol.columns import take
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Times
from gapless.protocol.lists import list_of
from gapless.protocol.schema import check_type


@dataclass(frozen=True, slots=True)
class ArrayAgg(AggregateFunction):
    """The values as a list; null if there are none."""

    column: str

    name = "array_agg"
    bounded = False
    differential = True
    sub = "times and values, and their counts"
    super_ = "list of the values in order of time, of the sum of the counts"

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """Lists of what the column holds, which have neither dictionaries nor views in them."""
        t = pa.list_(plain_type(schema.field(place_of(self, schema, self.column)).type))
        check_type(f"{self}", t)
        return t

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Every time and value, with its count."""
        return _Collected(place_of(self, schema, self.column), self.result(schema))

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column}

    def __str__(self) -> str:
        return f"array_agg({self.column})"


@dataclass(frozen=True, slots=True)
class StringAgg(AggregateFunction):
    """The texts, one behind another; null if there are none."""

    column: str
    separator: str = ","

    name = "string_agg"
    bounded = False
    differential = True
    sub = "times and texts, and their counts"
    super_ = "texts in order of time, of the sum of the counts"

    def __post_init__(self) -> None:
        if type(self.separator) is not str:
            raise Misuse(
                f"string_agg: the separator {self.separator!r:.100} is no text: write one, as in "
                "string_agg('host', ', ')"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """The column's type; what it decodes to, if it is a dictionary or a view."""
        t = schema.field(place_of(self, schema, self.column)).type
        plain = plain_type(t)
        if not pa.types.is_string(plain) and not pa.types.is_large_string(plain):
            raise SchemaError(
                f"{self}: column {self.column!r} is {t}; it joins texts: make one of it first, as "
                f"in .map(text=gl.col({self.column!r}).cast('string'))"
            )
        return plain

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Every time and text, with its count."""
        lists = pa.list_(self.result(schema))
        return _Collected(place_of(self, schema, self.column), lists, self.separator)

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column, "separator": self.separator}

    def __str__(self) -> str:
        return f"string_agg({self.column}, {self.separator!r})"


class _Collected(OfParts):
    """Counted pairs of a time and a value; answers are lists, or with a separator texts."""

    differential = True

    def __init__(self, place: int, lists: pa.DataType, separator: str | None = None) -> None:
        self._place = place
        self._lists = lists
        self._separator = separator
        pairs = [("time", pa.int64()), ("value", lists.value_type)]
        self._pair = pa.struct([pa.field(name, t, nullable=False) for name, t in pairs])
        self._tally = Tally(self._pair)
        super().__init__(self._tally)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts each value at its time."""
        column = rows.column(self._place)
        valid = valid_rows(column)
        if valid is not None:
            ids, times, column = ids[valid], times[valid], take(column, pa.array(valid))
        values = [pa.array(times), plain_values(column)]
        self._tally.add(ids, pa.StructArray.from_arrays(values, fields=list(self._pair)))

    def results(self, ids: Ids) -> pa.Array:
        """The values of each id."""
        positions, pairs, counts = self._tally.in_order(ids)
        repeated = np.repeat(np.arange(len(counts)), counts)
        values = take(pairs.field(1), pa.array(repeated))
        lengths = np.bincount(positions[repeated], minlength=len(ids))
        missing = pa.array(lengths == 0)
        lists = list_of(values, lengths, self._lists, missing)
        if self._separator is None:
            return lists
        return pc.binary_join(lists, pa.scalar(self._separator, self._lists.value_type))
