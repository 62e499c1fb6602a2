"""Types are read as Arrow prints them, in every place where one is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.operators.aggregates import calls
from gapless.protocol.errors import GaplessError, SchemaError
from gapless.protocol.schema import StreamSchema
from gapless.protocol.schema_file import parse_schema_text
from gapless.protocol.type_text import CHARS_MAX, NESTING_MAX, type_of_text

LEAVES = [
    pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.binary(16), pa.date32(), pa.date64(), pa.time32("ms"),
    pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "+07:30"), pa.duration("us"),
    pa.decimal32(9, 2), pa.decimal64(18, -2), pa.decimal128(10, 2), pa.decimal256(76, 38),
    pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int64(), pa.decimal128(4, 1), True),
    pa.month_day_nano_interval(), pa.null(),
]  # fmt: skip
NAMES = st.text("abc_ äß9-", min_size=1, max_size=6).map(str.strip).filter(bool)


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.builds(pa.field, NAMES, inner, st.booleans())
    return (
        st.lists(fields, min_size=1, max_size=3, unique_by=lambda f: f.name).map(pa.struct)
        | st.builds(pa.list_, inner)
        | st.builds(pa.large_list, inner)
        | st.builds(lambda t: pa.list_(pa.field("item", t, False)), inner)
        | st.builds(lambda t: pa.list_(t, 3), inner)
        | st.builds(pa.map_, st.sampled_from(LEAVES[:5]), inner)
    )


TYPES = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=6)


@given(TYPES)
def test_every_type_is_read_back_as_it_is_printed(t: pa.DataType) -> None:
    assert type_of_text(str(t)) == t


@pytest.mark.parametrize(
    ("short", "t"),
    [
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("timestamp[ms,tz=UTC]", pa.timestamp("ms", "UTC")),
        ("dictionary<string>", pa.dictionary(pa.int32(), pa.string())),
        ("list<int32>", pa.list_(pa.int32())),
        ("list<list<timestamp[ms, tz=UTC]>>", pa.list_(pa.list_(pa.timestamp("ms", "UTC")))),
        (" struct<a: int32,b: string not null> ", pa.struct(
            [pa.field("a", pa.int32()), pa.field("b", pa.string(), False)])),
    ],
)  # fmt: skip
def test_shorter_forms_mean_the_same(short: str, t: pa.DataType) -> None:
    assert type_of_text(short) == t


@pytest.mark.parametrize(
    "text",
    ["", "int", "decimal128(99, 2)", "struct<>", "struct<int32>", "list<int32, int8>", "list<",
     "list<int32>[3]", "fixed_size_list<int32>", "map<int32>", "dictionary<indices=int32>",
     "dictionary<values=string, indices=string>", "a" * (CHARS_MAX + 1),
     "list<" * (NESTING_MAX + 2) + "int32" + ">" * (NESTING_MAX + 2), "struct<a: nope>",
     "timestamp[ms, tz=]", "dictionary<values=string, ordered=2>", "fixed_size_binary[-1]"],
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        type_of_text(text)


@given(st.text("list<>struc[]():, int32=dcay", max_size=40))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        assert type_of_text(str(type_of_text(text))) == type_of_text(text)
    except SchemaError:
        pass


WRITTEN = [
    "timestamp[ms, tz=UTC]",
    "decimal128(10, 2)",
    "fixed_size_binary[4]",
    "struct<a: int32, b: string not null>",
    "dictionary<values=string, indices=int32, ordered=0>",
]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_type_is_taken_wherever_one_is_written(written: str) -> None:
    t = type_of_text(written)
    assert StreamSchema({"x": written}).payload.field("x").type == t
    assert parse_schema_text(f'x = "{written}"', "toml").field("x").type == t
    assert parse_schema_text(f'{{"x": "{written} not null"}}', "json").field("x").type == t
    read = gl.source("s", {"ts": "timestamp[ms]", "x": written}, time="ts")
    assert read.schema.payload.field("x").type == t
    made = gl.function(lambda x: x, "x", returns=written)
    assert read.map(y=made).schema.payload.field("y").type == t


@pytest.mark.parametrize("written", ["timestamp[ms, tz=UTC]", "decimal128(10, 2)"])
def test_a_cast_takes_the_same_types(written: str) -> None:
    read = gl.source("s", {"ts": "timestamp[ms]", "x": "int64"}, time="ts")
    cast = read.map(y=gl.col("x").cast(written))
    assert cast.schema.payload.field("y").type == type_of_text(written)


def test_who_writes_no_type_is_told_the_column_and_how_types_look() -> None:
    with pytest.raises(GaplessError, match=r"column 'x'.*write it as Arrow prints it"):
        StreamSchema({"x": "varchar"})


def test_a_users_aggregate_declares_its_type_in_any_of_these_forms() -> None:
    made = calls.aggregate("v", max, returns="decimal128(10, 2)")
    assert made.result(pa.schema([("v", pa.int64())])) == pa.decimal128(10, 2)
    with pytest.raises(SchemaError, match="aggregate: Arrow knows no type 'flaot'"):
        calls.aggregate("v", max, returns="flaot")
