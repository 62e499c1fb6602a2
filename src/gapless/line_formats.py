r"""Lines of JSON or CSV made into columns; those that are no rows are parted from the rest.

    {"ts": "2024-05-01T12:00:00", "src": 7}       row 0
    {"ts": "2024-05-01T12:00:01", "src": "x"}     line 2: src: it is a string, and not a number
    {"ts": "2024-05-01T12:00:02", "src": 9}       row 1

Arrow parses a block at once, and where one line is bad it takes none. So a block that does not
parse is halved until the bad lines are alone: few are bad. For that to be right a line must mean
the same alone and among others, and Arrow sees no lines in JSON: hence the looks at how a line
begins and ends, and that there are as many rows as lines. A CSV row is one line; a value with the
end of a line in it is not read.
"""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.lines import LINE_BYTES_MAX, Block, Places, spans
from gapless.protocol.errors import BadData, SchemaError

SHOWN_CHARS_MAX = 200
"""Of what a reason quotes."""


class Bad(NamedTuple):
    """A line that is no row."""

    number: int
    """Of the line in its block, from 0."""
    reason: str
    text: str


class Parsed(NamedTuple):
    """A block as columns."""

    batch: pa.RecordBatch
    numbers: Places
    """Of each row: its line in the block, from 0."""
    bad: list[Bad]


class LineFormat(ABC):
    """Makes rows of one schema of lines. What a schema has and a line has not is null."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = pa.schema([field.with_nullable(True) for field in schema])
        self._none = pa.RecordBatch.from_pylist([], schema=self._schema)
        try:
            self._decode(self._probe())
        except pa.ArrowNotImplementedError as e:
            raise SchemaError(f"{e}: take Parquet or Arrow") from None

    def parse(self, block: Block) -> Parsed:
        """The rows of a block in order, and the lines that are none."""
        data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
        lines = spans(data)
        refused: dict[int, str] = {}
        for i, why in self._refused(data, lines.starts, lines.ends):
            refused.setdefault(i, why)
        good = np.ones(len(lines.numbers), np.bool_)
        good[list(refused)] = False
        numbers = lines.numbers[good]
        bad = [
            Bad(int(lines.numbers[i]), why, _text(data[lines.starts[i] : lines.ends[i]]))
            for i, why in refused.items()
        ]
        if len(numbers) < data.count(b"\n"):  # blank and refused lines go: Arrow gets none of them
            places = zip(lines.starts[good].tolist(), lines.ends[good].tolist(), strict=True)
            data = b"".join(data[start : end + 1] for start, end in places)
        return self._rows(data, numbers, bad)

    def _rows(self, data: bytes, numbers: Places, bad: list[Bad]) -> Parsed:
        _, starts, ends = spans(data)
        good = np.ones(len(numbers), np.bool_)
        pieces = [self._none]
        parts = [(0, len(numbers))] if len(numbers) else []
        while parts:
            first, end = parts.pop()
            text = data[starts[first] : ends[end - 1]]
            rows, why = self._decoded(text, end - first)
            if rows is not None:
                pieces.append(rows)
            elif end - first == 1:
                good[first] = False
                bad.append(Bad(int(numbers[first]), why, _text(text)))
            else:
                middle = (first + end) // 2
                parts += [(middle, end), (first, middle)]
        batch = pieces[1] if len(pieces) == 2 else pa.concat_batches(pieces)
        return Parsed(batch, numbers[good], sorted(bad))

    def _decoded(self, text: bytes, lines: int) -> tuple[pa.RecordBatch | None, str]:
        """So many lines as so many rows, or why they are not."""
        try:
            rows = self._decode(text)
        except pa.ArrowInvalid as e:
            return None, self._reason(str(e))
        return (rows, "") if rows.num_rows == lines else (None, "it has several values")

    def _refused(self, data: bytes, starts: Places, ends: Places) -> Iterator[tuple[int, str]]:
        """Lines that are not shown to Arrow, with the reason; a line may come twice."""
        for i in np.flatnonzero(ends - starts > LINE_BYTES_MAX).tolist():
            yield i, f"the line is longer than {LINE_BYTES_MAX >> 20} MB"
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                    if not _is_utf8(data[start:end]):
                        yield i, "the line is no UTF-8 text"

    @abstractmethod
    def _probe(self) -> bytes:
        """A row of nulls, to see whether the types can be read."""

    @abstractmethod
    def _decode(self, text: bytes) -> pa.RecordBatch:
        """Lines, the last without its end, as columns."""

    @abstractmethod
    def _reason(self, said: str) -> str:
        """What Arrow says of a line, for people."""


class JsonLines(LineFormat):
    """An object a line. Keys that are no columns are left out."""

    def _probe(self) -> bytes:
        return b"{}"

    def _refused(self, data: bytes, starts: Places, ends: Places) -> Iterator[tuple[int, str]]:
        yield from super()._refused(data, starts, ends)
        raw = np.frombuffer(data, np.uint8)
        odd = (raw[starts] != ord("{")) | (raw[ends - 1] != ord("}"))
        for i in np.flatnonzero(odd).tolist():
            line = data[starts[i] : ends[i]].strip()
            if not (line.startswith(b"{") and line.endswith(b"}")):
                yield i, "the line is no JSON object"

    def _decode(self, text: bytes) -> pa.RecordBatch:
        from pyarrow import json

        read = json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        parse = json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")
        return _batch(json.read_json(io.BytesIO(text), read, parse))

    def _reason(self, said: str) -> str:
        if kinds := re.search(r"Column\(/?(.*)\) changed from (\w+) to (\w+)", said):
            return f"{kinds[1]}: it is a {kinds[3]}, and not a {kinds[2]}"
        if value := re.fullmatch(
            r"Failed to convert JSON to (.+), couldn't parse:(.*)", said, re.DOTALL
        ):
            return f"{value[2][:SHOWN_CHARS_MAX]} is no {value[1]}"
        return re.sub(r"( in row \d+)?$", "", said.removeprefix("JSON parse error: "))


class Csv(LineFormat):
    """Values between commas, in the order that the first line says."""

    def __init__(self, schema: pa.Schema, header: Block) -> None:
        """`header` is the first line: the names of the columns, those of the schema among them."""
        try:
            names = next(csv.reader([header.data.decode().strip("\r\n")]), [])
        except (UnicodeDecodeError, csv.Error) as e:
            raise BadData(f"the first line names no columns: {e}") from None
        missing = [name for name in schema.names if names.count(name) != 1]
        if missing:
            how = "twice" if missing[0] in names else "not"
            raise SchemaError(
                f"column {missing[0]!r} is {how} in the first line, which has {', '.join(names)}"
            )
        self._names = names
        super().__init__(schema)

    def _probe(self) -> bytes:
        return b",".join([b'""' if len(self._names) == 1 else b""] * len(self._names))

    def _refused(self, data: bytes, starts: Places, ends: Places) -> Iterator[tuple[int, str]]:
        yield from super()._refused(data, starts, ends)
        raw = np.frombuffer(data, np.uint8)
        for i in _lines_with(raw == ord("\r"), ends):
            yield i, "the line has a carriage return in it"
        if b'"' in data and len(ends):
            quotes = np.cumsum(raw == ord('"'))[ends]
            odd = np.diff(quotes, prepend=0) % 2 == 1
            for i in np.flatnonzero(odd).tolist():
                yield i, "a quote in the line has no end: a row is one line"

    def _decode(self, text: bytes) -> pa.RecordBatch:
        from pyarrow import csv

        read = csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=self._names
        )
        convert = csv.ConvertOptions(
            column_types=self._schema,
            include_columns=self._schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return _batch(csv.read_csv(io.BytesIO(text), read, convert_options=convert))

    def _reason(self, said: str) -> str:
        if value := re.match(
            r"In CSV column #(\d+): .*?CSV conversion error to (.+?): (.*)", said, re.DOTALL
        ):
            return f"{self._names[int(value[1])]}: {value[3][:SHOWN_CHARS_MAX]} for {value[2]}"
        if count := re.search(r"Expected (\d+) columns, got (\d+)", said):
            return f"it has {count[2]} values, the first line {count[1]} names"
        return said.removeprefix("CSV parse error: ")[:SHOWN_CHARS_MAX]


def _lines_with(marked: np.typing.NDArray[np.bool_], ends: Places) -> Iterable[int]:
    """The lines in which a byte is marked."""
    places = np.flatnonzero(marked)
    found: list[int] = np.unique(np.searchsorted(ends, places)).tolist()
    return [i for i in found if i < len(ends)]


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
