r"""What a field of text means: the one rule, wherever text comes in.

    text                    string      int32       double      timestamp[ms]
    (nothing)               null        null        null        null
    ""  in quotes           ""          no value    no value    no value
    NA, null, N/A           "NA", ...   no value    no value    no value
     7                      " 7"        7           7.0         no value
    1.0, 0x10, 1_000        as it is    no value    1.0, -, -   no value
    1e999                   "1e999"     no value    no value    no value
    inf, NaN                as it is    no value    inf, NaN    no value
    2024-05-01 12:00Z       as it is    no value    no value    that instant

Only an empty field is null, and no word is: `NA` is a text like any other. A text that is no value
of its column's type costs its row, and nothing is rounded, cut or guessed:

- an integer is digits, with a minus before them; a float, as C writes it in decimal, becomes the
  nearest, and is infinite only where it says so;
- a decimal is digits and a point, without an exponent, and none of them but zeros is one that its
  type has no place for;
- true, false, 1 and 0 are truth values, in letters of any size;
- a date is YYYY-MM-DD; a time of day HH:MM, with :SS and a fraction; a time is a date, or a date
  and behind a T or a blank an hour (with :MM and so on) and maybe a zone (Z, +HH, +HH:MM); without
  one it is UTC. A fraction has at most the digits of the unit, except for zeros. A bare number is
  no time: what counts from 1970 is an integer;
- blanks around a value are no part of it, but of a text.

A value means the same alone and among others, however text is cut into columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.casts import Made, Mask, encoded, exact, halved, masked, narrowed
from gapless.protocol.errors import SchemaError

CSV_NULLS: dict[str, Any] = {
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}
"""What Arrow's reader of CSV is to be told, so that it gives each field as it stands."""

_is = pa.types
_BLANKS = " \t"
_DIGITS_MAX = 76
"""Of Arrow's widest decimal, in which integers of any width are told apart."""
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01][0-9]|2[0-3])"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_PLACES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a fraction of a second, by unit."""

_Cast = Callable[[pa.Array], pa.Array]


def read(texts: pa.Array, t: pa.DataType) -> Made:
    """Texts as values of type `t`; null is null. Raises `SchemaError` where no text is one."""
    if texts.type != pa.string():
        texts = texts.cast(pa.string())
    if is_text(t):
        return Made(texts.cast(t), None)
    if _is.is_dictionary(t):
        values, misfits = read(texts, t.value_type)
        return Made(encoded(values, t), misfits)
    for is_kind, form in _FORMS:
        if is_kind(t):
            return form(texts, t)
    raise SchemaError(f"no text means {t}: take Parquet or Arrow for such a column")


def is_text(t: pa.DataType) -> bool:
    """Whether any text is a value of this type as it stands."""
    views = _is.is_string_view(t) or _is.is_binary_view(t)
    large = _is.is_large_string(t) or _is.is_large_binary(t)
    return bool(views or large or _is.is_string(t) or _is.is_binary(t))


def _of_form(texts: pa.Array, pattern: str, cast: _Cast) -> Made:
    """What a pattern finds, cast: the few that no pattern can tell (a 30th of February) by halving.

    Where Arrow casts all of it, all of it is of the form: that is so for each pattern here.
    """
    try:
        return Made(cast(texts), None)
    except pa.ArrowInvalid:
        texts, misfits = _matched(texts, pattern)
    try:
        return Made(cast(texts), misfits)
    except pa.ArrowInvalid:
        more = halved(texts, cast)
        return Made(cast(masked(texts, more).column), misfits | more)


def _matched(texts: pa.Array, pattern: str) -> tuple[pa.Array, Mask]:
    """The texts without blanks around them, those that a pattern does not match null, and which
    these are.
    """
    trimmed = pc.ascii_trim(texts, _BLANKS)
    other = pc.invert(pc.match_substring_regex(trimmed, pattern))
    misfits: Mask = pc.fill_null(other, False).to_numpy(zero_copy_only=False)
    return masked(trimmed, misfits).column, misfits


def _both(made: Made, misfits: Mask | None) -> Made:
    if misfits is None or made.misfits is None:
        return Made(made.column, made.misfits if misfits is None else misfits)
    return Made(made.column, made.misfits | misfits)


# -- forms ----------------------------------------------------------------------------------------


def _integers(texts: pa.Array, t: pa.DataType) -> Made:
    has_hex = pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py()
    if not has_hex:  # which Arrow takes
        try:
            return Made(texts.cast(t), None)
        except pa.ArrowInvalid:
            pass  # some are none, or have blanks around them: column by column, then
    sign = "" if _is.is_unsigned_integer(t) else "-?"
    digits, misfits = _matched(texts, f"^{sign}0*[0-9]{{1,20}}$")
    return _both(exact(digits.cast(pa.decimal256(_DIGITS_MAX, 0)), t), misfits)


def _floats(texts: pa.Array, t: pa.DataType) -> Made:
    """As double first, and as any double then: so a text means the same in JSON, too."""
    wide, misfits = _of_form(texts, f"{_FLOAT}|{_INFINITE}|(?i)^[+-]?nan$", _to_double)
    infinite = np.isinf(wide.to_numpy(zero_copy_only=False))
    if infinite.any():
        said = pc.match_substring_regex(pc.ascii_trim(texts, _BLANKS), _INFINITE)
        over: Mask = infinite & ~pc.fill_null(said, False).to_numpy(zero_copy_only=False)
        wide = masked(wide, over).column
        misfits = over if misfits is None else misfits | over
    return _both(narrowed(wide, t), misfits if misfits is not None and misfits.any() else None)


def _to_double(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.float64())


def _decimals(texts: pa.Array, t: pa.DataType) -> Made:
    """The digits that the type has places for, before Arrow sees them: of more, and of exponents,
    it makes other numbers (1e10 as decimal128(38, 38) is 0.1896...).
    """
    before, behind = t.precision - t.scale, t.scale
    digits, other = _matched(texts, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$")
    fitting = rf"^([+-]?)0*([0-9]{{0,{before}}})(?:(\.[0-9]{{0,{behind}}})0*)?$"
    digits, more = _matched(digits, fitting)
    misfits = other | more
    column = pc.replace_substring_regex(digits, fitting, r"\10\2\3").cast(t)
    return Made(column, misfits if misfits.any() else None)


def _truths(texts: pa.Array, t: pa.DataType) -> Made:
    return _of_form(texts, "(?i)^(true|false|0|1)$", lambda part: part.cast(t))


def _dates(texts: pa.Array, t: pa.DataType) -> Made:
    return _of_form(texts, f"^{_DATE}$", lambda part: part.cast(t))


def _instants(texts: pa.Array, t: pa.DataType) -> Made:
    """Times with a zone and times without one, which are UTC, may stand in one column."""
    clock = f"[T ]{_CLOCK}(:[0-5][0-9](:[0-5][0-9]{_fraction(t.unit)})?)?"
    zoned = f"^{_DATE}{clock}{_ZONE}$"

    def cast(part: pa.Array) -> pa.Array:
        part = _without_zeros(part, t.unit)
        has_zone = pc.match_substring_regex(part, zoned)
        local = pc.if_else(has_zone, None, part).cast(pa.timestamp(t.unit))
        there = pc.if_else(has_zone, part, None).cast(pa.timestamp(t.unit, "UTC"))
        return pc.coalesce(local.view(pa.int64()), there.view(pa.int64())).view(t)

    try:
        return Made(texts.cast(t), None)
    except pa.ArrowInvalid:
        return _of_form(_trimmed(texts), f"^{_DATE}({clock}{_ZONE}?)?$", cast)


def _fraction(unit: str) -> str:
    places = _PLACES[unit]
    return rf"(\.[0-9]{{1,{places}}}|\.[0-9]{{{places}}}0+)?" if places else r"(\.0+)?"


def _without_zeros(texts: pa.Array, unit: str) -> pa.Array:
    """Without the digits behind those of the unit, which are zeros: Arrow takes none."""
    places = _PLACES[unit]
    if not places:
        return pc.replace_substring_regex(texts, r"\.0+", "")
    return pc.replace_substring_regex(texts, rf"(\.[0-9]{{{places}}})0+", r"\1")


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.ascii_trim(texts, _BLANKS)


def _times_of_day(texts: pa.Array, t: pa.DataType) -> Made:
    """As the time of a day in 1970, of which Arrow knows the text."""
    texts, misfits = _matched(texts, f"^{_CLOCK}:[0-5][0-9](:[0-5][0-9]{_fraction(t.unit)})?$")
    whole = pc.binary_join_element_wise("1970-01-01", _without_zeros(texts, t.unit), "T")
    ticks = whole.cast(pa.timestamp(t.unit)).view(pa.int64())
    column = ticks.cast(pa.int32()).view(t) if t.bit_width == 32 else ticks.view(t)
    return Made(column, misfits if misfits.any() else None)


def _durations(texts: pa.Array, t: pa.DataType) -> Made:
    counts, misfits = _integers(texts, pa.int64())
    return Made(counts.view(t), misfits)


def _of_width(texts: pa.Array, t: pa.DataType) -> Made:
    raw = texts.cast(pa.binary())
    other = pc.not_equal(pc.binary_length(raw), t.byte_width)
    misfits: Mask = pc.fill_null(other, False).to_numpy(zero_copy_only=False)
    kept, found = masked(raw, misfits)
    return Made(kept.cast(t), found)


_FORMS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], Made]]] = [
    (_is.is_integer, _integers),
    (_is.is_floating, _floats),
    (_is.is_decimal, _decimals),
    (_is.is_boolean, _truths),
    (_is.is_date, _dates),
    (_is.is_timestamp, _instants),
    (_is.is_time, _times_of_day),
    (_is.is_duration, _durations),
    (_is.is_fixed_size_binary, _of_width),
]
"""By kind of type; decimals before binaries of a width, which Arrow takes them for."""
