"""JSON lines: an object a line, whose keys are columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.protocol.casts import Made
from gapless.protocol.lines.blocks import Places
from gapless.protocol.lines.json_types import made, read_type
from gapless.protocol.lines.line_format import (
    SEVERAL,
    UTF8,
    LineFormat,
    Refused,
    misfit_of,
    one_batch,
)
from gapless.protocol.text_fields import read


class JsonLines(LineFormat):
    """An object a line. Keys that are not columns are left out."""

    def __init__(self, schema: pa.Schema, encoding: str = UTF8) -> None:
        self._read = pa.schema([field.with_type(read_type(field.type)) for field in schema])
        self._decimals = [field for field in schema if pa.types.is_decimal(field.type)]
        behind = max((field.type.scale for field in self._decimals), default=0)
        self._doubtful = re.compile(rb"[0-9]{%d}|[0-9.][eE]" % max(1, min(30, 76 - behind)))
        super().__init__(schema, encoding)

    def _probe(self) -> bytes:
        return b"{}"

    def _refused(self, data: bytes, starts: Places, ends: Places) -> Iterator[Refused]:
        yield from super()._refused(data, starts, ends)
        raw = np.frombuffer(data, np.uint8)
        odd = (raw[starts] != ord("{")) | (raw[ends - 1] != ord("}"))
        for i in np.flatnonzero(odd).tolist():
            line = data[starts[i] : ends[i]].strip()
            if not (line.startswith(b"{") and line.endswith(b"}")):
                yield i, "the line is no JSON object", ""
        if self._decimals and self._doubtful.search(data):
            yield from self._odd_decimals(data, starts, ends)

    def _odd_decimals(self, data: bytes, starts: Places, ends: Places) -> Iterator[Refused]:
        """Of numbers with exponents, or very many digits, Arrow makes other decimals."""
        for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            line = data[start:end]
            if self._doubtful.search(line) and _misfit_in(line, self._decimals):
                yield i, *self._reason("", line)

    def _decode(self, text: bytes) -> tuple[pa.RecordBatch, str]:
        from pyarrow import json as arrow_json

        options = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        parse = arrow_json.ParseOptions(
            explicit_schema=self._read, unexpected_field_behavior="ignore"
        )
        return one_batch(arrow_json.read_json(pa.BufferReader(text), options, parse)), SEVERAL

    def _values(self, column: pa.Array, t: pa.DataType) -> Made:
        return made(column, t)

    def _reason(self, said: str, line: bytes) -> tuple[str, str]:
        if found := _misfit_in(line, self._schema):
            return found
        if _has_more(line):
            return SEVERAL, ""
        return re.sub(r"( in row \d+)?$", "", said.removeprefix("JSON parse error: ")), ""


def _misfit_in(line: bytes, fields: Iterable[pa.Field]) -> tuple[str, str] | None:
    """The first value of a JSON line that is not JSON, if that is what is wrong with the line."""
    try:
        row = json.loads(line, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    for field in fields:
        value = row.get(field.name) if isinstance(row, dict) else None
        if value is not None and not _is_value(value, field.type):
            return misfit_of(field, str(value) if isinstance(value, _Number) else repr(value))
    return None


def _has_more(line: bytes) -> bool:
    """Whether something follows an object."""
    try:
        json.loads(line)
    except json.JSONDecodeError as e:
        return e.msg == "Extra data"
    except (ValueError, RecursionError):
        return False
    return False


class _Number(str):
    """A number as the text that it was."""

    __slots__ = ()


def _is_value(value: Any, t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t):
        return _is_value(value, t.value_type)
    if pa.types.is_struct(t):
        if not isinstance(value, dict):
            return False
        inside = ((value.get(f.name), f.type) for f in t)
        return all(each is None or _is_value(each, kind) for each, kind in inside)
    if pa.types.is_list(t):
        if not isinstance(value, list):
            return False
        return all(each is None or _is_value(each, t.value_type) for each in value)
    if pa.types.is_boolean(t) or isinstance(value, bool):
        return pa.types.is_boolean(t) and isinstance(value, bool)
    if not isinstance(value, str):
        return False
    is_number = pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_duration(t)
    if pa.types.is_decimal(t):
        if value != value.strip():  # of which Arrow takes none
            return False
    elif is_number != isinstance(value, _Number):
        return False
    try:
        return read(pa.array([str(value)]), t).misfits is None
    except (UnicodeError, pa.ArrowException):  # half a letter
        return False
