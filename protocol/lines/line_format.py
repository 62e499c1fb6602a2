r"""Lines of JSON or CSV made into columns; those that are no rows are parted from the rest.

    {"ts": "2024-05-01T12:00:00", "src": 7}       row 0
    {"ts": "2024-05-01T12:00:01", "src": "x"}     line 2: src: 'x' is no int32
    {"ts": "2024-05-01T12:00:02", "src": 9}       row 1

All who read lines read them here: `ingest`, `execute`, `prepare` (`JsonLines`, `Csv`). What a field
means is said in `protocol/text_fields.py`, by column: however many values are none, they cost no
more than others.

What is no line of its format is found by Arrow, which parses a block at once, and takes none of it
where one line is bad. So a block that does not parse is halved until the bad lines are alone: few
are bad. For that to be right a line must mean the same alone and among others, and Arrow sees no
lines in JSON: hence the looks at how a line begins and ends, and that there are as many rows as
lines. A CSV row is one line; a value with the end of a line in it is not read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.protocol.casts import Made, misfit
from gapless.protocol.columns import take_rows
from gapless.protocol.lines.blocks import LINE_BYTES_MAX, Block, Places, spans

SHOWN_CHARS_MAX = 200
"""Of what a reason quotes."""
UTF8 = "utf-8"


SEVERAL = "it has several values"

Refused = tuple[int, str, str]
"""A line that is no row, by its place, with the reason and its kind ("": the reason itself)."""


class Bad(NamedTuple):
    """A line that is no row."""

    number: int
    """Of the line in its block, from 0."""
    reason: str
    text: str
    kind: str = ""
    """The reason without the value, where it names one: the same for all values of a column."""

    @property
    def kind_of_reason(self) -> str:
        """The reason, or its kind."""
        return self.kind or self.reason


class Parsed(NamedTuple):
    """A block as columns."""

    batch: pa.RecordBatch
    numbers: Places
    """Of each row: its line in the block, from 0."""
    bad: list[Bad]


class LineFormat(ABC):
    """Makes rows of one schema of lines. What a schema has and a line has not is null."""

    def __init__(self, schema: pa.Schema, encoding: str = UTF8) -> None:
        """`encoding` is that of the lines, as Python calls it."""
        self._schema = pa.schema([field.with_nullable(True) for field in schema])
        self._encoding = encoding
        self._none = pa.RecordBatch.from_pylist([], schema=self._schema)
        self._nothing = self._decode(self._probe())[0].slice(0, 0)

    def parse(self, block: Block) -> Parsed:
        """The rows of a block in order, and the lines that are bad."""
        data = as_utf8(block.data, self._encoding)
        data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
        lines = spans(data)
        refused: dict[int, tuple[str, str]] = {}
        for i, why, kind in self._refused(data, lines.starts, lines.ends):
            refused.setdefault(i, (why, kind))
        good = np.ones(len(lines.numbers), np.bool_)
        good[list(refused)] = False
        numbers = lines.numbers[good]
        bad = [
            Bad(int(lines.numbers[i]), why, _text(data[lines.starts[i] : lines.ends[i]]), kind)
            for i, (why, kind) in refused.items()
        ]
        if len(numbers) < data.count(b"\n"):  # blank and refused lines go: Arrow gets none of them
            places = zip(lines.starts[good].tolist(), lines.ends[good].tolist(), strict=True)
            data = b"".join(data[start : end + 1] for start, end in places)
        return self._rows(data, numbers, bad)

    def _rows(self, data: bytes, numbers: Places, bad: list[Bad]) -> Parsed:
        _, starts, ends = spans(data)
        good = np.ones(len(numbers), np.bool_)
        pieces = [self._nothing]
        parts = [(0, len(numbers))] if len(numbers) else []
        while parts:
            first, end = parts.pop()
            text = data[starts[first] : ends[end - 1]]
            rows, said = self._decoded(text, end - first)
            if rows is not None:
                pieces.append(rows)
            elif end - first == 1:
                good[first] = False
                why, kind = self._reason(said, text)
                bad.append(Bad(int(numbers[first]), why, _text(text), kind))
            else:
                middle = (first + end) // 2
                parts += [(middle, end), (first, middle)]
        raw = pieces[1] if len(pieces) == 2 else pa.concat_batches(pieces)
        lines = np.flatnonzero(good)
        batch, misfits = self._typed(raw)
        for i, why, kind in misfits:
            line = int(lines[i])
            good[line] = False
            bad.append(Bad(int(numbers[line]), why, _text(data[starts[line] : ends[line]]), kind))
        if misfits:
            batch = take_rows(batch, good[lines])
        return Parsed(batch, numbers[good], sorted(bad))

    def _typed(self, raw: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[int, str, str]]]:
        """The rows in their types; which have a bad value, with the reason and its kind:
        the first of a row counts.
        """
        columns: list[pa.Array] = []
        found: dict[int, tuple[str, str]] = {}
        for field in self._schema:
            column, misfits = self._values(raw.column(field.name), field.type)
            columns.append(column)
            if misfits is None:
                continue
            places = np.flatnonzero(misfits)
            shown = raw.column(field.name).take(pa.array(places)).to_pylist()
            for i, value in zip(places.tolist(), shown, strict=True):
                if i not in found:
                    found[i] = misfit_of(field, repr(value))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return batch, [(i, why, kind) for i, (why, kind) in sorted(found.items())]

    def _decoded(self, text: bytes, lines: int) -> tuple[pa.RecordBatch | None, str]:
        """So many lines as so many rows, or why they are not."""
        try:
            rows, said = self._decode(text)
        except pa.ArrowInvalid as e:
            return None, str(e)
        return (rows, "") if rows.num_rows == lines else (None, said)

    def _refused(self, data: bytes, starts: Places, ends: Places) -> Iterator[Refused]:
        """Lines that are not shown to Arrow, with the reason; a line may come twice."""
        for i in np.flatnonzero(ends - starts > LINE_BYTES_MAX).tolist():
            yield i, f"the line is longer than {LINE_BYTES_MAX >> 20} MB", ""
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                    if not _is_utf8(data[start:end]):
                        yield i, f"the line is no {self._encoding.upper()} text", ""

    @abstractmethod
    def _probe(self) -> bytes:
        """A row of nulls, to see whether the types can be read."""

    @abstractmethod
    def _decode(self, text: bytes) -> tuple[pa.RecordBatch, str]:
        """Lines, the last without its end, as columns of what can be read of any line; and what is
        wrong with them where the rows are not as many.
        """

    @abstractmethod
    def _values(self, column: pa.Array, t: pa.DataType) -> Made:
        """A column that `_decode` gave, in its type."""

    @abstractmethod
    def _reason(self, said: str, line: bytes) -> tuple[str, str]:
        """What Arrow says of a line, for people, and its kind."""


def as_utf8(data: bytes, encoding: str) -> bytes:
    """Lines in an encoding as UTF-8; bytes that it has no letter for stay, and are no UTF-8."""
    if encoding == UTF8 or data.isascii():
        return data
    return data.decode(encoding, "surrogateescape").encode(errors="surrogateescape")


def misfit_of(field: pa.Field, shown: str) -> tuple[str, str]:
    """Why a line is no row, one of whose values is none, and the kind of that."""
    return misfit(field.name, field.type, shown[:SHOWN_CHARS_MAX]), misfit(field.name, field.type)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """What was read of a block, as one batch."""
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
