"""Texts as values, on Spark: by the same code that reads them elsewhere (protocol/lines/,
protocol/text_fields.py), so that a text means the same wherever it comes in.

    lines (bytes)          parsed: {c0: ts, c1: src, _why, _text}
    12:00:00,7             {12:00:00, 7, null, null}
    12:00:01,x             {null, null, "src: 'x' is no int32", "12:00:01,x"}

Spark hands the rows to Python by columns, and takes columns back. Its own parsers are not asked:
they take 1.5d for a number, cut nanoseconds, and put a letter where bytes are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from gapless.protocol.casts import Made, Mask, by_elements, misfit
from gapless.protocol.errors import BadData
from gapless.protocol.lines.blocks import Block
from gapless.protocol.lines.formats import format_of
from gapless.protocol.lines.line_format import UTF8, LineFormat, Parsed
from gapless.protocol.text_fields import read
from gapless.spark_sources.conform import conformed
from gapless.spark_sources.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

WHY, TEXT = "_why", "_text"
"""Fields of a parsed line beside its values: why it is no row, and the line as people read it,
where Spark cannot show it itself."""
VALUE, MISFITS = "value", "misfits"


@dataclass(frozen=True)
class Lines:
    """What lines are; it goes to each of Spark's Python processes."""

    kind: str
    payload: bytes
    """The columns that are wanted, as Arrow writes a schema."""
    header: str | None
    encoding: str

    @property
    def schema(self) -> pa.Schema:
        """The columns that are wanted."""
        return pa.ipc.read_schema(pa.py_buffer(self.payload))


def lines_of(kind: str, payload: pa.Schema, header: str | None, encoding: str) -> Lines:
    """Raises `SchemaError` where no text means one of the columns."""
    lines = Lines(kind, payload.serialize().to_pybytes(), header, encoding)
    _format(lines)
    return lines


def parsed_lines(line: Column, path: Column, lines: Lines) -> Column:
    """Lines, as binary and without their ends, as structs: field `field_of(i)` is column i. `path`
    is the file that a line is from.
    """
    fields = [
        StructField(field_of(i), spark_type(field.name, field.type))
        for i, field in enumerate(lines.schema)
    ]
    whole = StructType([*fields, StructField(WHY, StringType()), StructField(TEXT, StringType())])

    def parse(column: pa.Array, paths: pa.Array) -> pa.Array:
        return parsed(column, paths, lines)

    return _udf(parse, whole)(line, path)


def field_of(place: int) -> str:
    """The field of a column by its place: whatever it is called."""
    return f"c{place}"


def read_texts(text: Column, t: pa.DataType) -> Column:
    """Texts as a struct of `VALUE`, in Spark's type for `t`, and whether it `MISFITS`."""
    spark = spark_type("", t)
    whole = StructType([StructField(VALUE, spark), StructField(MISFITS, BooleanType())])

    def values(column: pa.Array) -> pa.Array:
        made, misfits = for_spark(meant(column, t), t)
        bad = np.zeros(len(column), np.bool_) if misfits is None else misfits
        return pa.StructArray.from_arrays([made, pa.array(bad)], [VALUE, MISFITS])

    return _udf(values, whole)(text)


def _udf(function: Callable[..., pa.Array], t: StructType) -> Callable[..., Column]:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = dict.fromkeys((*names, "return"), pa.Array)  # no text: it looks
    make: Any = arrow_udf  # whose stubs leave structs out
    return make(function, returnType=t)  # type: ignore[no-any-return]  # what it makes takes a column, and gives one


# -- in Python ------------------------------------------------------------------------------------


@cache
def _format(lines: Lines) -> LineFormat:
    header = None if lines.header is None else Block(lines.header.encode(lines.encoding), 1)
    return format_of(lines.kind, lines.schema, header, lines.encoding)


def parsed(column: pa.Array, paths: pa.Array, lines: Lines) -> pa.Array:
    """One of Spark's batches of lines, parsed; there are as many rows as lines."""
    count = len(column)
    if lines.header is not None:
        _refuse_other_headers(column, paths, lines.header)
    whole = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), column.cast(pa.binary()))
    data: bytes = pc.binary_join(whole, b"\n")[0].as_py() + b"\n"
    rows = _format(lines).parse(Block(data, 1))
    at = np.full(count, -1, np.int64)
    at[rows.numbers] = np.arange(len(rows.numbers))
    taken = pa.array(at, mask=at < 0)
    why: list[str | None] = [None] * count
    columns = []
    for field, values in zip(lines.schema, rows.batch.columns, strict=True):
        made, misfits = for_spark(Made(values, None), field.type)
        columns.append(made.take(taken))
        if misfits is not None:
            for place in rows.numbers[misfits].tolist():
                why[place] = why[place] or misfit(field.name, _of_spark(field.type))
    for bad in rows.bad:
        why[bad.number] = bad.reason
    names = [*map(field_of, range(len(columns))), WHY, TEXT]
    return pa.StructArray.from_arrays(
        [*columns, pa.array(why, pa.string()), _texts(column, rows, lines)], names
    )


def _texts(column: pa.Array, rows: Parsed, lines: Lines) -> pa.Array:
    """The bad lines as text; of another encoding than Spark's all lines."""
    if lines.encoding != UTF8:
        raw: list[bytes] = column.to_pylist()
        return pa.array([line.decode(lines.encoding, "replace") for line in raw], pa.string())
    texts: list[str | None] = [None] * len(column)
    for bad in rows.bad:
        texts[bad.number] = bad.text
    return pa.array(texts, pa.string())


def _refuse_other_headers(column: pa.Array, paths: pa.Array, header: str) -> None:
    """Raises `BadData` where a line has the same names in another order: values of such a file
    would become those of other columns.
    """
    names = [name.encode() for name in header.split(",")]
    sizes = pc.binary_length(column)
    alike = pc.and_(pc.greater_equal(sizes, len(header.encode())), pc.less(sizes, len(header) + 3))
    for line, path in zip(column.filter(alike).to_pylist(), paths.filter(alike), strict=True):
        fields = line.rstrip(b"\r").split(b",")
        if fields != names and fields[0] in names and sorted(fields) == sorted(names):
            raise BadData(f"{path} has another header than {header}: prepare it apart")


def meant(texts: pa.Array, t: pa.DataType) -> Made:
    """Texts, or lists of texts, as values of a type; a list misfits where one of its texts does."""
    return by_elements(texts, t, meant) if pa.types.is_list(t) else read(texts, t)


def for_spark(made: Made, t: pa.DataType) -> Made:
    """A column as Spark takes it; more of it may misfit: nanoseconds."""
    column, misfits = made
    values, bad = conformed(column, _of_spark(t))
    both: Mask | None = bad if misfits is None else misfits if bad is None else misfits | bad
    if both is not None:
        values = pc.if_else(pa.array(both), pa.scalar(None, values.type), values)
    return Made(values, both)


def _of_spark(t: pa.DataType) -> pa.DataType:
    """Arrow's type in which Spark takes values of a type: of times timestamp[us] is the finest."""
    return to_arrow_type(spark_type("", t), timezone="UTC")
