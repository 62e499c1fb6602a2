"""A view shows some columns and some rows of a stream, and every stable."""

from __future__ import annotations

import pytest

from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.views import FrameView, ViewKey

SCHEMA = StreamSchema({"src": "int32", "name": "string", "len": "int32"}, "us")
FRAME = Frame.from_elements(
    SCHEMA,
    parse("ins((1,a,10),1,5) ins((2,b,20),2,5) adj((1,a,10),1,5,3) stable(2)", SCHEMA),
)


def view(
    *columns: str, passes: str = "", encoding: int = pb.ENCODING_ARROW, columns_max: int = 8
) -> FrameView:
    return FrameView(SCHEMA, ViewKey(columns, passes, encoding), columns_max)


def seen(of: FrameView, frame: Frame = FRAME) -> str:
    return format(of.of(frame).elements())


def test_without_a_wish_all_is_seen_and_the_frame_is_the_same() -> None:
    assert view().of(FRAME) is FRAME
    assert view(passes="  ").of(FRAME) is FRAME


def test_columns_are_seen_in_the_order_in_which_they_are_named() -> None:
    found = view("len", "src")
    assert found.schema == StreamSchema({"len": "int32", "src": "int32"}, "us")
    assert seen(found) == "ins((10,1),1,5) ins((20,2),2,5) adj((10,1),1,5,3) stable(2)"


def test_a_filter_may_name_a_column_that_is_not_seen() -> None:
    assert seen(view("name", passes="src == 1")) == "ins(a,1,5) adj(a,1,5,3) stable(2)"


def test_a_stable_is_seen_also_where_no_row_is() -> None:
    assert seen(view(passes="src > 99")) == "stable(2)"


def test_a_row_of_which_the_filter_cannot_say_whether_it_passes_does_not() -> None:
    null = Frame.from_elements(SCHEMA, parse("ins((null,a,10),1,5) ins((1,b,20),1,5)", SCHEMA))
    assert seen(view(passes="src == 1"), null) == "ins((1,b,20),1,5)"


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (("src", "size"), "there is no column 'size'; there are src, name, len"),
        (("src", "src"), "each column is named once"),
        (("src", "name", "len"), "2 at most"),
    ],
)
def test_columns_that_cannot_be_shown_are_refused(columns: tuple[str, ...], says: str) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        view(*columns, columns_max=2)
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("condition", ["src =", "size > 1", "src"])
def test_a_filter_that_is_not_a_condition_on_the_columns_is_refused(condition: str) -> None:
    with pytest.raises(Refusal) as refused:
        view(passes=condition)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_an_encoding_that_is_not_one_is_refused() -> None:
    assert view(encoding=pb.ENCODING_MSGPACK).encoding == pb.ENCODING_MSGPACK
    with pytest.raises(Refusal, match="encoding 7"):
        view(encoding=7)


def test_a_row_on_which_the_filter_fails_raises_an_error_of_ours() -> None:
    zero = Frame.from_elements(SCHEMA, parse("ins((0,a,10),1,5)", SCHEMA))
    with pytest.raises(GaplessError):
        view(passes="len % src == 0").of(zero)
