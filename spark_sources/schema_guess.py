"""A schema file to begin with, as the first rows of an input look: for people to read and edit.

    # The time is ts: prepare with --time ts. Rows looked at: 3.
    ts = "timestamp[ms]"
    src = "string"
    len = "int64"  # had null

A Parquet file says its types itself; a text file's are those that Arrow infers. Nothing is declared
`not null` that a Parquet file does not: that some rows have no null is no promise for others.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from io import BytesIO

import pyarrow as pa

from gapless.protocol.errors import BadData
from gapless.spark_sources.source_files import SAMPLE_BYTES, Format, start_of

TIMES = ("ts", "time", "timestamp", "event_time", "at", "datetime", "date")
"""Names that times have, the likeliest first."""


def suggestion(path: str, format_: Format) -> str:
    """The columns of a text file, as its first rows look; "" where they say nothing."""
    try:
        return _lines(_of_text(_first_rows(path, format_).schema), ())
    except (pa.ArrowException, UnicodeError):
        return ""


def schema_file(path: str, format_: Format) -> str:
    """The text of a schema file that may fit an input. Raises `BadData` where it says nothing."""
    try:
        if format_ == "parquet":
            schema, rows, had_null = _of_parquet(path)
        else:
            sample = _first_rows(path, format_)
            schema, rows = _of_text(sample.schema), sample.num_rows
            had_null = {name for name in schema.names if sample.column(name).null_count}
    except (pa.ArrowException, UnicodeError, OSError) as e:
        raise BadData(f"{path!r} does not read: {e}") from None
    time = likely_time(schema)
    said = f"The time is {time}: prepare with --time {time}." if time else "No column is a time."
    return f"# {said} Rows looked at: {rows:,}.\n{_lines(schema, had_null)}"


def likely_time(schema: pa.Schema) -> str | None:
    """The column that is most likely each row's time: a timestamp, or an integer with the name of
    a time.
    """
    stamps = [f.name for f in schema if pa.types.is_timestamp(f.type)]
    integers = [f.name for f in schema if pa.types.is_int64(f.type) and f.name.lower() in TIMES]
    found = sorted(stamps or integers, key=_rank)
    return found[0] if found else None


def _rank(name: str) -> int:
    return TIMES.index(name.lower()) if name.lower() in TIMES else len(TIMES)


def _first_rows(path: str, format_: Format) -> pa.Table:
    from pyarrow import csv as arrow_csv
    from pyarrow import json as arrow_json

    data = start_of(path, SAMPLE_BYTES)
    whole = data[: data.rfind(b"\n") + 1] or data
    if format_ == "csv":
        empty_is_null = arrow_csv.ConvertOptions(strings_can_be_null=True)
        return arrow_csv.read_csv(BytesIO(whole), convert_options=empty_is_null)
    return arrow_json.read_json(BytesIO(whole))


def _of_parquet(path: str) -> tuple[pa.Schema, int, Collection[str]]:
    """Its schema, its rows, and the columns of which its footer counts nulls."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        footer = file.metadata
        had_null = {
            column.path_in_schema.partition(".")[0]
            for group in map(footer.row_group, range(footer.num_row_groups))
            for column in map(group.column, range(group.num_columns))
            if column.is_stats_set and column.statistics.null_count
        }
        fields = [field.with_type(_of_spark(field.type)) for field in file.schema_arrow]
        return pa.schema(fields), footer.num_rows, had_null


def _lines(schema: pa.Schema, had_null: Collection[str]) -> str:
    lines = []
    for field in schema:
        written = _written(field.type) + ("" if field.nullable else " not null")
        mark = "  # had null" if field.name in had_null else ""
        lines.append(f"{_toml_key(field.name)} = {json.dumps(written)}{mark}\n")
    return "".join(lines)


def _written(t: pa.DataType) -> str:
    return f"list<{_written(t.value_type)}>" if pa.types.is_list(t) else str(t)


def _of_text(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_suggested(field.type)) for field in schema])


def _suggested(t: pa.DataType) -> pa.DataType:
    """What a column of text is likely meant as: Arrow infers seconds, or nanoseconds."""
    if pa.types.is_timestamp(t):
        return pa.timestamp("ms", None if t.tz is None else "UTC")
    if pa.types.is_list(t):
        return pa.list_(_suggested(t.value_type))
    return pa.string() if pa.types.is_null(t) or pa.types.is_nested(t) else t


def _of_spark(t: pa.DataType) -> pa.DataType:
    """A type of a Parquet file as Spark, which reads it, has it."""
    if pa.types.is_timestamp(t) and t.unit == "ns":
        return pa.timestamp("us", t.tz)
    return t.value_type if pa.types.is_dictionary(t) else t


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name)
