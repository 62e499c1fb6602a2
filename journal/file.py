"""One append-only file of frames: what replicas read and what mergers deliver.

    | envelope 0 | envelope 1 | envelope 2 | torn ta

Every record is a frame in its envelope, so it carries its own length, checksum, schema
fingerprint and number. An offset is a number of bytes; a record's end is the next one's start.

A crash may leave a torn record at the end. A writer cuts it off when it opens the file (`recover`);
a reader takes it for a record that is still being written, and waits. Damage anywhere else is a
`JournalError` that names the offset.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.journal.disk import Disk
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    Envelope,
    Incarnation,
    decode_frame,
    encode_frame,
    peek_header,
)
from gapless.protocol.errors import DecodeError, JournalError, SchemaError, Truncated
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX
from gapless.protocol.schema import StreamSchema

RECORD_ROWS_MAX = ROWS_MAX
"""Of one record: what an envelope takes."""
RECORD_BYTES_MAX = BODY_BYTES_MAX // 4
"""Of the columns of one record; rows differ in length, and the envelope's bound is a hard one."""


class JournalFile:
    """Frames of one schema in one file, one writer, any number of readers."""

    def __init__(self, disk: Disk, name: str, schema: StreamSchema) -> None:
        self.schema = schema
        self._disk = disk
        self._name = name
        self._next = 0  # the number of the next record that this writer appends

    def recover(self) -> int:
        """Cuts off a torn record at the end; returns the offset behind the last whole one.

        A writer calls it once, before it appends.
        """
        self._next = offset = 0
        for _, behind in self.frames():
            self._next += 1
            offset = behind
        if offset < self._disk.size(self._name):
            self._disk.truncate(self._name, offset)
        return offset

    def append(self, frame: Frame, writer: Incarnation) -> int:
        """Appends a frame; returns the offset behind it. Durable only after `sync`.

        A frame that is too large for one record becomes several, its stable behind the last. Raises
        `OSError` where the disk does not take it; then nothing was appended.
        """
        if frame.schema != self.schema:
            raise SchemaError(f"{self._name} holds {self.schema}, the frame {frame.schema}")
        pieces = _pieces(frame)
        records = [encode_frame(f, writer, self._next + i) for i, f in enumerate(pieces)]
        end = self._disk.append(self._name, b"".join(records))
        self._next += len(records)
        return end

    def sync(self) -> None:
        """Makes everything appended so far survive a crash."""
        self._disk.sync(self._name)

    def read(self, offset: int) -> tuple[Frame, int] | None:
        """The frame at `offset` and the offset behind it; None at the end of what is written."""
        record = self._record(offset)
        return None if record is None else (record[0].frame, record[1])

    def _record(self, offset: int) -> tuple[Envelope, int] | None:
        try:
            head = self._disk.read(self._name, offset, HEADER_BYTES)
            if not head:
                return None
            size = peek_header(head).envelope_bytes
            record = self._disk.read(self._name, offset, size)
            return decode_frame(record, self.schema), offset + size
        except Truncated:
            return None  # the writer is in the middle of it, or has died there
        except DecodeError as e:
            raise JournalError(f"{self._name} at offset {offset}: {e}") from None

    def frames(self, offset: int = 0) -> Iterator[tuple[Frame, int]]:
        """Every frame from `offset` on, each with the offset behind it.

        Raises `JournalError` where their numbers do not follow one another.
        """
        expected = None if offset else 0
        while (record := self._record(offset)) is not None:
            envelope, behind = record
            if expected is not None and envelope.sequence != expected:
                raise JournalError(
                    f"{self._name} at offset {offset}: record {envelope.sequence}, expected "
                    f"{expected}: records are missing, or two writers have appended"
                )
            yield envelope.frame, behind
            expected, offset = envelope.sequence + 1, behind

    def seek(self, since: int) -> int:
        """The offset from which a reader meets every row with `vs >= since`."""
        offset = 0
        if since == BEGIN:
            return offset
        for frame, behind in self.frames():
            if len(frame) and int(frame.vs.max()) >= since:
                break
            offset = behind
        return offset


def _pieces(frame: Frame) -> list[Frame]:
    """The frame, cut where it is too large for one record."""
    count = max(-(-len(frame) // RECORD_ROWS_MAX), -(-frame.nbytes // RECORD_BYTES_MAX), 1)
    if count == 1:
        return [frame]
    rows = -(-len(frame) // count)
    pieces = [frame.slice(start, rows) for start in range(0, len(frame), rows)]
    return [*pieces[:-1], pieces[-1].with_stable(frame.stable)]
