r"""A segment: records one after another, of one writer, for one partition or for several.

    | header: partition 0, row 0, more | rows |  header: partition 3, row 0, stable 17 | rows | ...
      \________________ a batch: it counts when its last record is there ________________/

A record is an envelope (protocol/envelope.py). Its place says which partition it is of, and whether
more of its batch follows; its sequence is the number of rows of that partition before it in this
segment, so that an offset is found from header to header, and a record that is missing is seen. A
stable in a record holds for all partitions that the segment has.

A segment grows while it is live; a crash may leave a torn batch at its end. Once it is sealed, a
commit knows its length and it never changes. So inside that length whatever does not read is
damage, and a `JournalError` names the segment, the offset and what can be done.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.journal.epoch import NAMES_KEPT
from gapless.journal.layout import Layout
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    MAGIC,
    SCHEMAS_KEPT,
    Header,
    Incarnation,
    Kind,
    count_rows,
    decode_frame,
    decode_rows,
    encode_frame,
    encode_rows,
    peek_header,
)
from gapless.protocol.errors import DecodeError, JournalError, Truncated
from gapless.protocol.frame import Frame, Times
from gapless.protocol.ipc_guard import ROWS_MAX
from gapless.protocol.record_place import Place
from gapless.protocol.schema import StreamSchema

SEGMENT_BYTES = 64 << 20
"""Where a segment is sealed: large enough that a day of data is a thousand files, small enough
that a mapped one is no burden, and that skipping one is worth it."""
RECORD_BYTES_MAX = BODY_BYTES_MAX // 4
"""Of the columns of one record; rows differ in length, and the envelope's bound is a hard one."""
SUMMED_BYTES = HEADER_BYTES - 4
"""Of each header, in a segment's checksum: all but its own, behind which every sum is the same."""
NUMBERS = 1 << 32
"""Of segments, in their records: what an envelope has room for; beyond they begin again."""
SOUGHT_BYTES = 1 << 20
"""Looked through at once for the next header: what is copied to do so stays in a cache."""
TIME_COLUMNS_BYTES = 24
"""Of a row in a frame."""
ADVICE = (
    "run `gapless journal verify` to see all damage; restore the file from a copy, or prepare anew"
)


class DamagedRecord(JournalError):
    """A record that does not read."""

    behind = 0
    """From which byte of its segment on another record may begin."""


class Record(NamedTuple):
    """Where one record lies, and what its header says."""

    at: int
    size: int
    partition: int
    row: int
    """Rows of its partition in this segment before it."""
    stable: int | None
    has_rows: bool


@dataclass(slots=True)
class Index:
    """The records of one segment, read from header to header; grows as the segment does."""

    name: str
    records: list[Record] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    """By batch: how many records there are up to its end."""
    end: int = 0
    """Behind the last whole batch."""
    crc: int = 0
    """Of the headers up to there."""
    writer: Incarnation = field(init=False)

    def __post_init__(self) -> None:
        self.writer = writer_of(self.name)

    def extend(self, data: memoryview, base: int = 0) -> None:
        """Takes in whole batches from `end` on; `data` begins `base` bytes into the segment.

        Stops before a batch that is not there whole. Raises `DamagedRecord` where a header is
        damaged; the batches before it are then in.
        """
        batch: list[Record] = []
        at, crc = self.end, self.crc
        while (header := self._header(data, at, base)) is not None:
            size = header.envelope_bytes
            if at - base + size > len(data):
                break
            place, has_rows = header.place, header.body_bytes > 0
            crc = zlib.crc32(data[at - base : at - base + SUMMED_BYTES], crc)
            batch.append(
                Record(at, size, place.partition, header.sequence, header.stable, has_rows)
            )
            at += size
            if not place.more:
                self.records += batch
                self.batches.append(len(self.records))
                self.end, self.crc = at, crc
                batch = []

    def _header(self, data: memoryview, at: int, base: int) -> Header | None:
        try:
            header = peek_header(data, at - base) if at - base < len(data) else None
        except Truncated:
            return None
        except DecodeError as e:
            raise _damaged(self.name, at, e, at + HEADER_BYTES) from None
        if header is not None and header.incarnation != self.writer:
            other = f"a record of another segment ({header.incarnation}, not {self.writer})"
            raise _damaged(self.name, at, other, at + HEADER_BYTES)
        return header


def _damaged(name: str, at: int, what: object, behind: int) -> DamagedRecord:
    error = DamagedRecord(f"segment {name} at byte {at}: {what}; {ADVICE}")
    error.behind = behind
    return error


def next_header(data: memoryview, at: int, end: int) -> int:
    """Where the next header begins that reads, from `at` on; `end` where there is none."""
    while at < end:
        found = bytes(data[at : at + SOUGHT_BYTES]).find(MAGIC)
        if found < 0:
            at += SOUGHT_BYTES - HEADER_BYTES
            continue
        at += found
        try:
            peek_header(data, at)
        except DecodeError:
            at += 1
            continue
        return at
    return end


@lru_cache(NAMES_KEPT)
def writer_of(name: str) -> Incarnation:
    """Whose records a segment has: those of its own epoch and number, which its name begins and
    ends with. The records of another one, put in its place, are then seen for what they are.
    """
    epoch, *_, number = name.rpartition("/")[2].split("-")
    return Incarnation(int(number) % NUMBERS, int(epoch))


def headers_crc(records: Iterable[bytes | memoryview], crc: int) -> int:
    """Continues the checksum of the headers of a segment's records."""
    for record in records:
        crc = zlib.crc32(record[:SUMMED_BYTES], crc)
    return crc


def read(name: str, data: memoryview | pa.Buffer, record: Record, layout: Layout) -> Frame:
    """The frame of a record; `data` is its bytes. Its columns lie in `data`. Raises `DamagedRecord`
    where it does not read.
    """
    try:
        if layout.has_rows:
            rows = decode_rows(data, layout.schema)
            _check_times(rows.batch, layout)
            return frame_of_rows(rows.batch, layout, rows.stable)
        return decode_frame(data, layout.schema).frame
    except DecodeError as e:
        raise _damaged(name, record.at, e, record.at + record.size) from None


def count(name: str, data: memoryview, record: Record, layout: Layout) -> int:
    """How many rows a record has, without reading them. Raises `DamagedRecord` where it does not
    say.
    """
    try:
        return count_rows(data, layout.schema, Kind.ROWS if layout.has_rows else Kind.FRAME)
    except DecodeError as e:
        raise _damaged(name, record.at, e, record.at + record.size) from None


@lru_cache(SCHEMAS_KEPT)
def no_rows(schema: StreamSchema) -> Frame:
    """A frame that says nothing: of a record that only promises."""
    return Frame.empty(schema)


def _check_times(batch: pa.RecordBatch, layout: Layout) -> None:
    nulls = batch.column(batch.schema.get_field_index(layout.time)).null_count
    if nulls:
        raise DecodeError("rows", f"{nulls} without a time", 0)


_inserts: Times = np.full(ROWS_MAX, BEGIN, np.int64)
_inserts.flags.writeable = False


def frame_of_rows(batch: pa.RecordBatch, layout: Layout, stable: int | None) -> Frame:
    """Rows as the events of a source: each lives one unit from its time on."""
    starts = times_of(batch, layout)
    return Frame.made(
        layout.schema, starts, starts + 1, batch.columns, _inserts[: len(starts)], stable
    )


def times_of(batch: pa.RecordBatch, layout: Layout) -> Times:
    """The times of rows, which are never null; a view."""
    times: Times = (
        batch.column(batch.schema.get_field_index(layout.time)).view(pa.int64()).to_numpy()
    )
    return times


def records_of(
    layout: Layout,
    writer: Incarnation,
    parts: Iterable[tuple[int, int, Frame | pa.RecordBatch]],
    stable: int | None,
    is_safe_before: bool | None = None,
) -> list[bytes]:
    """The records of one batch: (partition, rows of it in the segment before, rows) each.

    The stable comes with the last. A batch without rows is one record that says the stable.
    `is_safe_before`: whether all that lies before it in its file is safe; None of a writer that
    does not sync its appends.
    """
    pieces = [
        (partition, row + start, piece)
        for partition, row, rows in parts
        for start, piece in _cut(rows, layout)
    ]
    if not pieces:
        pieces = [
            (0, 0, layout.schema.empty_payload if layout.has_rows else Frame.empty(layout.schema))
        ]
    last = len(pieces) - 1
    return [
        _encode(
            layout,
            writer,
            Place(p, i < last, is_safe_before is not None and (i > 0 or not is_safe_before)),
            row,
            piece,
            stable if i == last else None,
        )
        for i, (p, row, piece) in enumerate(pieces)
    ]


def _encode(
    layout: Layout,
    writer: Incarnation,
    place: Place,
    row: int,
    rows: Frame | pa.RecordBatch,
    stable: int | None,
) -> bytes:
    if isinstance(rows, Frame):
        frame = rows if rows.stable == stable else rows.with_stable(stable)
        return encode_frame(frame, writer, row, place)
    return encode_rows(rows, layout.schema, writer, row, stable, place)


def _cut(
    rows: Frame | pa.RecordBatch, layout: Layout
) -> Iterator[tuple[int, Frame | pa.RecordBatch]]:
    """Pieces that each fit in a record."""
    count = rows.num_rows if isinstance(rows, pa.RecordBatch) else len(rows)
    each = layout.schema.fixed_row_bytes
    nbytes = _nbytes(rows) if each is None else count * (each + TIME_COLUMNS_BYTES)
    pieces = max(-(-count // ROWS_MAX), -(-nbytes // RECORD_BYTES_MAX))
    if pieces <= 1:
        yield 0, rows
        return
    size = -(-count // pieces)
    for start in range(0, count, size):
        yield start, rows.slice(start, size)


def _nbytes(rows: Frame | pa.RecordBatch) -> int:
    """Bytes of the columns, or some more where even that fits in one record: that costs less."""
    batch = rows.batch if isinstance(rows, Frame) else rows
    most = int(batch.get_total_buffer_size())
    return most if most <= RECORD_BYTES_MAX else int(batch.nbytes)


def span(times: Times) -> tuple[int, int]:
    """The least and the largest time; of no rows what changes neither."""
    return (int(times.min()), int(times.max())) if len(times) else (INF, BEGIN)
