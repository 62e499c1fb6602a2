"""The envelope and the guard: there and back, and everything that a stranger may send instead."""

from __future__ import annotations

import contextlib
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.protocol import envelope, ipc_guard
from gapless.protocol.columns import compact
from gapless.protocol.documents import Document, pack
from gapless.protocol.elements import BEGIN, INF, Adjust, Insert
from gapless.protocol.envelope import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    Header,
    Incarnation,
    Kind,
    decode_document,
    decode_frame,
    decode_rows,
    encode_document,
    encode_frame,
    encode_rows,
    peek_header,
)
from gapless.protocol.errors import DecodeError, FrameError, Misuse, SchemaError, Truncated
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import METADATA_BYTES_MAX, ROWS_MAX, BatchReader, read_schema
from gapless.protocol.record_place import Place
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import payload_tuples
from tests.protocol.strategies import documents, frames, schemas

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


# -- there and back -------------------------------------------------------------------------------


@given(frames(), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_a_frame_of_every_type_comes_back_as_it_went(
    frame: Frame, term: int, counter: int, sequence: int
) -> None:
    data = encode_frame(frame, Incarnation(term, counter), sequence)
    back = decode_frame(data, frame.schema)
    assert back.incarnation == Incarnation(term, counter)
    assert back.sequence == sequence
    assert back.frame == frame
    assert back.frame.stable == frame.stable
    assert back.frame.batch.schema.equals(frame.schema.arrow, check_metadata=True)
    assert encode_frame(back.frame, Incarnation(term, counter), sequence) == data


@given(frames(), st.integers(0, 2**14 - 1), st.booleans(), st.booleans())
def test_rows_of_every_type_come_back_as_they_went(
    frame: Frame, partition: int, more: bool, follows_unsafe: bool
) -> None:
    rows, place = frame.payload, Place(partition, more, follows_unsafe)
    data = encode_rows(rows, frame.schema, SENDER, 9, frame.stable, place)
    back = decode_rows(data, frame.schema)
    assert (back.incarnation, back.sequence, back.stable) == (SENDER, 9, frame.stable)
    assert payload_tuples(back.batch) == payload_tuples(rows)
    assert peek_header(data).place == place
    with pytest.raises(DecodeError, match="kind: rows"):
        decode_frame(data, frame.schema)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_body_is_what_arrows_own_writer_makes(start: int) -> None:
    for frame in (PLAIN_FRAME, RICH_FRAME):
        part = frame.slice(start)
        size = peek_header(data := encode_frame(part, SENDER, 5)).body_bytes
        columns = [compact(column) for column in part.batch.columns]
        whole = pa.RecordBatch.from_arrays(columns, schema=frame.schema.arrow)
        assert data[HEADER_BYTES : HEADER_BYTES + size] == stream(whole)


def test_what_has_no_rows_has_no_body() -> None:
    for data in (
        encode_frame(Frame.empty(RICH, stable=7), SENDER, 1),
        encode_rows(RICH.empty_payload, RICH, SENDER, 1, 7),
    ):
        assert len(data) == HEADER_BYTES
        assert peek_header(data).stable == 7
    assert decode_frame(encode_frame(Frame.empty(RICH, 7), SENDER, 1), RICH).frame.stable == 7
    assert decode_rows(data, RICH).batch.num_rows == 0


def test_rows_have_no_null_where_none_may_be() -> None:
    strict = StreamSchema(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    batch = pa.RecordBatch.from_arrays([pa.array([1, None])], schema=strict.payload)
    with pytest.raises(DecodeError, match="nulls in a column"):
        decode_rows(encode_rows(batch, strict, SENDER, 1), strict)


def test_rows_of_another_schema_are_not_encoded() -> None:
    with pytest.raises(SchemaError, match="no payload"):
        encode_rows(RICH_FRAME.payload, SCHEMA, SENDER, 1)
    with pytest.raises(Misuse, match="partition 32768"):
        encode_rows(SCHEMA.empty_payload, SCHEMA, SENDER, 1, None, Place(1 << 15))


@given(documents(), st.integers(0, 2**64 - 1))
def test_a_document_comes_back_as_it_went(document: Document, sequence: int) -> None:
    data = encode_document(document, SENDER, sequence)
    back = decode_document(data)
    assert (back.incarnation, back.sequence, back.document) == (SENDER, sequence, document)


def test_the_bytes_are_the_same_in_every_release() -> None:
    header = encode_document({"a": 1}, Incarnation(3, 7), 5)[:HEADER_BYTES]
    assert header.hex() == (
        "4741504c01020000030000000700000005000000000000000000000000000080"
        + "00" * 16 + "0400000000000000" + "486aee2f25dfdf94"
    )  # fmt: skip


@pytest.mark.parametrize("frame", [PLAIN_FRAME, RICH_FRAME], ids=["plain", "rich"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_bytes_in_one_piece_will_do(kind: Callable[[bytes], Any], frame: Frame) -> None:
    data = kind(encode_frame(frame, SENDER, 5))
    assert decode_frame(data, frame.schema).frame == frame
    assert peek_header(data).sequence == 5


def test_a_mapped_file_is_read_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "frames"
    path.write_bytes(encode_document(None, SENDER, 1) + encode_frame(RICH_FRAME, SENDER, 2))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        start = peek_header(view).envelope_bytes
        frame = decode_frame(view[start:], RICH).frame
        assert frame == RICH_FRAME
        base = np.frombuffer(mapped, np.uint8).ctypes.data
        for column in frame.batch.columns[:3]:
            assert base <= column.buffers()[1].address < base + len(mapped)
            assert column.buffers()[1].address % 8 == 0
        del frame, column, view


def test_incarnations_are_ordered_by_term_and_then_counter() -> None:
    assert Incarnation(1, 9) < Incarnation(2, 0) < Incarnation(2, 1)
    assert str(Incarnation(2, 1)) == "2.1"
    for wrong in ((-1, 0), (2**32, 0), (0, 2**32)):
        with pytest.raises(Misuse, match="incarnation"):
            Incarnation(*wrong)


def test_what_could_not_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misuse, match="sequence"):
        encode_frame(PLAIN_FRAME, SENDER, 2**64)
    monkeypatch.setattr(envelope, "BODY_BYTES_MAX", 100)
    with pytest.raises(Misuse, match="100 is the most"):
        encode_frame(PLAIN_FRAME, SENDER, 1)
    monkeypatch.setattr(envelope, "ROWS_MAX", 2)
    with pytest.raises(FrameError, match="2 is the most"):
        encode_frame(PLAIN_FRAME, SENDER, 1)


def test_a_schema_whose_messages_are_too_large_is_refused_before_it_is_used() -> None:
    huge = StreamSchema({"x" * METADATA_BYTES_MAX: "int8"})
    with pytest.raises(SchemaError, match="too large to be sent"):
        encode_frame(Frame.empty(huge), SENDER, 1)


def test_a_slice_is_sent_without_its_parent() -> None:
    names = [f"a name of some length, number {i}" for i in range(5_000)]
    payload = [(n, n[-2:], n, 1, (True, 0)) for n in names]
    whole = rows(RICH, *payload)
    part = whole.slice(2_000, 4)
    data = encode_frame(part, SENDER, 1)
    alone = encode_frame(rows(RICH, *payload[2_000:2_003]), SENDER, 1)
    assert len(data) <= len(alone) + 256
    assert decode_frame(data, RICH).frame == part


# -- files of envelopes ---------------------------------------------------------------------------


def walk(data: bytes) -> Iterator[tuple[int, Header]]:
    offset = 0
    while offset < len(data):
        header = peek_header(data, offset)
        if offset + header.envelope_bytes > len(data):
            raise Truncated("body", "torn", header.envelope_bytes)
        yield offset, header
        offset += header.envelope_bytes


FILE = (
    encode_document({"epoch": 1}, SENDER, 0)
    + encode_frame(PLAIN_FRAME, SENDER, 1)
    + encode_frame(Frame.empty(SCHEMA), SENDER, 2)
    + encode_document("x" * 100, SENDER, 3)
)


def test_a_file_is_walked_from_header_to_header() -> None:
    seen = list(walk(FILE))
    assert [h.sequence for _, h in seen] == [0, 1, 2, 3]
    assert [h.kind for _, h in seen] == [Kind.DOCUMENT, Kind.FRAME, Kind.FRAME, Kind.DOCUMENT]
    assert [h.stable for _, h in seen] == [None, 1, None, None]
    assert all(offset % HEADER_BYTES == 0 for offset, _ in seen)
    offset, header = seen[1]
    assert decode_frame(FILE[offset : offset + header.envelope_bytes], SCHEMA).frame == PLAIN_FRAME


@given(st.integers(0, len(FILE)))
def test_a_file_cut_anywhere_is_whole_up_to_the_cut_and_then_torn(cut: int) -> None:
    ends = [offset + h.envelope_bytes for offset, h in walk(FILE)]
    seen = []
    try:
        for offset, _ in walk(FILE[:cut]):
            seen.append(offset)
    except Truncated:
        assert cut not in ends
    assert len(seen) == sum(end <= cut for end in ends)


def test_a_damaged_length_is_damage_and_no_torn_tail() -> None:
    for at in range(HEADER_BYTES):
        damaged = bytearray(FILE)
        damaged[at] ^= 0x80
        with pytest.raises(DecodeError) as caught:
            list(walk(bytes(damaged)))
        assert not isinstance(caught.value, Truncated)


# -- damage ---------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("frame", [PLAIN_FRAME, RICH_FRAME], ids=["plain", "rich"])


@BOTH
def test_cut_at_every_byte_it_is_truncated(frame: Frame) -> None:
    data = encode_frame(frame, SENDER, 5)
    for end in range(len(data)):
        with pytest.raises(Truncated):
            decode_frame(data[:end], frame.schema)


@BOTH
def test_a_bit_flipped_in_any_byte_is_caught(frame: Frame) -> None:
    data = encode_frame(frame, SENDER, 5)
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        with pytest.raises(DecodeError):
            decode_frame(flipped, frame.schema)


@BOTH
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_any_byte_changed_by_a_peer_that_fixes_the_checksums_gives_a_frame_or_an_error(
    frame: Frame, mask: int
) -> None:
    data = encode_frame(frame, SENDER, 5)
    accepted = 0
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= mask
        accepted += accept_or_refuse(resealed(bytes(changed)), frame.schema)
    assert 0 < accepted < len(data)  # it is not the checksums that refuse, nor is all refused


NUMBERS = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])


@BOTH
@given(data=st.data())
def test_hostile_numbers_anywhere_give_a_frame_or_an_error(
    frame: Frame, data: st.DataObject
) -> None:
    sent = bytearray(encode_frame(frame, SENDER, 5))
    for _ in range(data.draw(st.integers(1, 3))):
        size = data.draw(st.sampled_from([2, 4, 8]))
        at = data.draw(st.integers(6, (len(sent) - size) // size)) * size
        number = data.draw(NUMBERS | st.integers(0, 300)) % 2 ** (8 * size)
        sent[at : at + size] = number.to_bytes(size, "little")
    accept_or_refuse(resealed(bytes(sent)), frame.schema)


@given(st.binary(max_size=400))
@example(b"")
def test_any_body_in_a_good_envelope_gives_a_frame_or_an_error(body: bytes) -> None:
    accept_or_refuse(sealed(body, SCHEMA), SCHEMA)


@given(st.binary(max_size=200))
def test_any_bytes_at_all_are_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_frame(data, SCHEMA)
    with pytest.raises(DecodeError):
        decode_document(data)


# -- headers --------------------------------------------------------------------------------------

GOOD = body_of(PLAIN_FRAME)
HEADERS: dict[str, tuple[bytes, str]] = {
    "magic": (sealed(GOOD, SCHEMA, magic=b"PAR1"), "magic"),
    "version": (sealed(GOOD, SCHEMA, version=2), "version: 2"),
    "kind unknown": (sealed(GOOD, SCHEMA, kind=9), "kind: 9"),
    "kind document": (sealed(GOOD, SCHEMA, kind=2), "kind: document"),
    "kind rows": (sealed(GOOD, SCHEMA, kind=3), "kind: rows"),
    "fingerprint": (sealed(GOOD, StreamSchema({"q": "int64"})), "schema fingerprint"),
    "length far": (sealed(GOOD, SCHEMA, body_bytes=2**64 - 1), f"<= {BODY_BYTES_MAX}"),
    "length beyond": (sealed(GOOD, SCHEMA, body_bytes=len(GOOD) + 640), "body: .* bytes"),
    "length short": (sealed(GOOD, SCHEMA, body_bytes=len(GOOD) - 64), "envelope"),
    "padding": (sealed(pack([]), SCHEMA, padding=b"\x01" * 63), "padding"),
    "trailing": (sealed(GOOD, SCHEMA) + bytes(64), "envelope"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "said"), HEADERS.values(), ids=HEADERS)
def test_a_wrong_header_is_named(data: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        decode_frame(data, SCHEMA)


def test_the_good_body_is_good() -> None:
    assert decode_frame(sealed(GOOD, SCHEMA), SCHEMA).frame.elements() == (
        PLAIN_FRAME.with_stable(None).elements()
    )


def test_the_bounds_are_the_callers_to_set() -> None:
    data = encode_frame(PLAIN_FRAME, SENDER, 5)
    decode_frame(data, SCHEMA, max_rows=4)
    with pytest.raises(DecodeError, match=r"4 rows .*0 to 3"):
        decode_frame(data, SCHEMA, max_rows=3)
    size = peek_header(data).body_bytes
    decode_frame(data, SCHEMA, max_bytes=size)
    with pytest.raises(DecodeError) as caught:
        decode_frame(data, SCHEMA, max_bytes=size - 1)
    assert caught.value.field == "body bytes"


def test_a_document_has_neither_stable_nor_schema() -> None:
    nothing = bytes(16)
    body = pack({"a": 1})
    good = sealed(body, SCHEMA, kind=2, fingerprint=nothing)
    assert decode_document(good).document == {"a": 1}
    for wrong in (
        sealed(body, SCHEMA, kind=2),
        sealed(body, SCHEMA, stable=4, kind=2, fingerprint=nothing),
    ):
        with pytest.raises(DecodeError, match="neither"):
            decode_document(wrong)
    with pytest.raises(DecodeError, match="place: 0x1 of a document"):
        decode_document(sealed(body, SCHEMA, kind=2, place=1, fingerprint=nothing))
    with pytest.raises(DecodeError, match="kind: frame"):
        decode_document(encode_frame(PLAIN_FRAME, SENDER, 1))


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
