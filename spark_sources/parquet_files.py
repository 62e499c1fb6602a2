"""What Parquet files say of themselves: columns, rows, and which columns have no null.

Spark reads some of Arrow's types as others. What a journal gets, if nobody says otherwise:

    in the files                          in the journal
    dictionary<string>, large_string      string
    timestamp[ns]                         timestamp[us]: Spark has no nanoseconds
    INT96, as older writers have it       timestamp[us, tz=UTC]
    maps, durations, time32               nothing: name the other columns in a schema
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyarrow import parquet

from gapless.protocol.errors import BadData, Misuse
from gapless.protocol.lists import is_list

NANOS = b"gapless.nanos"
"""Marks a column that Spark reads as a count of nanoseconds."""


class Footers:
    """What the files of one input say, taken together."""

    def __init__(self) -> None:
        self.columns = pa.schema([])
        self.rows = 0
        self.with_nulls: set[str] = set()
        """Columns that some row lacks."""

    @property
    def never_null(self) -> frozenset[str]:
        """Columns of which all files say that they have no null."""
        return frozenset(self.columns.names) - self.with_nulls


def footers(paths: Sequence[str], wanted: Iterable[str] | None) -> Footers:
    """Reads the footers of files. Raises `BadData` where one is no Parquet, and `Misuse` where
    files differ in a column that is wanted (None: all are).
    """
    found = Footers()
    for number, path in enumerate(paths):
        try:
            with parquet.ParquetFile(path) as file:
                columns = _as_read(file)
                found.rows += file.metadata.num_rows
                found.with_nulls |= set(_with_nulls(file))
        except (pa.ArrowException, OSError) as e:
            raise BadData(
                f"{path!r} is no Parquet that can be read: {e}; replace or leave out this file"
            ) from None
        if wanted is not None:
            names = [name for name in columns.names if name in set(wanted)]
            columns = pa.schema([columns.field(name) for name in names])
        if not number:
            found.columns = columns
        elif difference := _difference(found.columns, columns):
            raise Misuse(
                f"{path!r} has {difference[1]}, {paths[0]!r} {difference[0]}: prepare files of one "
                "schema together, the others apart"
            )
    return found


def _difference(first: pa.Schema, other: pa.Schema) -> tuple[str, str] | None:
    for name in dict.fromkeys([*first.names, *other.names]):
        has = [
            f"column {name!r} as {schema.field(name).type}"
            if name in schema.names
            else f"no column {name!r}"
            for schema in (first, other)
        ]
        if has[0] != has[1]:
            return has[0], has[1]
    return None


def _as_read(file: parquet.ParquetFile) -> pa.Schema:
    arrow = file.schema_arrow
    if len(set(arrow.names)) < len(arrow):
        raise Misuse("two columns share a name, which Spark does not read: give each its own")
    legacy = {
        file.schema.column(i).path
        for i in range(len(file.schema.names))
        if file.schema.column(i).physical_type == "INT96"
    }
    return pa.schema([_field(each, each.name in legacy) for each in arrow])


def _field(field: pa.Field, is_int96: bool) -> pa.Field:
    t = field.type
    if is_int96:
        return pa.field(field.name, pa.timestamp("us", "UTC"), field.nullable)
    if pa.types.is_timestamp(t) and t.unit == "ns":
        micros = pa.timestamp("us", t.tz)
        return pa.field(field.name, micros, field.nullable, {NANOS: b"1"})
    return pa.field(field.name, _type(t), field.nullable)


def _type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(t):
        return _type(t.value_type)
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct([pa.field(each.name, _type(each.type), each.nullable) for each in t])
    if is_list(t):
        return pa.list_(pa.field("item", _type(t.value_type), t.value_field.nullable))
    return t


def unreadable(t: pa.DataType) -> bool:
    """Whether Spark does not read such a column, or not as what it is."""
    if pa.types.is_struct(t) or is_list(t):
        inside = list(t) if pa.types.is_struct(t) else [t.value_field]
        return any(
            unreadable(each.type) or (pa.types.is_timestamp(each.type) and each.type.unit == "ns")
            for each in inside
        )
    return bool(
        pa.types.is_duration(t)
        or pa.types.is_time32(t)
        or (pa.types.is_time64(t) and t.unit == "ns")
        or pa.types.is_float16(t)
        or pa.types.is_decimal256(t)
    )


def _with_nulls(file: parquet.ParquetFile) -> Iterable[str]:
    """Top columns that may have a null, as far as the file says."""
    columns = file.schema
    required = {field.name for field in file.schema_arrow if not field.nullable}
    for i in range(len(columns.names)):
        name = columns.column(i).path
        if name in required:
            continue
        for group in range(file.metadata.num_row_groups):
            stats = file.metadata.row_group(group).column(i).statistics
            if stats is None or not stats.has_null_count or stats.null_count:
                yield name.partition(".")[0]
                break
