"""What is torn, damaged or hostile in an envelope gives a valid frame or an error that names it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.protocol.documents import pack
from gapless.protocol.envelope import (
    BODY_BYTES_MAX,
    decode_document,
    decode_frame,
    encode_frame,
    peek_header,
)
from gapless.protocol.errors import DecodeError, Truncated
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.protocol.envelopes import (
    BOTH,
    NUMBERS,
    PLAIN_FRAME,
    SCHEMA,
    SENDER,
    accept_or_refuse,
    body_of,
    resealed,
    sealed,
)

# -- damage ---------------------------------------------------------------------------------------


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
