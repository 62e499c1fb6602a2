"""A checkpoint: all that a replica is at one moment, so that another one can go on from there.

    positions   what it has read of each source
    given       the last stable that it gave its plan, of each source
    state       what the plan remembers
    tail        its output with ve >= since, as inserts: what mergers may lack

All of it is of the same moment: rows up to the positions are in the state and in the tail, and
none behind them is. A live replica hands one to a joining peer; now and then one goes to the disk:

    checkpoints/0-talkers-3-17        a file of envelopes, numbered from 0
      0      head: format, plan, positions, given, since, stable, how much follows
      1..    the tail, as frames
      ..     each table of the state: its name and Arrow schema, then Arrow's bytes in chunks

Every byte lies under the checksum of an envelope, and the head says how many there are: what reads
back is what was written, all of it. What does not is a `CheckpointError`; a checkpoint only ever
saves time, so a replica that wanted to start from it tries its next origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from gapless.failover import parts
from gapless.failover.job.whole_file import NAME_CHARS_MAX, check_name, write_whole
from gapless.failover.replica.effects import Position
from gapless.journal.disk import Disk
from gapless.journal.partition import PARTITIONS_MAX
from gapless.journal.room import Room
from gapless.protocol import documents
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    Data,
    DocumentEnvelope,
    Incarnation,
    decode_document,
    decode_frame,
    encode_document,
    encode_frame,
    peek_header,
)
from gapless.protocol.errors import CheckpointError, DecodeError, FrameError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX, BatchReader, read_schema
from gapless.protocol.schema import StreamSchema

FOLDER = "checkpoints"
FORMAT = 2
"""Of the file, and of what the tables of operators mean: it is raised with each release that lays
any of them out otherwise. A reader takes no other, and replays; 1 was before held answers.
"""
SOURCES_MAX = 1000
"""Sources of one plan: as many as it has steps at most."""
TABLES_MAX = 100_000
"""Tables of one state: a hundred for each step that a plan can have."""
TABLE_ROWS_MAX = 1 << 31
"""Rows of one table of a state; what is claimed has to lie in the file, so this is no limit of ours
but Arrow's.
"""
TAIL_FRAMES_MAX = 1 << 20
"""Frames that a tail is cut into: a million of a quarter of an envelope each."""
FRAME_BYTES_MAX = BODY_BYTES_MAX // 4
"""Of one of them; rows differ in length, and the envelope's bound is a hard one."""
CHUNK_BYTES = documents.BYTES_MAX // 2
"""Bytes of a table in one envelope, which takes a document of twice that."""

_NOBODY = Incarnation(0, 0)
"""Its writer is dead when it is read; it does not matter which life that was."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One moment of a replica."""

    plan: str
    """The name of the plan that it ran: the state fits no other."""
    positions: Mapping[str, Position]
    """By source, where to read on."""
    given: Mapping[str, int]
    """By source, the last stable that the plan was given."""
    since: int
    """The tail has every event with `ve` from here on: the time at which a stream joins with it."""
    stable: int
    """The last that the plan has put out; BEGIN where there is none."""
    tail: tuple[Frame, ...]
    """As inserts, in parts, one at least; the stable comes behind the last."""
    state: Mapping[str, pa.RecordBatch]
    """The snapshot of the plan's graph."""

    @property
    def nbytes(self) -> int:
        """Bytes of tail and state."""
        return sum(part.nbytes for part in self.tail) + self.state_bytes

    @property
    def state_bytes(self) -> int:
        """Bytes of the state alone."""
        return sum(int(table.nbytes) for table in self.state.values())


# -- files ----------------------------------------------------------------------------------------


def write(disk: Disk, name: str, checkpoint: Checkpoint) -> None:
    """Makes a checkpoint durable under a name of its own, whole or not at all.

    Raises `Misuse` where the name is taken, `DiskFull` and `JournalError` where the disk does not
    take it.
    """
    path = _path(name)
    room = Room(disk)
    room.need(checkpoint.nbytes)
    try:
        write_whole(disk, path, encode(checkpoint))
    except FileExistsError:
        raise Misuse(f"{disk}: {path} is there: a checkpoint's name is used once") from None
    except OSError as e:
        raise room.refused(e) from None


def read(disk: Disk, name: str, schema: StreamSchema) -> Checkpoint:
    """A checkpoint of a plan whose output has this schema; `CheckpointError` where it is not whole.

    Its tail lies in the file, which may be dropped meanwhile.
    """
    path = _path(name)
    try:
        if not disk.exists(path):
            raise DecodeError("file", "is missing")
        return decode(disk.map(path, disk.size(path)).data, schema)
    except _UNFIT as e:
        raise CheckpointError(_advice(disk, path, e)) from None


def size(disk: Disk, name: str) -> int:
    """Bytes of a checkpoint on the disk."""
    return disk.size(_path(name))


def peek(disk: Disk, name: str) -> tuple[str, int]:
    """The plan of a checkpoint, and where it joins, by its head alone; `CheckpointError` where that
    does not read.
    """
    path = _path(name)
    try:
        header = peek_header(disk.read(path, 0, HEADER_BYTES))
        head = _read_head(disk.read(path, 0, header.envelope_bytes))
    except _UNFIT as e:
        raise CheckpointError(_advice(disk, path, e)) from None
    return head.plan, head.since


def drop(disk: Disk, name: str) -> None:
    """Takes a checkpoint away; nothing happens where there is none."""
    disk.unlink(_path(name))


def _path(name: str) -> str:
    return f"{FOLDER}/{check_name('checkpoint', name, 2 * NAME_CHARS_MAX)}"


def _advice(disk: Disk, path: str, error: Exception) -> str:
    return (
        f"{disk}: file {path}: {error}; start from another checkpoint or by replay, and drop this"
    )


_UNFIT = (DecodeError, FrameError, SchemaError, Misuse, OSError)
"""What comes of bytes that are no checkpoint, or one of another schema."""


# -- writing --------------------------------------------------------------------------------------


def encode(checkpoint: Checkpoint) -> Iterator[bytes]:
    """The envelopes of a checkpoint, in order, each made when it is asked for: beside a checkpoint
    there is never more in memory than one of its tables.
    """
    frames = [cut for part in checkpoint.tail for cut in _parts(part)]
    yield encode_document(_head(checkpoint, len(frames), len(checkpoint.state)), _NOBODY, 0)
    number = 1
    for frame in frames:
        yield encode_frame(frame, _NOBODY, number)
        number += 1
    for name, batch in checkpoint.state.items():
        data = _stream(batch)
        table: Document = {
            "name": name,
            "schema": batch.schema.serialize().to_pybytes(),
            "bytes": len(data),
        }
        starts = range(0, len(data), CHUNK_BYTES)
        chunks = (bytes(data[start : start + CHUNK_BYTES]) for start in starts)
        for document in chain((table,), chunks):
            yield encode_document(document, _NOBODY, number)
            number += 1


def _head(checkpoint: Checkpoint, frames: int, tables: int) -> Document:
    return {
        "format": FORMAT,
        "plan": checkpoint.plan,
        "sources": list(checkpoint.positions),
        "partitions": [list(p) for p in checkpoint.positions.values()],
        "offsets": [list(p.values()) for p in checkpoint.positions.values()],
        "given": dict(checkpoint.given),
        "since": checkpoint.since,
        "stable": checkpoint.stable,
        "frames": frames,
        "tables": tables,
    }


def _parts(frame: Frame) -> list[Frame]:
    """A part of the tail, cut where it is too large for one envelope."""
    return parts.cut(frame, ROWS_MAX, FRAME_BYTES_MAX)


def _stream(batch: pa.RecordBatch) -> memoryview:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


# -- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Head:
    plan: str
    positions: dict[str, Position]
    given: dict[str, int]
    since: int
    stable: int
    frames: int
    tables: int


def decode(data: Data, schema: StreamSchema) -> Checkpoint:
    """The inverse of `encode`, for bytes from anywhere: raises `DecodeError`, or `SchemaError` and
    `FrameError` where its tail is none of this schema.
    """
    envelopes = _Envelopes(data)
    head = _read_head(envelopes.next())
    tail = tuple(decode_frame(envelopes.next(), schema).frame for _ in range(head.frames))
    for part in tail:
        if not part.insert_only or (len(part) and int(part.ve.min()) < head.since):
            raise DecodeError("tail", "has other rows than inserts", f"inserts, ve >= {head.since}")
    if any(part.stable is not None for part in tail[:-1]):
        raise DecodeError("tail", "has a stable before its last part", "one behind the last")
    state: dict[str, pa.RecordBatch] = {}
    for _ in range(head.tables):
        name, batch = _read_table(envelopes)
        if name in state:
            raise DecodeError("state", f"the table {name!r} comes twice", "once")
        state[name] = batch
    envelopes.done()
    return Checkpoint(head.plan, head.positions, head.given, head.since, head.stable, tail, state)


class _Envelopes:
    """The envelopes of a file, one after the other."""

    def __init__(self, data: Data) -> None:
        self._data = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        self._view = memoryview(self._data)
        self._at = 0
        self._next = 0

    def next(self) -> pa.Buffer:
        """The bytes of the next one; raises unless it has the next number."""
        header = peek_header(self._view, self._at)
        if header.sequence != self._next or header.incarnation != _NOBODY:
            raise DecodeError("sequence", str(header.sequence), self._next)
        start, size = self._at, header.envelope_bytes
        self._at += size
        self._next += 1
        return self._data.slice(start, min(size, len(self._view) - start))

    def document(self) -> DocumentEnvelope:
        """The next one, which holds a document."""
        return decode_document(self.next())

    def done(self) -> None:
        """Raises if there are more."""
        if self._at != len(self._view):
            raise DecodeError("file", f"{len(self._view) - self._at} bytes after its end", 0)


def _read_head(data: Data) -> _Head:
    fields = Fields(decode_document(data).document, "head")
    written = fields.take("format", int)
    if written != FORMAT:
        raise DecodeError("head.format", f"{written}: another release made it", FORMAT)
    head = _Head(
        fields.take("plan", str),
        _read_positions(fields),
        _read_given(fields),
        fields.take_int("since", BEGIN, INF),
        fields.take_int("stable", BEGIN, INF),
        fields.take_int("frames", 1, TAIL_FRAMES_MAX),
        fields.take_int("tables", 0, TABLES_MAX),
    )
    fields.done()
    return head


def _read_positions(fields: Fields) -> dict[str, Position]:
    sources = fields.take_list("sources", str, SOURCES_MAX)
    columns: list[list[Any]] = []
    for what, most in (("partitions", PARTITIONS_MAX - 1), ("offsets", INF)):
        column = fields.take_list(what, list, SOURCES_MAX)
        for numbers in column:
            if not all(type(n) is int and 0 <= n <= most for n in numbers):
                raise DecodeError(f"head.{what}", "is not a list of numbers", f"0 to {most}")
        columns.append(column)
    if not len(set(sources)) == len(sources) == len(columns[0]) == len(columns[1]):
        raise DecodeError("head.sources", f"{len(sources)} of them", "a position each")
    found: dict[str, Position] = {}
    for source, partitions, offsets in zip(sources, *columns, strict=True):
        if not len(set(partitions)) == len(partitions) == len(offsets):
            raise DecodeError("head.offsets", f"{len(offsets)} of source {source!r}", "one each")
        found[source] = dict(zip(partitions, offsets, strict=True))
    return found


def _read_given(fields: Fields) -> dict[str, int]:
    given = fields.take("given", dict)
    for source, t in given.items():
        if type(t) is not int or not BEGIN <= t <= INF:
            raise DecodeError(f"head.given.{source}", repr(t), "a time")
    return given


def _read_table(envelopes: _Envelopes) -> tuple[str, pa.RecordBatch]:
    fields = Fields(envelopes.document().document, "table")
    name = fields.take("name", str)
    schema = read_schema(fields.take("schema", bytes))
    size = fields.take_int("bytes", 1, INF)
    fields.done()
    chunks = list(_read_chunks(envelopes, size))
    whole = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return name, BatchReader(schema).read(pa.py_buffer(whole), TABLE_ROWS_MAX)


def _read_chunks(envelopes: _Envelopes, size: int) -> Iterator[bytes]:
    while size > 0:
        chunk = envelopes.document().document
        if not isinstance(chunk, bytes) or len(chunk) != min(size, CHUNK_BYTES):
            raise DecodeError("chunk", "is of another length", min(size, CHUNK_BYTES))
        size -= len(chunk)
        yield chunk
