"""CSV: values between commas; a row is one line, and the first line names the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from gapless.protocol.casts import Made
from gapless.protocol.errors import BadData, SchemaError
from gapless.protocol.lines.blocks import Block, Places
from gapless.protocol.lines.line_format import (
    SEVERAL,
    SHOWN_CHARS_MAX,
    UTF8,
    LineFormat,
    Refused,
    as_utf8,
    one_batch,
)
from gapless.protocol.text_fields import CSV_NULLS, read


class Csv(LineFormat):
    """Values between commas, in the order that the first line says."""

    def __init__(self, schema: pa.Schema, header: Block, encoding: str = UTF8) -> None:
        """`header` is the first line: the names of the columns, those of the schema among them."""
        try:
            first = as_utf8(header.data, encoding).decode()
            names = next(csv.reader([first.strip("\r\n")]), [])
        except (UnicodeDecodeError, csv.Error) as e:
            raise BadData(f"the first line names no columns: {e}") from None
        missing = [name for name in schema.names if names.count(name) != 1]
        if missing:
            how = "twice" if missing[0] in names else "not"
            raise SchemaError(
                f"column {missing[0]!r} is {how} in the first line, which has {', '.join(names)}"
            )
        self._names = names
        for field in schema:
            read(pa.array([], pa.string()), field.type)
        super().__init__(schema, encoding)

    def _probe(self) -> bytes:
        return b",".join([b'""' if len(self._names) == 1 else b""] * len(self._names))

    def _refused(self, data: bytes, starts: Places, ends: Places) -> Iterator[Refused]:
        yield from super()._refused(data, starts, ends)
        raw = np.frombuffer(data, np.uint8)
        for i in _lines_with(raw == ord("\r"), ends):
            yield i, "the line has a carriage return in it", ""
        if b'"' in data and len(ends):
            quotes = np.cumsum(raw == ord('"'))[ends]
            odd = np.diff(quotes, prepend=0) % 2 == 1
            for i in np.flatnonzero(odd).tolist():
                yield i, "a quote in the line has no end: a row is one line", ""

    def _decode(self, text: bytes) -> tuple[pa.RecordBatch, str]:
        from pyarrow import csv as arrow_csv

        others: list[int] = []

        def other(row: arrow_csv.InvalidRow) -> str:
            others.append(row.actual_columns)
            return "skip"

        options = arrow_csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=self._names
        )
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(self._names, pa.string()),
            include_columns=self._schema.names,
            **CSV_NULLS,
        )
        parse = arrow_csv.ParseOptions(invalid_row_handler=other)
        rows = one_batch(arrow_csv.read_csv(pa.BufferReader(text), options, parse, convert))
        if not others:
            return rows, SEVERAL
        return rows, f"it has {others[0]} values, the first line {len(self._names)} names"

    def _values(self, column: pa.Array, t: pa.DataType) -> Made:
        return read(column, t)

    def _reason(self, said: str, line: bytes) -> tuple[str, str]:  # noqa: ARG002  # said it is
        return said.removeprefix("CSV parse error: ")[:SHOWN_CHARS_MAX], ""


def _lines_with(marked: np.typing.NDArray[np.bool_], ends: Places) -> Iterable[int]:
    """The lines in which a byte is marked."""
    places = np.flatnonzero(marked)
    found: list[int] = np.unique(np.searchsorted(ends, places)).tolist()
    return [i for i in found if i < len(ends)]
