"""Schemas in files of their own, as people write them: TOML or JSON, a column and its Arrow type.

    ts  = "timestamp[ms]"                    {"ts": "timestamp[ms]",
    src = "int32 not null"                    "src": "int32 not null",
    at  = { lat = "double", lon = "double" }  "at": {"lat": "double", "lon": "double"}}

The order of the columns is the file's. A type is written as Arrow prints it; a table is a struct.
Beyond Arrow's own short names these are known: `timestamp[us, tz=UTC]`, `decimal128(10, 2)`,
`fixed_size_binary[16]`, and `dictionary<string>`, whose indices have 32 bits.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from gapless.protocol.errors import ParseError, SchemaError
from gapless.protocol.schema import NESTING_MAX, StreamSchema

KINDS: Mapping[str, str] = {".toml": "toml", ".json": "json"}
"""How a schema file's name ends, and what `kind` that is."""
TEXT_CHARS_MAX = 1 << 20
"""Of a schema file: 4,096 columns with long names are a fifth of it."""

_NOT_NULL = " not null"
_WRITTEN = 'write Arrow\'s name of it, such as "int32", "string" or "timestamp[ms]"'


def parse_schema_text(text: str, kind: str) -> pa.Schema:
    """The schema that a file says; `kind` is one of `KINDS`.

    Raises `ParseError` where the text is none of its kind, `SchemaError` where a type is unknown
    or cannot stand in a stream; both name the column.
    """
    if kind not in KINDS.values():
        raise ParseError(f"schema kind {kind!r}: one of {', '.join(KINDS.values())}")
    if len(text) > TEXT_CHARS_MAX:
        raise ParseError(f"a schema of {len(text)} characters: at most {TEXT_CHARS_MAX}")
    try:
        document = tomllib.loads(text) if kind == "toml" else _json(text)
    except (ValueError, RecursionError) as e:
        raise ParseError(f"the schema is no {kind.upper()}: {e}") from None
    if not isinstance(document, dict):
        raise ParseError("the schema is to be an object: a name and a type for each column")
    schema = pa.schema(_fields(document, ""))
    StreamSchema(schema)
    return schema


def parse_type(column: str, written: str) -> pa.DataType:
    """The type that a column is said to have, as in a file. Raises `SchemaError`."""
    return _type(column, written)


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, written in pairs:
        if name in columns:
            raise ValueError(f"column {name!r} comes twice")
        columns[name] = written
    return columns


def _fields(columns: Mapping[str, Any], inside: str, depth: int = 0) -> list[pa.Field]:
    if depth > NESTING_MAX:
        raise SchemaError(f"column {inside!r}: structs nest deeper than {NESTING_MAX} levels")
    fields = []
    for name, written in columns.items():
        path = f"{inside}.{name}" if inside else name
        if isinstance(written, dict):
            fields.append(pa.field(name, pa.struct(_fields(written, path, depth + 1))))
        elif isinstance(written, str):
            spelt = written.strip()
            nullable = not spelt.endswith(_NOT_NULL)
            fields.append(
                pa.field(name, _type(path, spelt.removesuffix(_NOT_NULL).strip()), nullable)
            )
        else:
            raise SchemaError(f"column {path!r}: its type is {written!r}: {_WRITTEN}")
    return fields


def _type(path: str, written: str) -> pa.DataType:
    try:
        return pa.type_for_alias(written)
    except ValueError:
        pass  # a type with parameters has no short name
    for form, made in _FORMS:
        match = form.fullmatch(written)
        if match is not None:
            try:
                return made(path, *match.groups())
            except (ValueError, pa.ArrowException) as e:
                raise SchemaError(f"column {path!r}: type {written!r}: {e}") from None
    raise SchemaError(f"column {path!r}: Arrow knows no type {written[:50]!r}: {_WRITTEN}")


def _timestamp(_: str, unit: str, zone: str) -> pa.DataType:
    return pa.timestamp(unit, zone)


def _decimal(_: str, bits: str, digits: str, scale: str) -> pa.DataType:
    make = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}
    return make[bits](int(digits), int(scale))


def _binary(_: str, size: str) -> pa.DataType:
    return pa.binary(int(size))


def _dictionary(path: str, values: str) -> pa.DataType:
    return pa.dictionary(pa.int32(), _type(path, values))


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., pa.DataType]], ...] = (
    (re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([\w/+:-]{1,64})\]"), _timestamp),
    (re.compile(r"decimal(32|64|128|256)\(([0-9]{1,2}), ?(-?[0-9]{1,2})\)"), _decimal),
    (re.compile(r"fixed_size_binary\[([0-9]{1,5})\]"), _binary),
    (
        re.compile(r"dictionary<(?:values=)?([\w\[\]]{1,40})(?:, indices=int32, ordered=0)?>"),
        _dictionary,
    ),
)
