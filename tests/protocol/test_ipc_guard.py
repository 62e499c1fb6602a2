"""Arrow bytes from anybody: no body that breaks a rule, costs much, or nests without end passes."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol import ipc_guard
from gapless.protocol.elements import Insert
from gapless.protocol.envelope import (
    decode_frame,
)
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX, BatchReader, read_schema
from gapless.protocol.schema import StreamSchema
from tests.protocol.envelopes import (
    NUMBERS,
    PLAIN_FRAME,
    RICH,
    RICH_FRAME,
    SCHEMA,
    body_of,
    sealed,
    stream,
)
from tests.protocol.strategies import schemas

# -- Arrow bodies -----------------------------------------------------------------------------


def altered(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    arrays = [columns.get(name, batch.column(name)) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def unsafe(t: pa.DataType, length: int, *buffers: bytes | None) -> pa.Array:
    """An array that Arrow would not make."""
    return pa.Array.from_buffers(
        t, length, [None if b is None else pa.py_buffer(b) for b in buffers]
    )


def rich_with(**columns: pa.Array) -> bytes:
    return stream(altered(RICH_FRAME.batch, **columns))


def null_in_required_struct() -> bytes:
    loose = pa.schema([f if f.name != "pair" else pa.field("pair", LOOSE_PAIR) for f in RICH.arrow])
    column = pa.array([{"x": True, "y": None}] * 4, LOOSE_PAIR)
    columns = [column if f.name == "pair" else RICH_FRAME.batch.column(f.name) for f in loose]
    honest = stream(RICH_FRAME.batch)
    sent = stream(pa.RecordBatch.from_arrays(columns, schema=loose))
    ours, theirs = RICH.arrow.serialize().size, loose.serialize().size
    return honest[:ours] + sent[theirs:]


ONE = np.array([1])
LOOSE_PAIR = pa.struct([("x", pa.bool_()), ("y", pa.date64())])
FOUR_NULLS = pa.array([None] * 4, pa.int64())
BAD_UTF8 = unsafe(pa.string(), 4, None, struct.pack("<5i", 0, 2, 2, 2, 2), b"\xff\xfe")
RICH_BODY = body_of(RICH_FRAME)
OFFSETS = struct.pack("<5i", 0, 6, 6, 6, 6)  # of the column `text`, as they lie in the body
FAR_OFFSETS = struct.pack("<5i", 0, 6, 6, 6, 2**30)
BACK_OFFSETS = struct.pack("<5i", 0, 6, 1, 6, 6)
FAR_INDEX = pa.DictionaryArray.from_arrays(
    pa.array([0, 1, 99, 0], pa.int8()), pa.array(["a", "b"]), safe=False
)
BAD_WORDS = pa.DictionaryArray.from_arrays(pa.array([0] * 4, pa.int8()), BAD_UTF8.slice(0, 1))
FAR_VIEW = struct.pack("<i4sii", 40, b"a vi", 7, 9)
NEAR_VIEW = struct.pack("<i4sii", 40, b"a vi", 0, 0)
BAD_VIEW = unsafe(pa.string_view(), 4, None, struct.pack("<i12s", 2, b"\xff\xfe") * 4)
WIDE_DECIMAL = unsafe(pa.decimal128(5, 2), 4, None, (10**6).to_bytes(16, "little") * 4)
HALF_A_DAY = pa.StructArray.from_arrays(
    [pa.array([True] * 4), pa.array([5] * 4, pa.int64()).view(pa.date64())],
    fields=list(RICH.payload.field("pair").type),
)

BODIES: dict[str, tuple[bytes, str]] = {
    "invalid UTF-8": (rich_with(text=BAD_UTF8), "UTF8"),
    "invalid UTF-8 in a dictionary": (rich_with(word=BAD_WORDS), "UTF8"),
    "invalid UTF-8 in a view": (rich_with(view=BAD_VIEW), "UTF8"),
    "offsets beyond the data": (RICH_BODY.replace(OFFSETS, FAR_OFFSETS), "Arrow says"),
    "offsets that go back": (RICH_BODY.replace(OFFSETS, BACK_OFFSETS), "Arrow says"),
    "a view into no buffer": (RICH_BODY.replace(NEAR_VIEW, FAR_VIEW), "Arrow says"),
    "an index outside its dictionary": (rich_with(word=FAR_INDEX), "Arrow says"),
    "a decimal wider than its type": (rich_with(price=WIDE_DECIMAL), "Arrow says"),
    "a date64 that is no whole day": (rich_with(pair=HALF_A_DAY), "whole number of days"),
    "a null inside a struct that forbids it": (null_in_required_struct(), "y: nulls"),
    "another type": (stream(RICH_FRAME.batch.drop_columns(["text"])), "schema"),
    "two batches": (stream(RICH_FRAME.batch, batches=2), "after the record batch"),
    "no batch": (stream(RICH_FRAME.batch, batches=0), "no record batch"),
    "a second stream": (body_of(RICH_FRAME) * 2, "after its end"),
    "no end mark": (body_of(RICH_FRAME)[:-8], "end mark"),
    "no schema": (
        body_of(RICH_FRAME)[RICH.arrow.serialize().size :], "message type: dictionary batch at 0"
    ),
    "two schemas": (RICH.arrow.serialize().to_pybytes() + body_of(RICH_FRAME), "one schema, first"),
    "an older message format": (body_of(RICH_FRAME)[4:], "message: starts with"),
    "an older version": (
        stream(RICH_FRAME.batch, metadata_version=pa.ipc.MetadataVersion.V4), "version: 3"
    ),
    "zstd": (stream(RICH_FRAME.batch, compression="zstd"), "compression"),
    "lz4": (stream(RICH_FRAME.batch, compression="lz4"), "compression"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "said"), BODIES.values(), ids=BODIES)
def test_a_wrong_body_is_named(body: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        decode_frame(sealed(body, RICH), RICH)


def test_rows_that_break_a_frames_rules_are_refused() -> None:
    batch = PLAIN_FRAME.batch
    with pytest.raises(DecodeError, match="rows: row 0"):
        decode_frame(sealed(stream(altered(batch, _ve=batch.column("_vs"))), SCHEMA), SCHEMA)
    with pytest.raises(DecodeError, match="_was: 4 nulls"):
        decode_frame(sealed(stream(altered(batch, _was=FOUR_NULLS)), SCHEMA), SCHEMA)


def test_a_message_with_metadata_of_its_own_is_refused() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA.arrow) as writer:
        writer.write_batch(PLAIN_FRAME.batch, custom_metadata={"a": "b"})
    with pytest.raises(DecodeError, match="message: field 4 is not known"):
        decode_frame(sealed(sink.getvalue().to_pybytes(), SCHEMA), SCHEMA)


def test_a_schemas_metadata_is_ours_whatever_the_stream_says() -> None:
    noted = [f.with_metadata({"PARQUET:field_id": "1"}) for f in SCHEMA.arrow]
    foreign = pa.schema(noted, {"pandas": "{}", "gapless.time_unit": "s"})
    body = stream(PLAIN_FRAME.batch, foreign)
    frame = decode_frame(sealed(body, SCHEMA), SCHEMA).frame
    assert frame.batch.schema.equals(SCHEMA.arrow, check_metadata=True)


def test_a_dictionary_sent_in_pieces_is_refused() -> None:
    schema = StreamSchema({"w": pa.dictionary(pa.int32(), pa.string())})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, schema.arrow, options=options) as writer:
        for words in (["a"], ["a", "b"]):
            indices = pa.array([len(words) - 1], pa.int8())
            column = pa.DictionaryArray.from_arrays(indices, pa.array(words))
            writer.write_batch(Frame.from_columns(schema, ONE, ONE + 1, [column]).batch)
    sent = sink.getvalue().to_pybytes()
    starts = [start for start, _, _ in ipc_guard._messages(memoryview(sent))]
    head, whole, first, delta, second = map(
        sent.__getitem__, map(slice, starts, [*starts[1:], len(sent)])
    )
    for pieces, said in (
        ((head, delta, second), "is a delta"),
        ((head, whole, whole, second), "dictionary batches: 2 come"),
        ((head, whole, first, delta, second), "after the record batch"),
    ):
        with pytest.raises(DecodeError, match=said):
            decode_frame(sealed(b"".join(pieces), schema), schema)
    good = sealed(head + whole + first + sent[-8:], schema)
    assert decode_frame(good, schema).frame.elements() == [Insert(("a",), 1, 2)]


# -- bombs ----------------------------------------------------------------------------------------


def peak_bytes(run: Callable[[], object]) -> int:
    """The most that Arrow had allocated while `run` ran, which must raise `DecodeError`."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(DecodeError):
            run()
    finally:
        pa.set_memory_pool(before)
    return int(pool.max_memory())


def test_a_decompression_bomb_is_never_decompressed() -> None:
    zeros = np.zeros(ROWS_MAX, np.int64)
    bomb = pa.RecordBatch.from_arrays([pa.array(zeros)] * 4, schema=SCHEMA.arrow)
    body = stream(bomb, compression="zstd")
    assert len(body) < 10_000
    assert peak_bytes(lambda: decode_frame(sealed(body, SCHEMA), SCHEMA)) < 100_000


def test_a_claim_of_many_rows_is_refused_before_arrow_hears_of_it() -> None:
    zeros = np.zeros(ROWS_MAX + 1, np.int8)
    many = StreamSchema({"p": "int8"})
    columns = [pa.array(zeros.astype(np.int64))] * 3 + [pa.array(zeros)]
    body = stream(pa.RecordBatch.from_arrays(columns, schema=many.arrow))
    with pytest.raises(DecodeError, match=f"{ROWS_MAX + 1} rows"):
        decode_frame(sealed(body, many), many)


def shared_schema(children: int, uses: int) -> bytes:
    """A schema message in which each of `uses` fields refers to the same wide struct."""
    wide = pa.struct([(f"c{i}", pa.int8()) for i in range(children)])
    schema = pa.schema([("s", wide)] + [(f"x{i}", pa.int8()) for i in range(uses)])
    message = bytearray(schema.serialize().to_pybytes())
    metadata = memoryview(message)[8:]
    root = ipc_guard._Table(metadata, struct.unpack_from("<I", metadata)[0], 4, "message")
    fields = root.table(2, 5, "schema").reference(1)
    first = fields + 4 + struct.unpack_from("<I", metadata, fields + 4)[0]
    for i in range(uses + 1):
        at = fields + 4 + 4 * i
        if first > at:
            struct.pack_into("<I", metadata, at, first - at)
    metadata.release()
    return bytes(message)


def test_a_schema_that_repeats_its_parts_by_reference_is_refused() -> None:
    message = shared_schema(children=1_000, uses=500)
    with pytest.raises(DecodeError, match="more than once"):
        read_schema(message)
    body = message + body_of(PLAIN_FRAME)[SCHEMA.arrow.serialize().size :]
    assert peak_bytes(lambda: decode_frame(sealed(body, SCHEMA), SCHEMA)) < 100_000


def test_a_schema_that_nests_without_end_is_refused() -> None:
    t: pa.DataType = pa.int8()
    for _ in range(ipc_guard.NESTING_MAX + 1):
        t = pa.struct([("x", t)])
    with pytest.raises(DecodeError, match="nest too deep"):
        read_schema(pa.schema([("x", t)]).serialize().to_pybytes())


class _Trap(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """An extension type that must never be asked."""

    asked = False

    def __init__(self) -> None:
        super().__init__(pa.int64(), "gapless.tests.trap")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, *_: object) -> _Trap:
        cls.asked = True
        return _Trap()


def test_an_extension_type_is_refused_before_its_class_is_asked() -> None:
    schema = pa.schema([*list(SCHEMA.arrow)[:3], ("p", _Trap())])
    storage = PLAIN_FRAME.batch.column("p")
    column = pa.ExtensionArray.from_storage(_Trap(), storage)
    batch = pa.RecordBatch.from_arrays([*PLAIN_FRAME.batch.columns[:3], column], schema=schema)
    body = stream(batch)
    pa.register_extension_type(_Trap())
    try:
        message = schema.serialize().to_pybytes()
        _Trap.asked = False
        with pytest.raises(DecodeError, match="extension type"):
            decode_frame(sealed(body, SCHEMA), SCHEMA)
        with pytest.raises(DecodeError, match="extension type"):
            read_schema(message)
        assert not _Trap.asked
        pa.ipc.read_schema(pa.py_buffer(message))
        assert _Trap.asked  # so the trap works
    finally:
        pa.unregister_extension_type("gapless.tests.trap")


# -- the guard alone ------------------------------------------------------------------------------


@given(schemas())
def test_a_schema_message_comes_back_as_it_went(schema: StreamSchema) -> None:
    data = schema.arrow.serialize().to_pybytes()
    assert read_schema(data).equals(schema.arrow, check_metadata=True)
    for end in range(0, len(data), 7):
        with pytest.raises(DecodeError):
            read_schema(data[:end])


@given(st.data(), schemas())
def test_a_schema_message_with_any_number_changed_is_a_schema_or_an_error(
    data: st.DataObject, schema: StreamSchema
) -> None:
    message = bytearray(schema.arrow.serialize().to_pybytes())
    at = data.draw(st.integers(0, len(message) // 4 - 1)) * 4
    number = data.draw(NUMBERS | st.integers(0, 300)) % 2**32
    message[at : at + 4] = number.to_bytes(4, "little")
    with contextlib.suppress(DecodeError):
        assert isinstance(read_schema(bytes(message)), pa.Schema)


def test_a_schema_written_otherwise_is_read_as_well() -> None:
    """What is not byte for byte our own writer's takes the longer way, and arrives."""
    foreign = pa.schema(list(RICH.arrow), {"written": "elsewhere"})
    body = stream(RICH_FRAME.batch, foreign)
    reader = BatchReader(RICH.arrow)
    assert not body.startswith(RICH.arrow.serialize().to_pybytes())
    assert reader.read(pa.py_buffer(body)).equals(RICH_FRAME.batch)
