"""Frames on the wire: a body of rows in one of two encodings, its checksum, and the stable.

    Frame{sequence: 7, encoding: ARROW, body: <Arrow IPC stream>, crc32: ..., stable: 1200}

ARROW is an Arrow IPC stream of exactly one batch with the columns `_vs`, `_ve`, `_was` and then the
payload, as any Arrow library writes it, not compressed. MSGPACK is for those who have none
(msgpack_frames.py). A body comes from anybody: it passes the one door for such bytes
(protocol/ipc_guard.py), and what comes out is a checked `Frame` or a `Refusal` that says why not.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import pyarrow as pa

from gapless.protocol.columns import compact
from gapless.protocol.errors import DecodeError, FrameError, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX, STREAM_END, BatchReader
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import msgpack_frames
from gapless.sidecar.gapless_pb2 import ENCODING_ARROW, ENCODING_MSGPACK, Encoding
from gapless.sidecar.gapless_pb2 import Frame as WireFrame
from gapless.sidecar.server.refusals import Refusal

ROWS_PER_FRAME = 65_536
"""Rows of a frame that we send: what is larger goes in several."""
BYTES_PER_FRAME = 8 << 20
"""Of such a frame: half of what a message may have, as the other encoding may need more."""
HELPS = 0.9
"""Cutting a frame helps where one half has less than this part of its bytes."""
SCHEMAS_KEPT = 256
"""Schemas whose encoded form is kept: more than one process meets."""


def to_wire(frame: Frame, encoding: Encoding = ENCODING_ARROW, sequence: int = 0) -> WireFrame:
    """The frame as a message."""
    body = b""
    if len(frame):
        msgpack = encoding == ENCODING_MSGPACK
        body = msgpack_frames.encode(frame) if msgpack else arrow_body(frame)
    return WireFrame(
        sequence=sequence,
        encoding=encoding,
        body=body,
        crc32=zlib.crc32(body),
        stable=frame.stable,
    )


def from_wire(message: WireFrame, schema: StreamSchema, rows_max: int = ROWS_MAX) -> Frame:
    """The inverse, of bytes from anybody. Raises `Refusal`."""
    body = message.body
    if message.HasField("crc32") and message.crc32 != zlib.crc32(body):
        raise Refusal(
            "DATA_LOSS",
            f"frame {message.sequence}: its checksum is {message.crc32:#010x}, that of the "
            f"{len(body)} bytes that came is {zlib.crc32(body):#010x}: send it again",
        )
    stable = message.stable if message.HasField("stable") else None
    try:
        if not body:
            return Frame.empty(schema, stable)
        if message.encoding == ENCODING_ARROW:
            batch = _reader(schema).read(pa.py_buffer(body), rows_max)
            return Frame(batch, stable, schema)
        if message.encoding == ENCODING_MSGPACK:
            return msgpack_frames.decode(body, schema, rows_max).with_stable(stable)
    except (DecodeError, FrameError, SchemaError) as e:
        raise Refusal("INVALID_ARGUMENT", f"frame {message.sequence}: {e}") from None
    raise Refusal(
        "INVALID_ARGUMENT",
        f"frame {message.sequence}: encoding {message.encoding}; 0 is Arrow, 1 is msgpack",
    )


def arrow_body(frame: Frame) -> bytes:
    """The rows of a frame as an Arrow IPC stream."""
    schema, batch = frame.schema, frame.batch
    reader = _reader(schema)
    if schema.can_shrink:
        columns = [compact(column) for column in batch.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=reader.schema)
        if reader.has_dictionaries:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, reader.schema) as writer:
                writer.write_batch(batch)
            data: bytes = sink.getvalue().to_pybytes()
            return data
    # The bytes of a stream at a third of the cost: the schema's message is known by heart.
    return b"".join((reader.schema_message, batch.serialize(), STREAM_END))


def cut(
    frame: Frame, rows_max: int = ROWS_PER_FRAME, bytes_max: int = BYTES_PER_FRAME
) -> list[Frame]:
    """The frame in pieces of so many rows and bytes at most, the stable behind the last. A row that
    is larger is a piece of its own.
    """
    rows = len(frame)
    if rows <= 1 or (rows <= rows_max and frame.nbytes <= bytes_max):
        return [frame]
    size = rows_max if rows > rows_max else rows // 2
    slices = [frame.slice(at, size) for at in range(0, rows, size)]
    if rows <= rows_max and min(s.nbytes for s in slices) > HELPS * frame.nbytes:
        return [frame]  # they share what is large: a dictionary, of which only what is used is sent
    pieces = [piece for s in slices for piece in cut(s, rows_max, bytes_max)]
    pieces[-1] = pieces[-1].with_stable(frame.stable)
    return pieces


@lru_cache(SCHEMAS_KEPT)
def _reader(schema: StreamSchema) -> BatchReader:
    return BatchReader(schema.arrow)
