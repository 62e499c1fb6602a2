"""Rows of a journal as batches, one after another: what an export writes.

    journal ---- frames ----> rows in [since, until), some columns ----> Destination (event_files)

A journal's rows come as they are; of a journal of frames each element is a row with its times.
What is in memory at once is a frame, however large the journal is.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.io.event_formats import IS_JSON
from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.journal.rejects import FOLDER, read_lines
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame, Mask

ROWS_MAX = 2**62
"""Of an export: nobody counts them beforehand."""
READ_ROWS = 1 << 16
"""Of a frame that is read at once."""
REJECTED = pa.schema(
    [
        pa.field("batch", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("row", pa.string(), metadata={IS_JSON: b""}),
        pa.field("file", pa.string()),
    ]
)
"""Of rejected rows; `row` is JSON, as every journal has other columns. In JSON lines it is an
object beside the others; elsewhere a text, and a line that was no row as it was."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Batches of one schema."""

    schema: pa.Schema
    batches: Generator[pa.RecordBatch, None, None]


def exported(
    disk: Disk,
    *,
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    since: int | None = None,
    until: int | None = None,
) -> Rows:
    """The rows that are there now, from `since` on and before `until`."""
    reader = Reader(disk, partitions=partitions, columns=columns, since=since, frame_rows=READ_ROWS)
    has_rows = reader.layout.has_rows
    schema = reader.schema.payload if has_rows else reader.schema.arrow
    return Rows(schema, _batches(reader, since, until))


def _batches(
    reader: Reader, since: int | None, until: int | None
) -> Generator[pa.RecordBatch, None, None]:
    while (frame := reader.read()) is not None:
        batch = frame.payload if reader.layout.has_rows else frame.batch
        wanted = _wanted(frame, since, until)
        if wanted.all():
            yield batch
        elif wanted.any():
            yield take_rows(batch, wanted)
        if until is not None and reader.stable >= until:
            return  # no row to come is before it


def _wanted(frame: Frame, since: int | None, until: int | None) -> Mask:
    wanted = np.ones(len(frame), np.bool_)
    if since is not None:
        wanted &= frame.vs >= since
    if until is not None:
        wanted &= frame.vs < until
    return wanted


def rejected_rows(disk: Disk, *, as_json: bool = False) -> Rows:
    """All rows that were not taken and are still there, with the file that each is in. `as_json`:
    they become JSON lines.
    """
    return Rows(REJECTED, _rejected(disk, as_json))


def _rejected(disk: Disk, as_json: bool) -> Generator[pa.RecordBatch, None, None]:
    for name in disk.list(FOLDER):
        path = f"{FOLDER}/{name}"
        for lines in read_lines(disk, path):
            made = [_parsed(path, at, line, as_json) for at, line in lines if line.endswith(b"\n")]
            columns = [list(column) for column in zip(*made, strict=True)] or [[]] * 4
            arrays = [pa.array(c, f.type) for c, f in zip(columns, REJECTED, strict=False)]
            files = pa.array([path] * len(made), pa.string())
            yield pa.RecordBatch.from_arrays([*arrays, files], schema=REJECTED)


def _parsed(path: str, at: int, line: bytes, as_json: bool) -> tuple[int, str, str, str]:
    try:
        row = json.loads(line)
        return (
            int(row["batch"]),
            str(row["reason"]),
            str(row["origin"]),
            _row_text(row["row"], as_json),
        )
    except (ValueError, TypeError, LookupError):
        raise JournalError(
            f"{path} at byte {at}: no rejected row; `gapless journal verify` shows all damage"
        ) from None


def _row_text(row: Any, as_json: bool) -> str:
    if isinstance(row, str) and not as_json:
        return row
    return json.dumps(row, ensure_ascii=False)
