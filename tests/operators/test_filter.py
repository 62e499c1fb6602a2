import pytest

from gapless.operators.filter import Filter
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse

SCHEMA = StreamSchema({"src": "string", "len": "int32"})


def test_rows_that_hold_pass_in_order_with_the_stable() -> None:
    where = Filter(SCHEMA, col("len") > 2)
    text = "ins((A,3),1,5) ins((B,1),2,5) adj((A,3),1,5,6) ins((C,null),2,5) stable(1)"
    out = where.push(0, Frame.from_elements(SCHEMA, parse(text, SCHEMA))).frame
    assert format(out.elements()) == "ins((A,3),1,5) adj((A,3),1,5,6) stable(1)"


def test_a_frame_that_passes_whole_is_passed_on_as_it_is() -> None:
    frame = Frame.from_elements(SCHEMA, parse("ins((A,3),1,5) stable(1)", SCHEMA))
    assert Filter(SCHEMA, col("len") > 2).push(0, frame).frame is frame


def test_what_gives_no_truth_value_is_refused_when_it_is_made() -> None:
    with pytest.raises(ExpressionError):
        Filter(SCHEMA, col("len") + 1)
    with pytest.raises(ExpressionError):
        Filter(SCHEMA, col("width") > 1)
