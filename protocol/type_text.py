"""Arrow types as people write them: exactly as Arrow prints them, and a few shorter forms.

    int32   timestamp[ms]   decimal128(10, 2)                        names, with parameters
    timestamp[us, tz=UTC]   fixed_size_binary[16]
    list<item: int32>       struct<lat: double, lon: double not null>     types of types
    dictionary<values=string, indices=int32, ordered=0>

    list<int32>             dictionary<string>            decimal(10, 2)      shorter

Whatever `str(type)` gives is read back as that type (except for field names with `: `, `, ` or
brackets in them, which Arrow prints as they are). A type that a stream cannot have is read, too:
why it cannot is for its checker to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from gapless.protocol.errors import SchemaError

NESTING_MAX = 32
"""Types inside types: twice what a payload may have, so that what is too deep is said there."""
CHARS_MAX = 1 << 16
"""Of one type: thousands of fields."""

_NOT_NULL = " not null"
_LEAF = re.compile(
    r"timestamp\[(?P<unit>s|ms|us|ns), ?tz=(?P<zone>[\w/+:-]{1,64})\]"
    r"|decimal(?P<bits>32|64|128|256|)\((?P<digits>[0-9]{1,2}), ?(?P<scale>-?[0-9]{1,2})\)"
    r"|fixed_size_binary\[(?P<size>[0-9]{1,9})\]"
)
_NESTED = re.compile(r"([a-z_]+)<(.*)>(?:\[([0-9]{1,9})\])?", re.DOTALL)
_DECIMALS: Mapping[str, Callable[[int, int], pa.DataType]] = {
    "": pa.decimal128,
    "32": pa.decimal32,
    "64": pa.decimal64,
    "128": pa.decimal128,
    "256": pa.decimal256,
}
_LISTS: Mapping[str, Callable[[pa.Field], pa.DataType]] = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}
WRITTEN = (
    'write it as Arrow prints it, such as "int32", "timestamp[ms, tz=UTC]", "decimal128(10, 2)" '
    'or "struct<a: int32>"'
)


def type_of_text(text: str) -> pa.DataType:
    """The type that is written so. Raises `SchemaError`."""
    if len(text) > CHARS_MAX:
        raise SchemaError(f"a type of {len(text)} characters: at most {CHARS_MAX}")
    return _type(text.strip(), 0)


def _type(text: str, depth: int) -> pa.DataType:
    if depth > NESTING_MAX:
        raise SchemaError(f"types nest deeper than {NESTING_MAX} levels")
    try:
        return pa.type_for_alias(text)
    except ValueError:
        pass  # it has parameters, or there is none
    try:
        found = _leaf(text)
        return _nested(text, depth) if found is None else found
    except (ValueError, TypeError, pa.ArrowException) as e:
        raise SchemaError(f"type {text[:50]!r}: {e}") from None


def _leaf(text: str) -> pa.DataType | None:
    match = _LEAF.fullmatch(text)
    if match is None:
        return None
    if match["unit"]:
        return pa.timestamp(match["unit"], match["zone"])
    if match["size"]:
        return pa.binary(int(match["size"]))
    return _DECIMALS[match["bits"]](int(match["digits"]), int(match["scale"]))


def _nested(text: str, depth: int) -> pa.DataType:
    match = _NESTED.fullmatch(text)
    if match is None:
        raise _unknown(text)
    kind, inside, size = match.groups()
    parts = _parts(inside)
    if kind == "struct" and size is None:
        return pa.struct([_field(part, depth, None) for part in parts])
    if kind == "dictionary" and size is None:
        return _dictionary(text, parts, depth)
    if kind == "map" and size is None and len(parts) == 2:
        return pa.map_(*(_field(part, depth, "").type for part in parts))
    if len(parts) == 1 and kind == "fixed_size_list" and size is not None:
        return pa.list_(_field(parts[0], depth, "item"), int(size))
    if len(parts) == 1 and kind in _LISTS and size is None:
        return _LISTS[kind](_field(parts[0], depth, "item"))
    raise _unknown(text)


def _dictionary(text: str, parts: list[str], depth: int) -> pa.DataType:
    given: dict[str, str] = {}
    for part in parts:
        name, _, value = part.rpartition("=")
        given[name or "values"] = value
    ordered = given.get("ordered", "0")
    known = {"values"} <= given.keys() <= {"values", "indices", "ordered"}
    if not known or ordered not in ("0", "1"):
        raise _unknown(text)
    values = _type(given["values"], depth + 1)
    indices = _type(given.get("indices", "int32"), depth + 1)
    return pa.dictionary(indices, values, ordered == "1")


def _field(text: str, depth: int, unnamed: str | None) -> pa.Field:
    """A field, `name: type not null`; without a name it has `unnamed`, where that may be."""
    name, separator, written = text.partition(": ")
    if not separator or "<" in name or "[" in name:
        if unnamed is None:
            raise SchemaError(f"field {text[:50]!r}: a name, a colon and a type")
        name, written = unnamed, text
    nullable = not written.endswith(_NOT_NULL)
    return pa.field(name, _type(written.removesuffix(_NOT_NULL).strip(), depth + 1), nullable)


def _parts(text: str) -> list[str]:
    """What stands between commas that are in no brackets."""
    parts, start, depth = [], 0, 0
    for at, character in enumerate(text):
        if character in "<[(":
            depth += 1
        elif character in ">])":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts


def _unknown(text: str) -> SchemaError:
    return SchemaError(f"Arrow knows no type {text[:50]!r}: {WRITTEN}")
