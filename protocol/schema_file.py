"""Schemas in files of their own, as people write them: TOML or JSON, a column and its Arrow type.

    ts  = "timestamp[ms]"                    {"ts": "timestamp[ms]",
    src = "int32 not null"                    "src": "int32 not null",
    at  = { lat = "double", lon = "double" }  "at": {"lat": "double", "lon": "double"}}

The order of the columns is the file's. A type is written as Arrow prints it (type_text.py); a table
is a struct.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gapless.protocol.errors import ParseError, SchemaError
from gapless.protocol.schema import NESTING_MAX, StreamSchema
from gapless.protocol.type_text import WRITTEN, type_of_text

KINDS: Mapping[str, str] = {".toml": "toml", ".json": "json"}
"""How a schema file's name ends, and what `kind` that is."""
TEXT_CHARS_MAX = 1 << 20
"""Of a schema file: 4,096 columns with long names are a fifth of it."""

_NOT_NULL = " not null"


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
            raise SchemaError(f"column {path!r}: its type is {written!r}: {WRITTEN}")
    return fields


def _type(path: str, written: str) -> pa.DataType:
    try:
        return type_of_text(written)
    except SchemaError as e:
        raise SchemaError(f"column {path!r}: {e}") from None
