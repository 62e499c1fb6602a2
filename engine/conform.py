"""Batches as they come, made into the columns that a source has declared.

    declared    ts: timestamp[ms]    src: string
    a batch     len: int64    src: large_string    ts: timestamp[ms]
    becomes     ts as it is, src cast, len left out

Columns are found by name. Another type of the same kind is cast, if that loses nothing; a row whose
value does not fit is a bad row, a column of another kind a mistake in the query or its input.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gapless.protocol.casts import exact, misfit
from gapless.protocol.columns import without_views
from gapless.protocol.errors import SchemaError
from gapless.protocol.frame import Mask
from gapless.protocol.lists import normal_type

_is = pa.types


class Conform:
    """Turns batches of any layout into batches of one schema."""

    def __init__(self, schema: pa.Schema, what: str) -> None:
        self._wanted = schema
        self.schema = pa.schema([field.with_nullable(True) for field in schema])
        """Of what it gives: nulls where none may be are the caller's to look for."""
        self._what = what  # whose batches, for messages
        self._last = schema  # a source's batches share their schema
        self._places: list[int] | None = None  # of our columns in it; None where it is ours

    def __call__(self, batch: pa.RecordBatch) -> tuple[list[pa.Array], list[tuple[str, Mask]]]:
        """The batch's columns as ours, and which rows had values that do not fit, with the reasons.

        Such a value is null in the result. Raises `SchemaError`, naming the column.
        """
        if not batch.schema.equals(self._last):
            self._places = None if batch.schema.equals(self._wanted) else self._find(batch.schema)
            self._last = batch.schema
        if self._places is None:
            return batch.columns, []
        columns, misfits = [], []
        for field, place in zip(self._wanted, self._places, strict=True):
            try:
                column, bad = exact(batch.column(place), field.type)
            except SchemaError as e:
                raise SchemaError(f"{self._what}: column {field.name!r}: {e}") from None
            columns.append(column)
            if bad is not None:
                misfits.append((misfit(field.name, field.type), bad))
        return columns, misfits

    def _find(self, schema: pa.Schema) -> list[int]:
        return [self._place(schema, field) for field in self._wanted]

    def _place(self, schema: pa.Schema, field: pa.Field) -> int:
        places = schema.get_all_field_indices(field.name)
        if len(places) != 1:
            there = "twice" if places else "not"
            raise SchemaError(
                f"{self._what}: column {field.name!r} is {there} in its input, which has "
                f"{', '.join(schema.names)}"
            )
        got = schema.field(places[0]).type
        if not _castable(got, field.type):
            raise SchemaError(
                f"{self._what}: column {field.name!r} is {got} in its input; the source says "
                f"{field.type}"
            )
        return int(places[0])


def _kinds(t: pa.DataType) -> Iterator[str]:
    """What values of a type are taken for."""
    if _is.is_dictionary(t):
        yield from _kinds(t.value_type)
    elif _is.is_integer(t):
        yield "integer"
    elif _is.is_string(without_views(t)) or _is.is_large_string(without_views(t)):
        yield "string"
    elif _is.is_binary(without_views(t)) or _is.is_large_binary(without_views(t)):
        yield "binary"
    elif _is.is_timestamp(t):
        yield "local time" if t.tz is None else "time"
    elif _is.is_date(t):
        yield "date"
    elif _is.is_duration(t):
        yield "duration"
    elif _is.is_decimal(t):
        yield "decimal"
    elif _is.is_floating(t):
        yield "float"


def _castable(got: pa.DataType, wanted: pa.DataType) -> bool:
    got = normal_type(got)
    if got == wanted or _is.is_null(got):
        return True
    if _is.is_list(got) and _is.is_list(wanted):
        return _castable(got.value_type, wanted.value_type)
    kind = set(_kinds(got))
    if _is.is_integer(got) and (_is.is_floating(wanted) or _is.is_decimal(wanted)):
        return True
    return bool(kind & set(_kinds(wanted)))
