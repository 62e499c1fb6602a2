"""Text notation: streams as people write them in tests, documents and the shell.

    ins(A,6,20) adj(A,6,20,30) stable(11)      insert, adjust (vs, was, ve), stable
    ins((A,1),6,inf) stable(inf)               two payload columns; no end; the end of the stream

A payload of one column stands bare, several stand in parentheses, a struct's fields or a list's
elements in braces: `{1,x}`, `{}`.
Values by column type:

    string      A   "with, space"   null         a word, or a JSON string
    integer     7   -7               also every date, time, timestamp, duration: ticks of its unit
    floating    1.5  nan  -inf
    decimal     12.50            no exponent
    bool        true  false
    binary      x'00ff'
    interval    {months,days,nanoseconds}

`parse` needs the schema, for `7` is a string in one column and a number in another. `format` and
`parse` are inverses: `parse(format(elements), schema) == elements`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gapless.protocol.elements import INF, Adjust, Element, Insert, Payload, Stable, format_time
from gapless.protocol.errors import FrameError, ParseError
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import canonical_float

TEXT_CHARS_MAX = 1 << 24
"""Characters that `parse` takes: scripts and test cases, not data sets."""
COLUMNS_SHOWN_CHARS = 200
"""Of a schema's columns, in the message for a payload that does not fit them."""

DEFAULT_SCHEMA = StreamSchema({"p": "string"})
"""What a script means that names no columns: one string."""

_TOKEN = re.compile(
    r"""\s*(?: (?P<mark>[(){},])
             | (?P<quoted>"(?:[^"\\]|\\.)*")
             | (?P<bytes>x'[0-9a-f]*')
             | (?P<word>[^\s(){},"']+)
             | (?P<end>\Z) )""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,78}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,78}(\.[0-9]{0,78})?", re.ASCII)  # decimal256 has 76 digits
_BARE_STRING = re.compile(r"(?!null$)[A-Za-z_][A-Za-z0-9_.:-]*", re.ASCII)


# -- writing ----------------------------------------------------------------------------------


def format(elements: Iterable[Element]) -> str:  # noqa: A001  # the natural name, used as text.format
    """The elements in text notation, separated by spaces."""
    return " ".join(map(format_element, elements))


def format_element(e: Element) -> str:
    """One element in text notation."""
    match e:
        case Insert(payload, vs, ve):
            return f"ins({format_payload(payload)},{vs},{format_time(ve)})"
        case Adjust(payload, vs, was, ve):
            times = f"{vs},{format_time(was)},{format_time(ve)}"
            return f"adj({format_payload(payload)},{times})"
        case Stable(t):
            return f"stable({format_time(t)})"


def format_payload(payload: Payload) -> str:
    """A payload in text notation: bare where it has one column."""
    values = ",".join(map(_format_value, payload))
    return values if len(payload) == 1 else f"({values})"


def _format_value(v: Any) -> str:
    if v is None:
        return "null"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, str):
        return v if _BARE_STRING.fullmatch(v) else json.dumps(v, ensure_ascii=False)
    if isinstance(v, bytes):
        return f"x'{v.hex()}'"
    if isinstance(v, tuple):
        return "{" + ",".join(map(_format_value, v)) + "}"
    return f"{v:f}" if isinstance(v, Decimal) else repr(v)  # a decimal without an exponent


# -- reading ----------------------------------------------------------------------------------


def parse(text: str, schema: StreamSchema = DEFAULT_SCHEMA) -> list[Element]:
    """The elements that `text` writes; raises `ParseError` with the place and what was expected."""
    if len(text) > TEXT_CHARS_MAX:
        raise ParseError(f"{len(text)} characters: at most {TEXT_CHARS_MAX} are read as text")
    return list(_Parser(text, schema).elements())


class _Parser:
    """Recursive descent; its depth is that of the schema's types, which is bounded."""

    def __init__(self, text: str, schema: StreamSchema) -> None:
        self._text = text
        self._payload_types = [field.type for field in schema.payload]
        self._columns = ", ".join(f"{field.name}: {field.type}" for field in schema.payload)
        self._in_payload = False
        self._at = 0
        self._start = 0
        self._kind = ""
        self._token = ""
        self._next()

    def elements(self) -> Iterator[Element]:
        while self._kind != "end":
            name, start = self._token, self._start
            if self._kind != "word" or name not in ("ins", "adj", "stable"):
                raise self._error("ins(...), adj(...) or stable(...)")
            self._next()
            self._mark("(")
            try:
                yield self._element(name)
            except FrameError as e:
                raise ParseError(f"at {self._place(start)}: {e}") from None
            self._mark(")")

    def _element(self, name: str) -> Element:
        if name == "stable":
            return Stable(self._time())
        payload = self._payload()
        times = []
        for _ in range(3 if name == "adj" else 2):
            self._mark(",")
            times.append(self._time())
        return Insert(payload, *times) if name == "ins" else Adjust(payload, *times)

    def _payload(self) -> Payload:
        self._in_payload = True
        if len(self._payload_types) == 1 and self._token != "(":
            payload: Payload = (self._value(self._payload_types[0]),)
        else:
            payload = self._values("(", self._payload_types, ")")
        self._in_payload = False
        return payload

    def _values(self, opening: str, types: list[pa.DataType], closing: str) -> tuple[Any, ...]:
        self._mark(opening)
        values = []
        for i, t in enumerate(types):
            if i:
                self._mark(",")
            values.append(self._value(t))
        self._mark(closing)
        return tuple(values)

    def _time(self) -> int:
        if self._kind == "word" and self._token == "inf":
            self._next()
            return INF
        return self._integer("a time: an integer or inf")

    def _integer(self, expected: str) -> int:
        if self._kind != "word" or not _INTEGER.fullmatch(self._token):
            raise self._error(expected)
        value = int(self._token)
        self._next()
        return value

    def _value(self, t: pa.DataType) -> Any:
        if self._kind == "word" and self._token == "null":
            self._next()
            return None
        types = pa.types
        if types.is_dictionary(t):
            return self._value(t.value_type)
        if types.is_struct(t):
            return self._values("{", [field.type for field in t], "}")
        if types.is_list(t):
            return self._list(t.value_type)
        if types.is_interval(t):
            return self._values("{", [pa.int32(), pa.int32(), pa.int64()], "}")
        if types.is_string(t) or types.is_large_string(t) or types.is_string_view(t):
            return self._string()
        if types.is_boolean(t):
            return self._scalar("word", {"true": True, "false": False}.__getitem__, "true or false")
        if types.is_floating(t):
            return self._scalar("word", lambda w: canonical_float(float(w)), "a number")
        if types.is_decimal(t):
            return self._scalar("word", _decimal, "a decimal number")
        if types.is_integer(t) or types.is_temporal(t):
            return self._integer("an integer")
        return self._scalar("bytes", lambda w: bytes.fromhex(w[2:-1]), "bytes: x'00ff'")

    def _list(self, t: pa.DataType) -> tuple[Any, ...]:
        self._mark("{")
        values: list[Any] = []
        while self._kind != "mark" or self._token != "}":
            if values:
                self._mark(",")
            values.append(self._value(t))
        self._mark("}")
        return tuple(values)

    def _string(self) -> str:
        if self._kind == "word":
            value = self._token
            self._next()
            return value
        return str(self._scalar("quoted", _unquote, "a word or a JSON string"))

    def _scalar(self, kind: str, convert: Callable[[str], Any], expected: str) -> Any:
        if self._kind != kind:
            raise self._error(expected)
        try:
            value = convert(self._token)
        except (ValueError, KeyError):
            raise self._error(expected) from None
        self._next()
        return value

    def _mark(self, mark: str) -> None:
        if self._kind != "mark" or self._token != mark:
            raise self._error(repr(mark))
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self._start = self._at
            raise ParseError(f"at {self._place(self._at)}: a string or bytes that do not end")
        self._kind = match.lastgroup or "end"
        self._token = match[self._kind]
        self._start = match.start(self._kind)
        self._at = match.end()

    def _error(self, expected: str) -> ParseError:
        found = "the end" if self._kind == "end" else repr(self._token[:40])
        message = f"at {self._place(self._start)}: expected {expected}, found {found}"
        if self._in_payload:
            message += f"; the payload has the columns {self._columns[:COLUMNS_SHOWN_CHARS]}"
        return ParseError(message)

    def _place(self, at: int) -> str:
        line = self._text.count("\n", 0, at) + 1
        return f"line {line}, column {at - (self._text.rfind(chr(10), 0, at) + 1) + 1}"


def _decimal(word: str) -> Decimal:
    if not _DECIMAL.fullmatch(word):  # Decimal takes exponents, and writes them out as zeros
        raise ValueError
    return Decimal(word)


def _unquote(token: str) -> str:
    value = json.loads(token, strict=False)
    value.encode()  # a lone surrogate is no text: UnicodeEncodeError is a ValueError
    return str(value)
