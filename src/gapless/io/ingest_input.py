"""What `gapless ingest` reads, cut into batches: a file, or lines on standard input as they come.

    flows.jsonl      10,000 lines | 10,000 lines | ...       the same batches each time it is read
    flows.parquet    10,000 rows  | 10,000 rows  | ...
    -                10,000 lines | what came in 200 ms | ...

Of a file batch n is always the same rows, whatever happens while it is read. So a journal that has
had n batches of it resumes with batch n, and has each row exactly once. Of standard input nothing
can be read again.

Memory has one batch: as text (32 MB at most), as columns, as records.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, Self

import pyarrow as pa

from gapless.io.event_files import FORMATS, TEXT_FORMATS
from gapless.io.journal_handles import Stop
from gapless.journal.rejects import Origin, Rejected
from gapless.protocol.columns import concat_batches
from gapless.protocol.errors import BadData, Misuse
from gapless.protocol.lines.blocks import Block, Lines, spans
from gapless.protocol.lines.formats import format_of
from gapless.protocol.lines.line_format import UTF8, LineFormat

STDIN = "-"
BATCH_ROWS_MAX = 1 << 20
"""Of one batch: what one record of a journal holds."""
SELECT_S_MAX = 3600.0
"""Of one wait: the system refuses those of many years."""
READ_BYTES = 1 << 20
"""Bytes read at once: much less than a batch may have, much more than a call costs."""
READ_ROWS = 1 << 16
"""Rows of a Parquet file that are decoded at once."""

_ARROW_FILE = b"ARROW1"  # how a file begins that has its batches' places at its end


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that go into the journal together."""

    rows: pa.RecordBatch
    origin: Origin
    rejected: Sequence[Rejected] = ()
    """Lines that are no rows."""

    @property
    def taken(self) -> int:
        """Rows of the input, bad ones included."""
        return int(self.rows.num_rows) + len(self.rejected)


class StopSignals(Stop):
    """A context in which Ctrl-C and SIGTERM only ask: a waiting call wakes up and may finish.

    The second time they end the program as they always do.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._before: dict[int, Any] = {}

    def is_set(self) -> bool:
        """Whether it was asked."""
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Waits so many seconds, or until it is asked."""
        return bool(select.select([self.wakes], [], [], timeout)[0])

    def __enter__(self) -> Self:
        self.wakes, self._ask = os.pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._asked)
        return self

    def _asked(self, number: int, _: FrameType | None) -> None:
        signal.signal(number, self._before[number])
        self._is_set = True
        os.write(self._ask, b"!")

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self.wakes)
        os.close(self._ask)


# -- inputs ---------------------------------------------------------------------------------------


class Input(ABC):
    """The batches of one input, in order, each once."""

    def __init__(self, name: str) -> None:
        self.name = name
        """For people."""
        self.share_read = 0.0
        """Of the input, 0 to 1; of standard input always 0."""
        self._cuts: Iterator[Any] = self._cut()

    def skip(self, batches: int) -> tuple[int, int]:
        """Passes over so many batches, or as many as there are; how many, and their rows."""
        count = rows = 0
        for cut in islice(self._cuts, batches):
            count += 1
            rows += self._rows_in(cut)
        return count, rows

    def __iter__(self) -> Iterator[Batch]:
        return map(self._batch, self._cuts)

    @abstractmethod
    def _cut(self) -> Iterator[Any]:
        """The input, in parts that are each a batch."""

    @abstractmethod
    def _rows_in(self, cut: Any) -> int:
        """Rows of a part, bad ones included."""

    @abstractmethod
    def _batch(self, cut: Any) -> Batch:
        """A part as a batch."""


def input_of(
    path: str,
    kind: str,
    schema: pa.Schema,
    rows: int,
    wait_s: float,
    stop: StopSignals,
    encoding: str = UTF8,
) -> Input:
    """The input at a path, in batches of so many rows; `wait_s` is for standard input, `encoding`
    for lines.
    """
    if not 1 <= rows <= BATCH_ROWS_MAX:
        raise Misuse(f"--batch-rows {rows}: 1 to {BATCH_ROWS_MAX:,}")
    if path == STDIN:
        return Arriving(kind, schema, rows, wait_s, stop, encoding)
    if kind in TEXT_FORMATS:
        return TextFile(Path(path), kind, schema, rows, stop, encoding)
    return ColumnFile(Path(path), kind, schema, rows, stop)


def kind_of(path: str, asked: str | None) -> str:
    """What an input holds: as it is called, or as is said."""
    kinds = sorted(set(FORMATS.values()))
    if asked is not None and asked not in kinds:
        raise Misuse(f"--format {asked!r}: one of {', '.join(kinds)}")
    if path == STDIN:
        if sys.stdin is None:
            raise Misuse("standard input is closed: name a file, or pipe lines in")
        if asked is not None and asked not in TEXT_FORMATS:
            raise Misuse(f"standard input gives {' or '.join(TEXT_FORMATS)}, not {asked}")
        return asked or TEXT_FORMATS[0]
    try:
        is_file = Path(path).is_file()
    except OSError as e:  # a name that is too long
        raise Misuse(f"file {path[:50]!r} cannot be looked at: {e.strerror}") from None
    if not is_file:
        if Path(path).exists():
            raise Misuse(f"{path!r} is not a file: redirect a pipe to standard input with <")
        raise Misuse(f"there is no file {path!r}")
    kind = asked or FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise Misuse(f"{path!r} ends in none of {', '.join(FORMATS)}: add --format")
    return kind


class _Text(Input):
    """Lines, in blocks."""

    def __init__(self, name: str, kind: str, schema: pa.Schema, rows: int, encoding: str) -> None:
        super().__init__(name)
        self._kind = kind
        self._schema = schema
        self._rows = rows
        self._encoding = encoding
        self._lines = Lines()
        self._format: LineFormat | None = None
        if kind != "csv":
            self._format = format_of(kind, schema, None, encoding)

    def _ready(self, *, rest: bool = False) -> Iterator[tuple[LineFormat, Block]]:
        """The blocks that are whole, or with the rest all that is there, with what reads them."""
        if self._format is None:
            header = self._lines.take(1)
            if header is None:
                return
            self._format = format_of(self._kind, self._schema, header, self._encoding)
        while (block := self._lines.take(self._rows, rest=rest)) is not None:
            yield self._format, block

    def _rows_in(self, cut: tuple[LineFormat, Block]) -> int:
        return len(spans(cut[1].data).numbers)

    def _batch(self, cut: tuple[LineFormat, Block]) -> Batch:
        format_, block = cut
        parsed = format_.parse(block)
        first, numbers = block.first, parsed.numbers

        def origin(row: int) -> str:
            return f"{self.name}, line {first + int(numbers[row])}"

        rejected = [
            (bad.reason, f"{self.name}, line {first + bad.number}", bad.text) for bad in parsed.bad
        ]
        return Batch(parsed.batch, origin, rejected)


class TextFile(_Text):
    """A file of lines: its blocks follow from its bytes alone."""

    def __init__(
        self, path: Path, kind: str, schema: pa.Schema, rows: int, stop: Stop, encoding: str
    ) -> None:
        super().__init__(path.name, kind, schema, rows, encoding)
        self._path = path
        self._stop = stop

    def _cut(self) -> Iterator[tuple[LineFormat, Block]]:
        with self._path.open("rb", buffering=0) as file:
            size = max(1, os.fstat(file.fileno()).st_size)
            while not self._stop.is_set() and (chunk := file.read(READ_BYTES)):
                self._lines.feed(chunk)
                self.share_read = min(1.0, file.tell() / size)
                for cut in self._ready():
                    yield cut
                    if self._stop.is_set():
                        return
        if not self._stop.is_set():
            self._lines.finish()
            yield from self._ready(rest=True)


class Arriving(_Text):
    """Lines on standard input: a batch is ready when it is full, or when it has waited.

    Once it is asked to stop, the lines that have come whole are the last batch.
    """

    def __init__(
        self,
        kind: str,
        schema: pa.Schema,
        rows: int,
        wait_s: float,
        stop: StopSignals,
        encoding: str,
    ) -> None:
        super().__init__("standard input", kind, schema, rows, encoding)
        self._wait_s = wait_s
        self._stop = stop

    def _cut(self) -> Iterator[tuple[LineFormat, Block]]:
        read = sys.stdin.fileno()
        due: float | None = None  # when what is there has waited long enough
        while not self._stop.is_set():
            left = None if due is None else min(max(0.0, due - monotonic()), SELECT_S_MAX)
            ready = select.select([read, self._stop.wakes], [], [], left)[0]
            if read in ready:
                try:
                    chunk = os.read(read, READ_BYTES)
                except OSError as e:  # it is open for writing only, or a terminal has gone
                    raise BadData(f"standard input cannot be read on: {e}") from None
                if not chunk:
                    self._lines.finish()
                    break
                self._lines.feed(chunk)
                for cut in self._ready():
                    due = None
                    yield cut
            if due is not None and monotonic() >= due:
                due = None
                yield from self._ready(rest=True)
            if due is None and self._lines.whole:
                due = monotonic() + self._wait_s
        yield from self._ready(rest=True)


class ColumnFile(Input):
    """Rows of a Parquet or Arrow file."""

    def __init__(self, path: Path, kind: str, schema: pa.Schema, rows: int, stop: Stop) -> None:
        super().__init__(path.name)
        self._path = path
        self._read = _parquet if kind == "parquet" else _arrow
        self._names = schema.names
        self._rows = rows
        self._stop = stop

    def _cut(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 1
        for rows in self._recut():
            if self._stop.is_set():
                return
            yield first, rows
            first += rows.num_rows

    def _rows_in(self, cut: tuple[int, pa.RecordBatch]) -> int:
        return int(cut[1].num_rows)

    def _batch(self, cut: tuple[int, pa.RecordBatch]) -> Batch:
        first, rows = cut
        return Batch(rows, lambda row: f"{self.name}, row {first + row}")

    def _recut(self) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        missing = self._rows
        for batch in self._file():
            rest = batch
            while rest.num_rows >= missing:
                yield _joined([*waiting, rest.slice(0, missing)])
                rest = rest.slice(missing)
                waiting, missing = [], self._rows
            if rest.num_rows:
                waiting.append(rest)
                missing -= rest.num_rows
        if waiting:
            yield _joined(waiting)

    def _file(self) -> Iterator[pa.RecordBatch]:
        batches = self._read(self._path, self._names, self._progress)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as e:
                raise BadData(f"file {str(self._path)!r}: {e}") from None
            if batch is None:
                return
            yield batch

    def _progress(self, done: float) -> None:
        self.share_read = done


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else concat_batches(batches)


def _parquet(
    path: Path, names: list[str], progress: Callable[[float], None]
) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    # Buffered beforehand, a file's columns would be in memory as a whole.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        there = [name for name in names if name in file.schema_arrow.names]
        total, done = max(1, file.metadata.num_rows), 0
        for batch in file.iter_batches(batch_size=READ_ROWS, columns=there):
            done += batch.num_rows
            progress(done / total)
            yield batch


def _arrow(
    path: Path, names: list[str], progress: Callable[[float], None]
) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as opened:  # not mapped: a file that gets shorter would end us
        size = max(1, opened.size())
        with _arrow_reader(opened) as reader:
            count = getattr(reader, "num_record_batches", None)
            batches = iter(reader) if count is None else map(reader.get_batch, range(count))
            for batch in batches:
                progress(min(1.0, opened.tell() / size))
                yield batch.select([name for name in names if name in batch.schema.names])


def _arrow_reader(opened: Any) -> Any:
    is_file = opened.read(len(_ARROW_FILE)) == _ARROW_FILE
    opened.seek(0)
    return pa.ipc.open_file(opened) if is_file else pa.ipc.open_stream(opened)


def schema_of(path: str, kind: str) -> pa.Schema:
    """The columns that a file itself says it has. Raises `Misuse` where it says none."""
    if kind in TEXT_FORMATS:
        raise Misuse(f"text has no types: give --schema FILE for the columns of {path!r}")
    try:
        if kind == "parquet":
            from pyarrow import parquet

            return parquet.read_schema(path)
        with pa.OSFile(path) as opened, _arrow_reader(opened) as reader:
            return reader.schema
    except (pa.ArrowException, OSError) as e:
        raise BadData(f"file {path!r}: {e}") from None
