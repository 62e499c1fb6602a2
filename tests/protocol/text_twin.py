"""The slow twin of the rule of texts, by Python's own means; and texts to try it with."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

TEXTS = [
    "", "NA", "null", "N/A", "NaN", "-nan", "inf", "-Infinity", "1e999", "-1e999", "1e39", "65520",
    "1e-999", "1.5d", "0x1p3", "0x10", "1_0", "1.0", "1.", ".5", "+1", "-0", "007", " 7", "7\t",
    "7 8",     "127", "128", "-129", "255", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "0" * 90 + "5", "1" * 80, "1.505", "1.500", "1e2", "1e-2", "999.99",
    "1000", "1e99999999999", "true", "FALSE", "yes", "t", "\u0661", "5\u00a0", "caf\u00e9", "\x00",
    "2024-05-01", " 2024-05-01", "2024-02-30", "2023-02-29", "2024-13-01", "0000-01-01",
    "0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "1600-01-01", "2300-01-01",
    "2024-05-01T12", "2024-05-01 12:00", "2024-05-01T12:00:00.5", "2024-05-01T12:00:00.123456789",
    "2024-05-01T12:00:00.000", "12:00:00.120000000000", "2024-05-01T12:00:00.0540000Z",
    "2024-05-01T12:00:00.5400001", "2024-05-01T12:00:00Z", "2024-05-01T12:00:00+02:00",
    "2024-05-01 12:00-0230", "2024-05-01Z", "2024-05-01T24:00:00", "2024-05-01T12:00:60",
    "2024-5-1", "2024-05-01T12:00:00+99", "12:00", "12:00:00.1234", "24:00:00", "12", "2024",
    "1714564800000", "abc", "ab", '"', "\\N",
]  # fmt: skip
LETTERS = "0123456789+-.eExXnNaAiIfFtTzZ:_ \t,\"'"
digits = st.from_regex(r"[+-]?0{0,30}[0-9]{0,40}(\.[0-9]{0,40}0{0,40})?", fullmatch=True)
texts = (
    st.none()
    | digits
    | st.sampled_from(TEXTS)
    | st.text(LETTERS, max_size=12)
    | st.text(max_size=4)
)


NO = object()
"""What is no value."""


def meaning(text: str, t: pa.DataType) -> Any:
    """The rule again, by Python's own means, as canonical values."""
    bare = text.strip(" \t")
    if pa.types.is_dictionary(t):
        return meaning(text, t.value_type)
    if pa.types.is_decimal(t):
        return _decimal(bare, t)
    if pa.types.is_fixed_size_binary(t):
        return text.encode() if len(text.encode()) == t.byte_width else NO
    if "string" in str(t) or "binary" in str(t):
        return text.encode() if "binary" in str(t) else text
    if pa.types.is_integer(t):
        return _integer(bare, t)
    if pa.types.is_duration(t):
        return _integer(bare, pa.int64())
    if pa.types.is_boolean(t):
        return {"true": True, "1": True, "false": False, "0": False}.get(_lower(bare), NO)
    if pa.types.is_floating(t):
        return _float(bare, t)
    return _time(bare, t)


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else text


def _integer(text: str, t: pa.DataType) -> Any:
    signed = pa.types.is_signed_integer(t)
    if not re.fullmatch("-?[0-9]+" if signed else "[0-9]+", text, re.ASCII):
        return NO
    least = -(2 ** (t.bit_width - 1)) if signed else 0
    value = int(text)
    return value if least <= value < least + 2**t.bit_width else NO


def _float(text: str, t: pa.DataType) -> Any:
    if re.fullmatch("[+-]?(inf|infinity|nan)", _lower(text)):
        value = float(text)
        return math.nan if value != value else value
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return NO
    narrow = pa.array([float(text)]).cast(t)[0].as_py()
    return NO if math.isinf(narrow) else float(narrow) + 0.0


def _decimal(text: str, t: pa.DataType) -> Any:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", text):
        return NO
    ticks = Fraction(text) * 10**t.scale
    fits = ticks.denominator == 1 and abs(ticks) < 10**t.precision
    return Decimal(int(ticks)).scaleb(-t.scale, Context(prec=80)) if fits else NO


_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)?"
    r"(?:(?P<at>[T ])?(?P<h>\d\d)(?::(?P<m>\d\d)(?::(?P<s>\d\d)(?:\.(?P<f>\d+))?)?)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def _time(text: str, t: pa.DataType) -> Any:
    found = _TIME.fullmatch(text)
    if not found or not text:
        return NO
    date, at, h, m, s, fraction, zone = found.groups()
    of_day, of_date = pa.types.is_time(t), pa.types.is_date(t)
    if (of_day and (date or at or zone or not m)) or (not of_day and not date):
        return NO
    if (of_date and h) or (not of_day and bool(h) != bool(at)) or (zone and not h):
        return NO
    places = {"s": 0, "ms": 3, "us": 6, "ns": 9}.get(getattr(t, "unit", "s"), 0)
    fraction = (fraction or "")[:places] + (fraction or "")[places:].rstrip("0")
    if len(fraction) > places or int(h or 0) > 23 or max(int(m or 0), int(s or 0)) > 59:
        return NO
    year, month, day = map(int, (date or "1970-01-01").split("-"))
    try:  # year 0 is as long as year 400, and 400 years are 146,097 days
        days = (dt.date(year or 400, month, day) - dt.date(1970, 1, 1)).days - (not year) * 146_097
    except ValueError:
        return NO
    if of_date:
        return days if t == pa.date32() else days * 86_400_000
    seconds = days * 86_400 + int(h or 0) * 3600 + int(m or 0) * 60 + int(s or 0)
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        if int(digits[:2]) > 23 or int(digits[2:]) > 59:
            return NO
        away = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds += away if zone[0] == "-" else -away
    ticks = seconds * 10**places + int(fraction.ljust(places, "0") or 0)
    return ticks if -(2**63) <= ticks < 2**63 else NO
