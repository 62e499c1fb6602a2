"""The envelope: how a frame or a control document stands in a file or on a wire of ours.

    bytes  0..63    header, little-endian
      0  magic        "GAPL"
      4  version      1 byte
      5  kind         1 byte: 1 frame, 2 document, 3 rows
      6  place        2 bytes: where in a journal it belongs (protocol/record_place.py)
      8  term         4 bytes: with the next, the incarnation of the writer
     12  counter      4 bytes
     16  sequence     8 bytes: counts frames; in a journal's segment, rows (journal/segment.py)
     24  stable       8 bytes, signed; the smallest int64 where a frame has none
     32  fingerprint  16 bytes: of the frame's schema; zero in a document
     48  body bytes   8 bytes, without the padding
     56  body crc     4 bytes: zlib.crc32 of body and padding
     60  header crc   4 bytes: zlib.crc32 of the 60 bytes before it
    bytes 64..      body: an Arrow IPC stream of one batch, or msgpack; none where there is no row
                    zeros, up to a multiple of 64

The body of a frame has its time columns; that of rows has not: a reader that knows which column of
them is the time makes a frame of them at no cost, and three columns of eight bytes stay out of a
file.

Header and envelope are multiples of 64 bytes, so that bodies in a mapped file keep the alignment
that Arrow likes, and a file is walked from header to header. The header has a checksum of its own:
a length that was damaged is then told from a file that ends in the middle of an envelope. The first
is a `DecodeError`; the second is `Truncated`, which is what a crash leaves at a journal's tail.

A checksum finds accidents. Against a peer that computes it over bad data on purpose stand the
bounds here, `ipc_guard` and `documents`; whatever the bytes, decoding gives a checked value or a
`DecodeError`. A decoded frame uses the given bytes where they lie: they must not change under it.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, Self, TypeAlias

import pyarrow as pa

from gapless.protocol import documents
from gapless.protocol.columns import compact
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import DecodeError, FrameError, Misuse, SchemaError, Truncated
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX, STREAM_END, BatchReader
from gapless.protocol.nulls import check_nulls
from gapless.protocol.record_place import NO_PLACE, Place, place_of
from gapless.protocol.schema import StreamSchema

MAGIC = b"GAPL"
"""How every envelope, and so every file of them, begins."""
HEADER_BYTES = 64
"""Bytes of a header, and what an envelope is a multiple of: a cache line, Arrow's alignment."""
BODY_BYTES_MAX = 64 << 20
"""Bytes of a body: 65,536 rows of 1 KB. A larger frame is cut before it is encoded."""
WRITERS_KEPT = 1024
"""Incarnations that headers name: a record's is mostly that of the one before."""
SCHEMAS_KEPT = 256
"""Schemas whose encoded form is kept: more than one process meets."""

_VERSION = 1
_HEADER = struct.Struct("<4sBBHIIQq16sQI")
_SUMMED_HEADER = struct.Struct(f"{_HEADER.format}I")  # with its checksum behind it
_CRC = struct.Struct("<I")
_NO_FINGERPRINT = bytes(16)
_U32_MAX = 2**32 - 1
_U64_MAX = 2**64 - 1

Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
"""Bytes in one piece, wherever they lie; of a mapped file, `memoryview(mapped)`."""


class Kind(IntEnum):
    """What the body of an envelope is."""

    FRAME = 1
    DOCUMENT = 2
    ROWS = 3


_KINDS = {int(kind): kind for kind in Kind}


class _Life(NamedTuple):
    term: int
    counter: int


class Incarnation(_Life):
    """One life of one writer. Of two, the larger is the later, and whatever the smaller still says
    is void.

    `term` counts the lives of the job's root, `counter` what one root has started. It is a tuple
    because lives are compared and looked up for every message.
    """

    __slots__ = ()

    def __new__(cls, term: int, counter: int) -> Self:
        """Raises `Misuse` where a number does not fit in an envelope."""
        for name, value in (("term", term), ("counter", counter)):
            if not 0 <= value <= _U32_MAX:
                raise Misuse(f"incarnation: {name} is {value}, not one of 0 to {_U32_MAX}")
        return super().__new__(cls, term, counter)

    def __str__(self) -> str:
        return f"{self.term}.{self.counter}"


_incarnation = lru_cache(WRITERS_KEPT)(Incarnation)


class Header(NamedTuple):
    """The first 64 bytes of an envelope, checked by themselves; the body is not looked at."""

    kind: Kind
    place: Place
    incarnation: Incarnation
    sequence: int
    stable: int | None
    fingerprint: bytes
    body_bytes: int
    body_crc: int

    @property
    def envelope_bytes(self) -> int:
        """Bytes from the start of this header to where the next one starts."""
        return HEADER_BYTES + _padded(self.body_bytes)


class Envelope(NamedTuple):
    """A frame and who sent it: its `sequence` counts the frames of its incarnation."""

    incarnation: Incarnation
    sequence: int
    frame: Frame


class RowsEnvelope(NamedTuple):
    """Rows without times of their own, and who sent them."""

    incarnation: Incarnation
    sequence: int
    batch: pa.RecordBatch
    stable: int | None


class DocumentEnvelope(NamedTuple):
    """A control document and who sent it."""

    incarnation: Incarnation
    sequence: int
    document: documents.Document


def encode_frame(
    frame: Frame, incarnation: Incarnation, sequence: int, place: Place = NO_PLACE
) -> bytes:
    """The frame in its envelope: the rows that it has, not the larger batch they may be part of."""
    body = _body(Kind.FRAME, frame.schema, frame.batch)
    fingerprint = frame.schema.fingerprint
    return _seal(Kind.FRAME, place, incarnation, sequence, frame.stable, fingerprint, body)


def encode_rows(
    batch: pa.RecordBatch,
    schema: StreamSchema,
    incarnation: Incarnation,
    sequence: int,
    stable: int | None = None,
    place: Place = NO_PLACE,
) -> bytes:
    """Rows of a schema's payload in their envelope, followed by a stable."""
    if not batch.schema.equals(schema.payload):
        raise SchemaError(f"rows of {batch.schema.names} are no payload of {schema}")
    body = _body(Kind.ROWS, schema, batch)
    return _seal(Kind.ROWS, place, incarnation, sequence, stable, schema.fingerprint, body)


def decode_frame(
    data: Data, schema: StreamSchema, *, max_bytes: int = BODY_BYTES_MAX, max_rows: int = ROWS_MAX
) -> Envelope:
    """The frame in one envelope, checked whole. Its columns lie in `data`."""
    header, body = _open(data, Kind.FRAME, max_bytes)
    batch = _batch(header, body, schema, max_rows)
    if batch is None:
        return Envelope(header.incarnation, header.sequence, Frame.empty(schema, header.stable))
    try:
        frame = Frame(batch, header.stable, schema)
    except (FrameError, SchemaError) as e:
        raise DecodeError("rows", str(e)) from None
    return Envelope(header.incarnation, header.sequence, frame)


def decode_rows(
    data: Data, schema: StreamSchema, *, max_bytes: int = BODY_BYTES_MAX, max_rows: int = ROWS_MAX
) -> RowsEnvelope:
    """The rows in one envelope, checked whole. Their columns lie in `data`."""
    header, body = _open(data, Kind.ROWS, max_bytes)
    batch = _batch(header, body, schema, max_rows)
    if batch is None:
        batch = schema.empty_payload
    try:
        columns = batch.columns
        for i, field in schema.required_fields:
            check_nulls(field, columns[i])
    except FrameError as e:
        raise DecodeError("rows", str(e)) from None
    return RowsEnvelope(header.incarnation, header.sequence, batch, header.stable)


def count_rows(data: Data, schema: StreamSchema, kind: Kind) -> int:
    """How many rows one envelope says that it has, for readers that skip it: a tenth of what
    decoding costs. Neither its checksum nor its rows are looked at.
    """
    return _reader(schema, kind).rows(memoryview(data)[HEADER_BYTES:])


def encode_document(document: documents.Document, incarnation: Incarnation, sequence: int) -> bytes:
    """The document in its envelope."""
    body = documents.pack(document)
    return _seal(Kind.DOCUMENT, NO_PLACE, incarnation, sequence, None, _NO_FINGERPRINT, body)


def decode_document(data: Data, *, max_bytes: int = documents.BYTES_MAX) -> DocumentEnvelope:
    """The document in one envelope: plain data, its fields not yet looked at."""
    header, body = _open(data, Kind.DOCUMENT, max_bytes)
    if header.fingerprint != _NO_FINGERPRINT or header.stable is not None:
        raise DecodeError("header", "a document with a stable or a schema", "neither")
    document = documents.unpack(memoryview(body), max_bytes=max_bytes)
    return DocumentEnvelope(header.incarnation, header.sequence, document)


def peek_header(data: Data, offset: int = 0, *, max_bytes: int = BODY_BYTES_MAX) -> Header:
    """The header at `offset`, for walking a file: go on at `offset + envelope_bytes`.

    Raises `Truncated` where the bytes end inside the header. Whether those of the body are all
    there is for the caller to see; decoding would raise `Truncated`, too.
    """
    head = bytes(memoryview(data)[offset : offset + HEADER_BYTES])
    if not head.startswith(MAGIC[: len(head)]):
        raise DecodeError("magic", head[:4].hex(), MAGIC.hex())
    if len(head) < HEADER_BYTES:
        raise Truncated("header", f"{len(head)} bytes", HEADER_BYTES)
    return _read_header(head, max_bytes)


def _read_header(head: bytes, max_bytes: int) -> Header:
    (
        _,
        version,
        kind,
        place,
        term,
        counter,
        sequence,
        stable,
        fingerprint,
        body_bytes,
        body_crc,
        crc,
    ) = _SUMMED_HEADER.unpack(head)
    if version != _VERSION:
        raise DecodeError("version", str(version), _VERSION)
    wanted = zlib.crc32(head[: _HEADER.size])
    if crc != wanted:
        raise DecodeError("header crc", f"{crc:#010x}", f"{wanted:#010x}")
    if kind not in _KINDS:
        raise DecodeError("kind", str(kind), ", ".join(k.name.lower() for k in Kind))
    if kind == Kind.DOCUMENT and place:
        raise DecodeError("place", f"{place:#x} of a document", 0)
    if body_bytes > max_bytes:
        raise DecodeError("body bytes", str(body_bytes), f"<= {max_bytes}")
    return Header(
        _KINDS[kind],
        place_of(place) if place else NO_PLACE,
        _incarnation(term, counter),
        sequence,
        None if stable == BEGIN else stable,
        fingerprint,
        body_bytes,
        body_crc,
    )


def _open(data: Data, kind: Kind, max_bytes: int) -> tuple[Header, pa.Buffer]:
    """The header of the one envelope that `data` is, and its body."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    view = memoryview(buffer)
    header = peek_header(view, max_bytes=max_bytes)
    if header.kind != kind:
        raise DecodeError("kind", header.kind.name.lower(), kind.name.lower())
    if len(view) < header.envelope_bytes:
        raise Truncated("body", f"{len(view) - HEADER_BYTES} bytes", _padded(header.body_bytes))
    if len(view) > header.envelope_bytes:
        raise DecodeError("envelope", f"{len(view)} bytes", header.envelope_bytes)
    crc = zlib.crc32(view[HEADER_BYTES:])
    if crc != header.body_crc:
        raise DecodeError("body crc", f"{crc:#010x}", f"{header.body_crc:#010x}")
    if bytes(view[HEADER_BYTES + header.body_bytes :]).strip(b"\0"):
        raise DecodeError("padding", "is not zero", 0)
    return header, buffer.slice(HEADER_BYTES, header.body_bytes)


def _body(kind: Kind, schema: StreamSchema, batch: pa.RecordBatch) -> bytes | pa.Buffer:
    """A batch as an Arrow IPC stream; nothing where it has no rows."""
    reader = _reader(schema, kind)
    if not batch.num_rows:
        return b""
    if batch.num_rows > ROWS_MAX:
        raise FrameError(f"a frame of {batch.num_rows} rows: cut it, {ROWS_MAX} is the most")
    if schema.can_shrink:
        columns = [compact(column) for column in batch.columns]
        if reader.has_dictionaries:
            return _stream(reader.schema, columns)
        batch = pa.RecordBatch.from_arrays(columns, schema=reader.schema)
    # The bytes of a stream at a third of the cost: the schema's message is known by heart.
    return b"".join((reader.schema_message, batch.serialize(), STREAM_END))


def _batch(
    header: Header, body: pa.Buffer, schema: StreamSchema, max_rows: int
) -> pa.RecordBatch | None:
    """The inverse of `_body`; None where there is no row."""
    if header.fingerprint != schema.fingerprint:
        raise DecodeError("schema fingerprint", header.fingerprint.hex(), schema.fingerprint.hex())
    return _reader(schema, header.kind).read(body, max_rows) if header.body_bytes else None


def _seal(
    kind: Kind,
    place: Place,
    incarnation: Incarnation,
    sequence: int,
    stable: int | None,
    fingerprint: bytes,
    body: bytes | pa.Buffer,
) -> bytes:
    if not 0 <= sequence <= _U64_MAX:
        raise Misuse(f"sequence {sequence}: not one of 0 to {_U64_MAX}")
    body_bytes = len(body)
    if body_bytes > BODY_BYTES_MAX:
        raise Misuse(f"a body of {body_bytes} bytes: cut it, {BODY_BYTES_MAX} is the most")
    padding = bytes(_padded(body_bytes) - body_bytes)
    header = _HEADER.pack(
        MAGIC,
        _VERSION,
        kind,
        place.bits(),
        incarnation.term,
        incarnation.counter,
        sequence,
        BEGIN if stable is None else stable,
        fingerprint,
        body_bytes,
        zlib.crc32(padding, zlib.crc32(body)),
    )
    return b"".join((header, _CRC.pack(zlib.crc32(header)), body, padding))


def _padded(size: int) -> int:
    return -(-size // HEADER_BYTES) * HEADER_BYTES


def _stream(arrow: pa.Schema, columns: list[Any]) -> pa.Buffer:
    """An Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
    with pa.ipc.new_stream(sink, arrow, options=pa.ipc.IpcWriteOptions()) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


@lru_cache(maxsize=2 * SCHEMAS_KEPT)
def _reader(schema: StreamSchema, kind: Kind) -> BatchReader:
    """The reader of a schema's batches; refuses a schema whose own batches it would not read."""
    empty = schema.empty_batch if kind == Kind.FRAME else schema.empty_payload
    reader = BatchReader(empty.schema)
    try:
        reader.check(memoryview(_stream(reader.schema, empty.columns)))
    except DecodeError as e:
        raise SchemaError(f"a schema too large to be sent: {e}") from None
    return reader
