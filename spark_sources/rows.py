"""Rows of files as rows of a journal: read, cast, cleaned by rules; a bad one says why.

    file               ts        len     _why                           _reject
    12:00:00,80        12:00:00   80     null                           null
    12:00:00,many      12:00:00  null    len: 'many' is no int32        {"reason": ..., "row": ...}
    12:00:00           null      null    the line has not 2 columns     {"reason": ..., "row": ...}

What can go wrong is an expression that Spark compiles, or for texts that Python evaluates by column
(texts.py). What cannot has none: Parquet whose types are the journal's, and whose files say that no
time is null, is read and passed on. Lines of text are taken whole, as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use
from pyspark.sql.types import LongType, StructField, StructType

from gapless.protocol.lines.line_format import SHOWN_CHARS_MAX
from gapless.spark_sources import texts
from gapless.spark_sources.casts import Cast, cast, from_nanos, quoted
from gapless.spark_sources.job import Job
from gapless.spark_sources.parquet_files import NANOS
from gapless.spark_sources.rules import DROPPED, WHY, applied
from gapless.spark_sources.spark_types import spark_type
from gapless.spark_sources.texts import field_of, lines_of, parsed_lines

REJECT = "_reject"
"""JSON that says why a row is no row of the journal, where it is from, and what it was."""
FILE, BLOCK, ARRIVAL = "_file", "_block", "_arrival"
"""Where a row is from: its file, where in the file its split begins, and its place in the split."""
_LINE, _PARSED, _ROW, _ORIGIN = "_line", "_parsed", "_row", "_origin"
_BLANK = r"^[ \t\r\x0b\x0c]*$"


@dataclass(frozen=True)
class Rows:
    """Rows with the journal's columns and, beside them, what is known of each."""

    frame: DataFrame
    may_reject: bool
    """Whether `WHY` and `REJECT` are there: a row may be bad."""
    may_drop: bool
    """Whether `DROPPED` is there."""


def clean(spark: SparkSession, job: Job, places: Sequence[str] = ()) -> Rows:
    """The rows of a job's files; `places` of `FILE`, `BLOCK`, `ARRIVAL` are wanted beside them."""
    read = _parquet(spark, job) if job.files.format == "parquet" else _lines(spark, job)
    known = {
        FILE: F.col("_metadata.file_path"),
        BLOCK: F.col("_metadata.file_block_start"),
        ARRIVAL: F.monotonically_increasing_id(),
    }
    if places:
        read = read.withColumns({name: known[name] for name in places})
    return _cast(read, job, places)


def data_columns(job: Job) -> list[Column]:
    """The journal's columns."""
    return [F.col(quoted(name)) for name in job.layout.schema.names]


def reject_text(why: Column, origin: Column, row: Column) -> Column:
    """The text that the data source takes as `reject_column`; null where `why` is."""
    told = F.to_json(
        F.struct(why.alias("reason"), origin.alias("origin"), row.alias("row")),
        {"ignoreNullFields": "false"},
    )
    return F.when(why.isNotNull(), told)


def file_name(path: Column) -> Column:
    """A file as people write it: Spark says file:/data/flows.csv."""
    return F.regexp_replace(path, "^file:/+", "/")


# -- reading --------------------------------------------------------------------------------------


def _parquet(spark: SparkSession, job: Job) -> DataFrame:
    fields = []
    for field in job.given:
        is_nanos = field.metadata is not None and NANOS in field.metadata
        t = LongType() if is_nanos else spark_type(field.name, field.type)
        fields.append(StructField(field.name, t, True))
    schema = StructType(fields)
    if job.follow:
        return spark.readStream.schema(schema).parquet(job.files.given[0])
    return spark.read.schema(schema).parquet(*job.files.paths)


def _lines(spark: SparkSession, job: Job) -> DataFrame:
    """Whole lines, blank ones left out; the header of CSV too, wherever it stands."""
    reader = spark.readStream if job.follow else spark.read
    reader = reader.option("lineSep", "\n")
    given: Any = job.files.given[0] if job.follow else list(job.files.paths)
    lines = reader.text(given)
    lines = lines.where(~F.col("value").rlike(_BLANK))
    if job.files.header is not None:
        header = job.files.header.encode(job.encoding)
        first = [F.lit(header), F.lit(header + b"\r")]
        lines = lines.where(~F.col("value").cast("binary").isin(*first))
    return lines.withColumnRenamed("value", _LINE)


# -- casting --------------------------------------------------------------------------------------


def _cast(read: DataFrame, job: Job, places: Sequence[str]) -> Rows:
    payload = job.layout.schema.payload
    is_text = _LINE in read.columns
    if is_text:
        path = file_name(F.col("_metadata.file_path"))
        lines = lines_of(job.files.format, payload, job.files.header, job.encoding)
        read = read.withColumn(_PARSED, parsed_lines(F.col(_LINE).cast("binary"), path, lines))
        malformed = F.col(_PARSED)[texts.WHY]
        source = {name: F.col(_PARSED)[field_of(i)] for i, name in enumerate(payload.names)}
        casts = {name: Cast(column, None) for name, column in source.items()}
    else:
        malformed = F.lit(None).cast("string")
        source = {name: F.col(quoted(name)) for name in payload.names}
        casts = {name: _one(source[name], job, name) for name in payload.names}
    reasons = [
        _misfit(name, source[name], made.misfits, payload.field(name).type)
        for name, made in casts.items()
        if made.misfits is not None
    ]
    required = [name for name in payload.names if _must_not_be_null(job, name)]
    rejects = any(rule.kind == "reject" for rule in job.rules)
    may_reject = is_text or bool(reasons or required) or rejects
    columns = [casts[name].value.alias(name) for name in payload.names]
    columns += [F.col(name) for name in places]
    if may_reject or job.rules:
        columns.append(reduce(_first, reasons, malformed).alias(WHY))
    if may_reject:
        columns += [_origin(is_text).alias(_ORIGIN), _whole_row(job, is_text).alias(_ROW)]
    frame = applied(job.rules, read.select(*columns), payload)
    may_drop = DROPPED in frame.columns
    if may_reject:
        frame = _with_reject(frame, job, required)
    elif WHY in frame.columns:
        frame = frame.drop(WHY)
    return Rows(frame, may_reject, may_drop)


def _one(column: Column, job: Job, name: str) -> Cast:
    given, wanted = job.given.field(name), job.layout.schema.payload.field(name).type
    if given.metadata is not None and NANOS in given.metadata:
        if not pa.types.is_timestamp(wanted):
            return cast(name, column, pa.int64(), wanted)
        return from_nanos(column, wanted)
    return cast(name, column, given.type, wanted)


def _must_not_be_null(job: Job, name: str) -> bool:
    field = job.layout.schema.payload.field(name)
    if name != job.layout.time and field.nullable:
        return False
    return name not in job.files.never_null


def _first(why: Column, other: Column) -> Column:
    return F.coalesce(why, other)


def _misfit(name: str, value: Column, misfits: Column, t: pa.DataType) -> Column:
    shown = F.substring(value.cast("string"), 1, SHOWN_CHARS_MAX)
    said = F.concat(F.lit(f"{name}: "), shown, F.lit(f" is no {t}"))
    return F.when(misfits, said)


def _origin(is_text: bool) -> Column:
    """The file and, of Parquet, the row, which Spark knows."""
    path = file_name(F.col("_metadata.file_path"))
    if is_text:
        return path
    return F.concat(path, F.lit(" row "), F.col("_metadata.row_index").cast("string"))


def _whole_row(job: Job, is_text: bool) -> Column:
    if is_text:
        return F.coalesce(F.col(_PARSED)[texts.TEXT], F.col(_LINE))
    return shown_row(job.given)


def shown_row(columns: pa.Schema) -> Column:
    """A row of such columns as a reject file has it."""
    return F.struct(*[_shown(F.col(quoted(f.name)), f).alias(f.name) for f in columns])


def _shown(column: Column, field: pa.Field) -> Column:
    """JSON's own kinds as they are, all else as text."""
    t = field.type
    plain = pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_boolean(t)
    return column if plain or pa.types.is_nested(t) else column.cast("string")


def _with_reject(frame: DataFrame, job: Job, required: list[str]) -> DataFrame:
    """`WHY` with the nulls that may not be, and `REJECT`."""
    why = F.col(WHY)
    for name in required:
        said = f"{name} is null" + (": no time" if name == job.layout.time else "")
        why = F.coalesce(why, F.when(F.col(quoted(name)).isNull(), said))
    if DROPPED in frame.columns:
        why = F.when(~F.col(DROPPED), why)
    frame = frame.withColumn(WHY, why)
    text = reject_text(F.col(WHY), F.col(_ORIGIN), F.col(_ROW))
    return frame.withColumn(REJECT, text).drop(_ORIGIN, _ROW)
