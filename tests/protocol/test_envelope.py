"""The envelope: there and back, and files of envelopes."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol import envelope
from gapless.protocol.columns import compact
from gapless.protocol.documents import Document
from gapless.protocol.envelope import (
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
from gapless.protocol.ipc_guard import METADATA_BYTES_MAX
from gapless.protocol.record_place import Place
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import payload_tuples
from tests.protocol.envelopes import (
    PLAIN_FRAME,
    RICH,
    RICH_FRAME,
    SCHEMA,
    SENDER,
    rows,
    stream,
)
from tests.protocol.strategies import documents, frames

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
