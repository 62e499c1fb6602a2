"""Deliveries of one call become frames again: whole, and in order."""

from __future__ import annotations

import pytest

from gapless.protocol.errors import DecodeError, GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.assembly import Assembler
from gapless.sidecar.definition import schema_to_wire
from gapless.sidecar.frames import to_wire

SCHEMA = StreamSchema({"lease": "string"})
SUBSCRIBED = pb.Subscribed(schema=schema_to_wire(SCHEMA))


def frame(text: str) -> Frame:
    return Frame.from_elements(SCHEMA, parse(text, SCHEMA))


def delivery(*texts: str, token: str = "", more: bool = False) -> pb.Delivery:
    return pb.Delivery(frames=[to_wire(frame(text)) for text in texts], token=token, more=more)


def text_of(given: Frame) -> str:
    return format(given.elements())


def begun() -> Assembler:
    assembler = Assembler()
    assert assembler.take(pb.Delivery(subscribed=SUBSCRIBED)) is None
    return assembler


def test_the_first_delivery_gives_the_schema_and_no_frame() -> None:
    assembler = begun()
    assert assembler.schema == SCHEMA
    assert assembler.subscribed == SUBSCRIBED


def test_a_frame_that_comes_before_the_schema_is_refused() -> None:
    with pytest.raises(DecodeError, match="comes before"):
        Assembler().take(delivery("ins(A,1,2)", token="t"))


def test_one_delivery_is_a_whole_frame_with_its_token() -> None:
    taken = begun().take(delivery("ins(A,1,5) stable(1)", token="here"))
    assert taken is not None
    assert (text_of(taken.frame), taken.token) == ("ins(A,1,5) stable(1)", "here")
    assert not taken.reset


def test_nothing_is_given_before_the_last_part_and_then_all_parts_in_order() -> None:
    assembler = begun()
    assert assembler.take(delivery("ins(A,1,5)", more=True)) is None
    assert assembler.take(delivery("ins(B,2,5)", more=True)) is None
    taken = assembler.take(delivery("ins(C,3,5) stable(3)", token="behind"))
    assert taken is not None
    assert text_of(taken.frame) == "ins(A,1,5) ins(B,2,5) ins(C,3,5) stable(3)"
    assert taken.token == "behind"


def test_a_stable_counts_only_behind_the_last_part() -> None:
    """A part that carries one of its own must not promise anything about the parts behind it."""
    taken = begun().take(delivery("ins(A,1,5) stable(1)", "ins(B,1,9) stable(2)", token="t"))
    assert taken is not None
    assert text_of(taken.frame) == "ins(A,1,5) ins(B,1,9) stable(2)"


def test_no_row_of_one_frame_is_left_over_for_the_next() -> None:
    assembler = begun()
    assembler.take(delivery("ins(A,1,5)", more=True))
    assembler.take(delivery("ins(B,2,5)", token="1"))
    taken = assembler.take(delivery("ins(C,3,5)", token="2"))
    assert taken is not None
    assert text_of(taken.frame) == "ins(C,3,5)"


def test_a_reset_says_since_when_it_replaces() -> None:
    whole = delivery("ins(A,1,5) stable(3)", token="t")
    whole.reset, whole.since = True, 3
    taken = begun().take(whole)
    assert taken is not None
    assert (taken.reset, taken.since) == (True, 3)


def test_a_damaged_body_is_refused() -> None:
    whole = delivery("ins(A,1,5)", token="t")
    whole.frames[0].crc32 ^= 1
    with pytest.raises(GaplessError, match="checksum"):
        begun().take(whole)
