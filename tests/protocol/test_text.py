import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.protocol import text
from gapless.protocol.elements import INF, Adjust, Element, Insert, Stable
from gapless.protocol.errors import GaplessError, ParseError
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from tests.protocol.strategies import row_times, schemas, stables, values


@st.composite
def streams(draw: st.DrawFn) -> tuple[StreamSchema, list[Element]]:
    """Elements over any schema: each legal by itself."""
    schema = draw(schemas())
    elements: list[Element] = []
    for _ in range(draw(st.integers(0, 5))):
        vs, ve, was = draw(row_times())
        payload = tuple(draw(values(f.type, f.nullable)) for f in schema.payload)
        elements.append(Adjust(payload, vs, was, ve) if was > vs else Insert(payload, vs, ve))
        if (t := draw(stables())) is not None:
            elements.append(Stable(t))
    return schema, elements


@given(streams())
def test_format_and_parse_are_inverses_for_every_type(
    stream: tuple[StreamSchema, list[Element]],
) -> None:
    schema, elements = stream
    assert parse(format(elements), schema) == elements


@pytest.mark.parametrize(
    ("written", "element"),
    [
        ("ins(A,6,20)", Insert(("A",), 6, 20)),
        ("adj(A,6,20,30)", Adjust(("A",), 6, 20, 30)),
        ("stable(11)", Stable(11)),
        ("stable(inf)", Stable(INF)),
        ("ins(A,-6,inf)", Insert(("A",), -6, INF)),
        ('ins("a, (b)",6,20)', Insert(("a, (b)",), 6, 20)),
        ("ins(null,6,20)", Insert((None,), 6, 20)),
        ('ins("null",6,20)', Insert(("null",), 6, 20)),
    ],
)
def test_the_notation_of_the_documents(written: str, element: Element) -> None:
    assert parse(written) == [element]
    assert format([element]) == written


def test_spaces_and_lines_do_not_matter() -> None:
    assert parse(" ins ( A , 6 , 20 )\n\tstable( 3 )") == parse("ins(A,6,20) stable(3)")


@pytest.mark.parametrize(
    ("t", "written", "value"),
    [
        (pa.string(), "7", "7"),
        (pa.int64(), "7", 7),
        (pa.float64(), "7", 7.0),
        (pa.float64(), "-inf", -math.inf),
        (pa.float64(), "-0.0", 0.0),
        (pa.decimal128(5, 2), "7.50", Decimal("7.50")),
        (pa.bool_(), "true", True),
        (pa.binary(), "x'00ff'", b"\x00\xff"),
        (pa.timestamp("ms"), "1500", 1500),
        (pa.dictionary(pa.int32(), pa.string()), "A", "A"),
        (pa.struct({"a": pa.int8(), "b": pa.string()}), "{1,x}", (1, "x")),
    ],
)
def test_the_column_type_says_how_a_value_reads(t: pa.DataType, written: str, value: Any) -> None:
    schema = StreamSchema(pa.schema([("c", t)]))
    assert parse(f"ins({written},1,2)", schema) == [Insert((value,), 1, 2)]
    both = StreamSchema(pa.schema([("c", t), ("n", pa.int8())]))
    assert parse(f"ins(({written},1),1,2)", both) == [Insert((value, 1), 1, 2)]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("ins(A,6", "line 1, column 8: expected ',', found the end"),
        ("ins(A,6,20) foo", "column 13: expected ins(...), adj(...) or stable(...), found 'foo'"),
        ("stable(3)\n ins(A,20,6)", "line 2, column 2: insert with vs 20 and ve 6"),
        ('ins("A,6,2)', "column 5: a string or bytes that do not end"),
        ("ins(A,x,2)", "column 7: expected a time: an integer or inf, found 'x'"),
        ("stable(99999999999999999999)", "needs an int64 time"),
        ("ins(A,1_0,20)", "expected a time"),
        ('ins("\\ud800",1,2)', "expected a word or a JSON string"),
        ("ins((A,B),1,2)", "expected ')'"),
        ("stable(inf", "expected ')', found the end"),
        ("stable(begin)", "expected a time"),
    ],
)
def test_errors_say_where_and_what_was_expected(bad: str, says: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(bad)
    assert says in str(caught.value)


def test_an_error_in_a_payload_says_which_columns_it_has() -> None:
    with pytest.raises(ParseError, match=r"found ','; the payload has the columns p: string$"):
        parse("ins((x,-7),1,2)")
    wide = StreamSchema({"src": "string", "len": "int32"})
    with pytest.raises(ParseError, match=r"the payload has the columns src: string, len: int32$"):
        parse("ins(x,1,2)", wide)
    with pytest.raises(ParseError, match=r"found 'y'$"):
        parse("ins((x,7),y,2)", wide)


@pytest.mark.parametrize("word", ["NaN7", "1e999999999", "--1", "sNaN", "Infinity", "1" * 5000])
def test_words_that_are_no_numbers_are_typed_errors(word: str) -> None:
    for t in (pa.int64(), pa.decimal128(5, 2), pa.bool_()):
        with pytest.raises(ParseError):
            parse(f"ins({word},1,2)", StreamSchema(pa.schema([("c", t)])))


@given(st.text(st.sampled_from("insadjtble(){},\"'x0189 -.\\\n") | st.characters(), max_size=40))
@example('ins("\\')
def test_any_text_parses_or_is_a_typed_error(written: str) -> None:
    for schema in (DEFAULT_SCHEMA, StreamSchema({"a": pa.decimal128(5, 2), "b": "binary"})):
        try:
            elements = parse(written, schema)
        except GaplessError:
            continue
        assert parse(format(elements), schema) == elements


def test_too_much_text_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "TEXT_CHARS_MAX", 10)
    with pytest.raises(ParseError, match="at most 10"):
        parse("stable(100)")
