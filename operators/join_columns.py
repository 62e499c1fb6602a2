"""The columns of a join's output, and how rows of both sides become one.

    left  k a x      on k = key       output   k   a   x   x_right   y
    right key x y                              on, then the left's others, then the right's

The `on` columns stand once, under the left's names. A name of the right that is taken gets `_right`
appended until it is free. Where a side may be missing its columns are null, and the `on` columns
come from the side that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.schema import StreamSchema

How = Literal["inner", "left", "right", "full"]
Columns = list[pa.Array]

HOWS: tuple[How, ...] = ("inner", "left", "right", "full")
SUFFIX = "_right"


class JoinColumns:
    """Where each output column comes from."""

    def __init__(
        self,
        left: StreamSchema,
        right: StreamSchema,
        on: Sequence[tuple[str, str]],
        how: How,
        what: str = "join",
    ) -> None:
        """`what` is the step's name, in errors."""
        if how not in HOWS:
            raise Misuse(f"join how={how!r}: use one of {', '.join(HOWS)}")
        if left.time_unit != right.time_unit:
            raise SchemaError(
                f"{what}: times are in {left.time_unit} on the left and in {right.time_unit} on "
                "the right; they need one unit"
            )
        _check_on(left, right, on, what)
        self.keeps = (how in ("left", "full"), how in ("right", "full"))
        """Whether unmatched rows of a side come out, the other side's columns null."""
        self.on = ([a for a, _ in on], [b for _, b in on])
        """The `on` columns in each side's own names."""
        others = [n for n in left.names if n not in self.on[0]]
        rights = [n for n in right.names if n not in self.on[1]]
        self._positions = (
            [left.payload.get_field_index(n) for n in (*self.on[0], *others)],
            [right.payload.get_field_index(n) for n in (*self.on[1], *rights)],
        )
        self._width = len(on)
        names = [*self.on[0], *others]
        self.names: tuple[dict[str, str], dict[str, str]] = ({n: n for n in names}, {})
        """Of each side, what its columns are called in the output."""
        for name in rights:
            self.names[1][name] = _free(name, names)
            names.append(self.names[1][name])
        self.names[1].update(zip(self.on[1], self.on[0], strict=True))
        self.schema = StreamSchema(
            pa.schema([*self._on_fields(left, right), *self._other_fields(left, right)]),
            left.time_unit,
        )
        """Of the output."""

    def _on_fields(self, left: StreamSchema, right: StreamSchema) -> list[pa.Field]:
        fields = []
        for a, b in zip(*self.on, strict=True):
            field = left.payload.field(a)
            nullable = (field.nullable and (self.keeps[0] or not self.keeps[1])) or (
                right.payload.field(b).nullable and self.keeps[1]
            )
            fields.append(field.with_nullable(nullable))
        return fields

    def _other_fields(self, *sides: StreamSchema) -> list[pa.Field]:
        fields = []
        for side, schema in enumerate(sides):
            for i in self._positions[side][self._width :]:
                field = schema.payload.field(i)
                nullable = field.nullable or self.keeps[1 - side]
                fields.append(field.with_name(self.names[side][field.name]).with_nullable(nullable))
        return fields

    def joined(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Columns:
        """The output columns of pairs, row i of the left with row i of the right."""
        columns = [left.column(i) for i in self._positions[0]]
        columns += [right.column(i) for i in self._positions[1][self._width :]]
        return columns

    def alone(self, side: int, rows: pa.RecordBatch) -> Columns:
        """The output columns of unmatched rows of one side."""
        mine = [rows.column(i) for i in self._positions[side]]
        on, rest = mine[: self._width], mine[self._width :]
        fields = list(self.schema.payload)[self._width :]
        n = len(self._positions[0]) - self._width
        missing = [_nulls(f.type, rows.num_rows) for f in (fields[:n] if side else fields[n:])]
        return [*on, *missing, *rest] if side else [*on, *rest, *missing]

    def batch(self, columns: Columns) -> pa.RecordBatch:
        """Output columns as a batch."""
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.payload)


def _check_on(
    left: StreamSchema, right: StreamSchema, on: Sequence[tuple[str, str]], what: str
) -> None:
    for number, (side, schema) in enumerate((("left", left), ("right", right))):
        names = [pair[number] for pair in on]
        for name in names:
            if name not in schema.names:
                raise SchemaError(
                    f"{what} on {name!r}: the {side} columns are {', '.join(schema.names)}"
                )
        if len(set(names)) != len(names):
            raise SchemaError(f"{what} on {', '.join(names)}: a {side} column comes twice")
    for a, b in on:
        types = left.payload.field(a).type, right.payload.field(b).type
        if types[0] != types[1]:
            raise SchemaError(
                f"{what} on {a!r} = {b!r}: {types[0]} and {types[1]}; cast one in a select"
            )


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += SUFFIX
    return name


def _nulls(t: pa.DataType, n: int) -> pa.Array:
    if pa.types.is_dictionary(t):  # Arrow's own have no dictionary of the right type in some widths
        indices = pa.nulls(n, t.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.nulls(0, t.value_type), ordered=t.ordered)
    if pa.types.is_struct(t):
        children = [_nulls(field.type, n) for field in t]
        missing = pa.array(np.ones(n, np.bool_))
        return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)
    return pa.nulls(n, t)
