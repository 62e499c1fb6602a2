"""Streams that were recorded to files, read frame by frame, and written.

Two formats are read, told apart by their first bytes:

- envelopes, one after another (`protocol/envelope.py`): frames of one schema, numbered from 0. An
  end that is torn is left out;
- Arrow IPC, stream or file: batches of the columns `_vs`, `_ve`, `_was` (int64, not null; `_was` is
  the smallest int64 in an insert) and then the payload. A stable that comes after a batch's rows
  stands in the batch's custom metadata, `gapless.stable`: an integer, or `inf`. A batch may have no
  rows. The schema's metadata may have `gapless.time_unit`: s, ms, us, ns; ms without it.

What is written is an Arrow IPC stream of that form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from gapless.journal.disk import LocalDisk
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.envelope import HEADER_BYTES, MAGIC, decode_frame, peek_header
from gapless.protocol.errors import (
    BadData,
    DecodeError,
    GaplessError,
    JournalError,
    Misuse,
    SchemaError,
    Truncated,
)
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX, read_schema
from gapless.protocol.schema import StreamSchema

STABLE_KEY = b"gapless.stable"
_ARROW_FILE_MAGIC = b"ARROW1"
_MESSAGE_PREFIX = struct.Struct("<II")
"""What an Arrow message starts with: a mark, and the bytes of its metadata."""


class RecordedStream:
    """A recorded stream. `frames()` may be called once."""

    def __init__(
        self,
        path: Path,
        schema: StreamSchema | None = None,
        *,
        hint: str = "a script? leave out --files",
    ) -> None:
        """Opens the file and reads its schema, which must be `schema` if that is given. `hint`:
        what to do with a file that is not a recording.
        """
        self.path = path
        self.bytes_total = 0
        self.bytes_read = 0
        """How far `frames()` has come. Less than `bytes_total` at its end: the rest is torn."""
        try:
            with path.open("rb") as file:
                head = file.read(HEADER_BYTES)
            self.bytes_total = path.stat().st_size
        except OSError as e:
            raise Misuse(f"{path}: cannot be read: {e.strerror}") from None
        if not head:
            raise BadData(f"{path}: is empty")
        self._has_envelopes = head.startswith(MAGIC)
        try:
            if self._has_envelopes:
                found = _schema_of(path) or schema
                if found is None:
                    raise BadData("has no row, so nothing says its schema; name it after another")
                self.schema = found
            else:
                self._source = pa.memory_map(str(path))
                is_file = head.startswith(_ARROW_FILE_MAGIC)
                self._reader = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(self._source)
                self.schema = StreamSchema.of_batch(self._reader.schema)
        except (pa.ArrowException, OSError) as e:
            raise BadData(f"{path}: neither envelopes nor Arrow IPC ({e}); {hint}") from None
        except GaplessError as e:
            raise BadData(f"{path}: {e}") from None
        if schema is not None and self.schema != schema:
            raise SchemaError(f"{path}: holds {self.schema}, expected {schema}")

    def frames(self) -> Iterator[Frame]:
        """The frames in the order in which they were recorded."""
        if self._has_envelopes:
            yield from self._envelopes()
            return
        number = 0
        batches = self._batches()
        while True:
            try:
                batch, metadata = next(batches)
                batch.validate(full=True)
                frame = Frame(batch, _stable(metadata), self.schema)
            except StopIteration:
                break
            except (pa.ArrowException, OSError, GaplessError) as e:
                raise BadData(f"{self.path}: batch {number}: {e}") from None
            if len(frame) > ROWS_MAX:
                raise BadData(f"{self.path}: batch {number}: {len(frame)} rows, at most {ROWS_MAX}")
            number += 1
            yield frame
        self.bytes_read = self.bytes_total

    def _envelopes(self) -> Iterator[Frame]:
        disk, name, number = LocalDisk(self.path.parent), self.path.name, 0
        while head := disk.read(name, at := self.bytes_read, HEADER_BYTES):
            try:
                data = disk.read(name, at, peek_header(head).envelope_bytes)
                found = decode_frame(data, self.schema)
            except Truncated:
                return
            except DecodeError as e:
                raise JournalError(f"{name} at offset {at}: {e}") from None
            if found.sequence != number:
                raise JournalError(
                    f"{name} at offset {at}: record {found.sequence}, expected {number}: records "
                    "are missing, or two writers have appended"
                )
            number, self.bytes_read = number + 1, at + len(data)
            yield found.frame

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, Any]]:
        if not hasattr(self._reader, "num_record_batches"):
            for batch in self._reader.iter_batches_with_custom_metadata():
                self.bytes_read = self._source.tell()
                yield batch.batch, batch.custom_metadata
            return
        total = self._reader.num_record_batches
        for i in range(total):
            batch = self._reader.get_batch_with_custom_metadata(i)
            self.bytes_read = self.bytes_total * (i + 1) // total
            yield batch.batch, batch.custom_metadata


class RecordedStreamWriter:
    """Writes frames to an Arrow IPC stream; a context manager."""

    def __init__(self, path: Path, schema: StreamSchema) -> None:
        self._path = path
        with self._errors():
            self._sink = pa.OSFile(str(path), "wb")
            self._writer = pa.ipc.new_stream(self._sink, schema.arrow)

    def write(self, frame: Frame) -> None:
        """Adds a frame."""
        metadata = None
        if frame.stable is not None:
            metadata = {STABLE_KEY: format_time(frame.stable).encode()}
        with self._errors():
            self._writer.write_batch(frame.batch, custom_metadata=metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._errors():
            try:
                self._writer.close()
            finally:
                self._sink.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise Misuse(f"{self._path}: cannot be written: {e}") from None


def _schema_of(path: Path) -> StreamSchema | None:
    """The schema of the first envelope that has rows; all others must then have its fingerprint.

    None where there is none, so that nothing says the schema.
    """
    disk, at = LocalDisk(path.parent), 0
    while head := disk.read(path.name, at, HEADER_BYTES):
        header = peek_header(head)
        if header.body_bytes:
            body = disk.read(path.name, at + HEADER_BYTES, header.body_bytes)
            if len(body) < _MESSAGE_PREFIX.size:
                raise Truncated("body", f"{len(body)} bytes", header.body_bytes)
            _, metadata_bytes = _MESSAGE_PREFIX.unpack_from(body)
            return StreamSchema.of_batch(read_schema(body[: _MESSAGE_PREFIX.size + metadata_bytes]))
        at += header.envelope_bytes
    return None


def _stable(metadata: Any) -> int | None:
    value = None if metadata is None else metadata.get(STABLE_KEY)
    if value is None:
        return None
    text = value.decode("ascii", "replace")
    try:
        return INF if text == "inf" else int(text)
    except ValueError:
        raise DecodeError(STABLE_KEY.decode(), repr(text[:40]), "an integer or inf") from None


def interleave(
    recordings: Sequence[RecordedStream], by_vs: bool, advance: Callable[[], None], steps: int
) -> Iterator[tuple[int, Frame]]:
    """All frames, each with the number of its recording: of one recording after the other in turn,
    or, `by_vs`, always the one whose first row starts first (without rows its stable counts).

    `advance` is called `steps` times over all the bytes, as they are read.
    """
    total = sum(recording.bytes_total for recording in recordings)
    streams = [recording.frames() for recording in recordings]
    heads = {i: head for i, s in enumerate(streams) if (head := next(s, None)) is not None}
    last, done = -1, 0
    while heads:
        if by_vs:
            i = min(heads, key=lambda i: (_begins(heads[i]), i))
        else:
            i = min(heads, key=lambda i: (i <= last, i))
        last, frame = i, heads.pop(i)
        head = next(streams[i], None)
        if head is not None:
            heads[i] = head
        yield i, frame
        read = sum(recording.bytes_read for recording in recordings)
        while done < steps * read // total:
            done += 1
            advance()


def _begins(frame: Frame) -> int:
    if len(frame):
        return int(frame.vs.min())
    return BEGIN if frame.stable is None else frame.stable
