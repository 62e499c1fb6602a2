"""Envelopes for tests: of two schemas, around any body, and with checksums that fit again."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gapless.protocol.elements import BEGIN, INF, Adjust, Insert
from gapless.protocol.envelope import (
    HEADER_BYTES,
    Incarnation,
    decode_frame,
)
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SENDER = Incarnation(3, 7)
SCHEMA = StreamSchema({"p": "int64"})
RICH = StreamSchema(
    pa.schema(
        [
            pa.field("text", pa.string()),
            pa.field("word", pa.dictionary(pa.int32(), pa.string())),
            pa.field("view", pa.string_view()),
            pa.field("price", pa.decimal128(5, 2), nullable=False),
            pa.field("pair", pa.struct([("x", pa.bool_()), pa.field("y", pa.date64(), False)])),
        ]
    ),
    "us",
)


def rows(schema: StreamSchema, *payloads: tuple[Any, ...]) -> Frame:
    elements = [Insert(p, i, INF) for i, p in enumerate(payloads)]
    last = Adjust(payloads[-1], len(payloads), INF, len(payloads) + 5)
    return Frame.from_elements(schema, [*elements, last]).with_stable(1)


PLAIN_FRAME = rows(SCHEMA, (1,), (None,), (3,))
RICH_FRAME = rows(
    RICH,
    ("héllo", "a", "a view that does not fit in twelve bytes", 1, (True, 86_400_000)),
    (None, None, "short", -2, None),
    ("", "b", None, 3, (None, 0)),
)


def sealed(body: bytes, schema: StreamSchema, stable: int = BEGIN, **header: Any) -> bytes:
    """An envelope around any body, as a peer makes one that computes its checksums well."""
    fields: dict[str, Any] = {
        "magic": b"GAPL", "version": 1, "kind": 1, "place": 0, "term": 3, "counter": 7,
        "sequence": 5, "stable": stable, "fingerprint": schema.fingerprint,
        "body_bytes": len(body), "padding": bytes(-len(body) % 64),
    } | header  # fmt: skip
    padded = body + fields.pop("padding")
    start = struct.pack("<4sBBHIIQq16sQI", *fields.values(), zlib.crc32(padded))
    data: bytes = start + struct.pack("<I", zlib.crc32(start)) + padded
    return data


def resealed(data: bytes) -> bytes:
    """The same envelope with checksums that fit what it now holds."""
    start = data[:56] + struct.pack("<I", zlib.crc32(data[HEADER_BYTES:]))
    return start + struct.pack("<I", zlib.crc32(start)) + data[HEADER_BYTES:]


def stream(
    batch: pa.RecordBatch, schema: pa.Schema | None = None, batches: int = 1, **options: Any
) -> bytes:
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(
        sink, schema or batch.schema, options=pa.ipc.IpcWriteOptions(**options)
    )
    with writer:
        for _ in range(batches):
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def body_of(frame: Frame) -> bytes:
    return stream(frame.batch)


def accept_or_refuse(data: bytes, schema: StreamSchema) -> bool:
    """Decodes what a hostile peer sent: a valid frame, or a `DecodeError` and nothing else."""
    try:
        frame = decode_frame(data, schema).frame
    except DecodeError:
        return False
    frame.batch.validate(full=True)
    assert frame.schema == schema
    assert Frame.from_elements(schema, frame.elements()) == frame
    return True


BOTH = pytest.mark.parametrize("frame", [PLAIN_FRAME, RICH_FRAME], ids=["plain", "rich"])


NUMBERS = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
