"""Rows of a Parquet or Arrow file as batches, and the columns that such a file says it has.

A file's own batches have any size; they are cut and joined to batches of the size that is asked
for, which are the same each time the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.io.event_files import TEXT_FORMATS
from gapless.io.ingest_batches import Batch, Input
from gapless.io.journal_handles import Stop
from gapless.protocol.columns import concat_batches
from gapless.protocol.errors import BadData, Misuse

READ_ROWS = 1 << 16
"""Rows of a Parquet file that are decoded at once."""

_ARROW_FILE = b"ARROW1"  # how a file begins that has its batches' places at its end


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
