"""Schemas in files: TOML and JSON say the same, what Arrow prints is read, mistakes are named."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from gapless.protocol.errors import ParseError, SchemaError
from gapless.protocol.schema_file import KINDS, TEXT_CHARS_MAX, parse_schema_text

TYPES = [
    pa.int8(),
    pa.uint64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.binary(16),
    pa.date32(),
    pa.time64("us"),
    pa.duration("ms"),
    pa.timestamp("ms"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("s", "Europe/Berlin"),
    pa.timestamp("ns", "+02:00"),
    pa.decimal128(10, 2),
    pa.decimal256(40, -3),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int32(), pa.timestamp("ms")),
]


def text_of(columns: dict[str, str], kind: str) -> str:
    if kind == "json":
        return json.dumps(columns)
    return "".join(f"{name} = {json.dumps(text)}\n" for name, text in columns.items())


@pytest.mark.parametrize("kind", KINDS.values())
def test_what_arrow_prints_is_read_in_its_order(kind: str) -> None:
    columns = {f"c{i}": str(t) for i, t in enumerate(TYPES)}
    expected = pa.schema([pa.field(f"c{i}", t) for i, t in enumerate(TYPES)])
    assert parse_schema_text(text_of(columns, kind), kind).equals(expected)
    last_first = dict(reversed(columns.items()))
    assert parse_schema_text(text_of(last_first, kind), kind).names == list(last_first)


def test_a_column_may_refuse_nulls_and_a_table_is_a_struct() -> None:
    expected = pa.schema(
        [
            pa.field("src", pa.int32(), nullable=False),
            pa.field("at", pa.struct([pa.field("lat", pa.float64(), nullable=False)])),
            pa.field("word", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    toml = 'src = "int32 not null"\nat = { lat = "double not null" }\nword = "dictionary<string>"'
    assert parse_schema_text(toml, "toml").equals(expected)
    columns = {
        "src": "int32 not null",
        "at": {"lat": "double not null"},
        "word": str(expected[2].type),
    }
    assert parse_schema_text(json.dumps(columns), "json").equals(expected)


@pytest.mark.parametrize(
    ("text", "kind", "error", "said"),
    [
        ("ts = ", "toml", ParseError, "no TOML"),
        ('ts = "int32"\nts = "int64"', "toml", ParseError, "no TOML"),
        ("{", "json", ParseError, "no JSON"),
        ("[]", "json", ParseError, "an object"),
        ('{"ts": "int32", "ts": "int64"}', "json", ParseError, "'ts' comes twice"),
        ("[" * 100_000, "json", ParseError, "no JSON"),
        (" " * (TEXT_CHARS_MAX + 1), "toml", ParseError, "at most"),
        ("", "toml", SchemaError, "1 to 4096 columns"),
        ('{"ts": "time"}', "json", SchemaError, "'ts': Arrow knows no type 'time'"),
        ('{"ts": 7}', "json", SchemaError, "'ts': its type is 7"),
        ('{"a": {"b": "int"}}', "json", SchemaError, "'a.b': Arrow knows no type 'int'"),
        ('{"a": {}}', "json", SchemaError, "without fields"),
        ('{"a": "decimal128(50, 2)"}', "json", SchemaError, "'a'"),
        ('{"_a": "int32"}', "json", SchemaError, "do not start with _"),
        ('{"a": "map<int32, int8>"}', "json", SchemaError, "'a': type map<.*> is not supported"),
        ("", "yaml", ParseError, "toml, json"),
    ],
)  # fmt: skip
def test_mistakes_are_named(text: str, kind: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        parse_schema_text(text, kind)


def test_structs_inside_structs_have_a_bound() -> None:
    deep = '{"a":' * 40 + '"int32"' + "}" * 40
    with pytest.raises(SchemaError, match="nest deeper"):
        parse_schema_text(deep, "json")
