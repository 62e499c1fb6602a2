"""The functions that an expression may name: which, with what options, and how they are called.

Scalar, deterministic functions of `pyarrow.compute`, as Arrow came with them, those of
own_functions.py, and three of ours:

    cast             one argument; options `type` and `safe`
    true_divide      Python's `/`: in float64
    floor_divide     Python's `//`: rounds down; Arrow alone rounds integers toward zero, and
                     floats after a division that has rounded already

Numbers are compared exactly, whatever types hold them (comparisons.py).

Options are plain data, types, and columns of values (`is_in`), so that they go into documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.columns import without_views
from gapless.protocol.comparisons import COMPARES, compared, is_exact
from gapless.protocol.documents import Document
from gapless.protocol.errors import DecodeError, ExpressionError
from gapless.protocol.lists import normal, own
from gapless.protocol.own_functions import OWN, apply_own, checked_options
from gapless.protocol.plain import (
    PLAIN,
    column,
    type_from_plain,
    type_to_plain,
    value_from_plain,
    value_to_plain,
)
from gapless.protocol.values import to_values

_REFUSED = frozenset({"random", "split_pattern_regex"})
"""Scalar in Arrow's eyes, and yet another answer each time; and what never ends where its pattern
matches no text at all."""

_OURS = {"cast": 1, "true_divide": 2, "floor_divide": 2}
"""Functions that are not one scalar function of Arrow's, and how many arguments they take."""


def arrow_function(name: str) -> Any:
    """Arrow's Python function of that name, which also takes Arrow's expressions."""
    return getattr(pc, {"and": "and_", "or": "or_"}.get(name, name))


_ARROW = {
    name: arrow_function(name).__arrow_compute_function__
    for name in pc.list_functions()
    if name not in _REFUSED and pc.get_function(name).kind == "scalar"
}
"""Scalar functions that Arrow came with: those that a user registers later are not the same in
every process."""

_CAST = frozenset(("type", "safe"))
"""The options of `cast`."""

FUNCTIONS = frozenset(_ARROW) | _OURS.keys() | OWN.keys()
"""All that an expression may name."""

ARROW_ERRORS = (
    pa.ArrowException,
    TypeError,
    ValueError,
    KeyError,
    OverflowError,
    NotImplementedError,
)
"""What pyarrow raises when values, types and functions do not fit each other."""


_LOOKS_UP = frozenset({"is_in", "index_in"})

_OF_DOUBLES = frozenset(
    f"{name}{checked}"
    for name in (
        "sqrt",
        "exp",
        "ln",
        "log10",
        "log2",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
    )
    for checked in ("", "_checked")
)
"""Functions that take an integer as the nearest double; Arrow fails for some beyond 2^53."""
_NEEDS_PATTERN = frozenset({"replace_substring", "split_pattern"})
"""Functions that never end, or fail, where the pattern is empty."""
_FUNCTION = cache(pc.get_function)
"""Looked up once: for a few rows the registry takes as long as the rows."""
_DECODED = frozenset((pa.lib.Type_DICTIONARY, pa.lib.Type_STRING_VIEW, pa.lib.Type_BINARY_VIEW))
"""Types, by their ids, of which most functions know nothing."""


class _Untyped(NamedTuple):
    """A set to look values up in that has none, so no type either: at most null is in it."""

    has_null: bool
    skips_null: bool

    def look_up(self, function: str, values: Any) -> Any:
        """`is_in`, or `index_in`, of values of any type."""
        is_there = pc.is_null(values)
        if not self.has_null or self.skips_null:
            is_there = pc.and_(is_there, False)
        if function == "is_in":
            return is_there
        return pc.if_else(is_there, pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32()))


def build_options(function: str, arity_given: int, options: dict[str, Any]) -> Any:
    """Arrow's options for a call, or None; raises `ExpressionError` where the call cannot be."""
    if function in OWN:
        return checked_options(function, arity_given, options)
    if function in _OURS:
        arity: Any = _OURS[function]
        options_class = "CastOptions" if function == "cast" else ""
        required = False
    elif function in _ARROW:
        known = _ARROW[function]
        arity, options_class = known["arity"], known["options_class"]
        required = known["options_required"]
    else:
        near = get_close_matches(str(function), FUNCTIONS, n=3)
        meant = f": did you mean {', '.join(near)}?" if near else ""
        raise ExpressionError(
            f"{function!r} is not a deterministic scalar function of pyarrow.compute{meant}"
        )
    if arity_given != arity if arity is not ... else not arity_given:
        wanted = "one or more" if arity is ... else arity
        raise ExpressionError(f"{function}: {arity_given} arguments, wants {wanted}")
    if function == "cast":
        return _cast_options(options)
    if not options and not required:
        return None
    if not options_class:
        raise ExpressionError(f"{function} takes no options: {', '.join(options)}")
    return _arrow_options(function, options_class, options)


def _arrow_options(function: str, options_class: str, options: dict[str, Any]) -> Any:
    if options.get("null_handling") == "skip":
        raise ExpressionError(f"{function}: drops rows that have null alone: use gl.concat")
    if function in _LOOKS_UP and isinstance(options.get("value_set"), pa.Array):
        if pa.types.is_null(options["value_set"].type):
            return _Untyped(len(options["value_set"]) > 0, options.get("skip_nulls") is True)
        options = {**options, "value_set": _one_zero(options["value_set"])}
    try:
        built = getattr(pc, options_class)(**options)
        if "pattern" in options:
            _check_pattern(function, options["pattern"], built)
        return built
    except ARROW_ERRORS as e:
        raise ExpressionError(f"{function}: {e}") from None


def _check_pattern(function: str, pattern: Any, built: Any) -> None:
    """Now, as Arrow looks at a pattern only when there is a row."""
    if not pattern and function in _NEEDS_PATTERN:
        raise ExpressionError(f"{function}: the pattern is empty")
    if "regex" in function:
        _FUNCTION(function).call([pa.array(["a" if isinstance(pattern, str) else b"a"])], built)


def _cast_options(options: dict[str, Any]) -> pc.CastOptions:
    to, safe = options.get("type"), options.get("safe", True)
    if not isinstance(to, pa.DataType) or not isinstance(safe, bool) or options.keys() - _CAST:
        raise ExpressionError("cast: takes type=, a type of Arrow's, and safe=, a bool")
    return pc.CastOptions.safe(to) if safe else pc.CastOptions.unsafe(to)


def evaluate(function: str, values: Sequence[Any], built: Any) -> Any:
    """Calls a function with arrays or scalars and the options that `build_options` made."""
    if function in OWN:
        return apply_own(function, values, built)
    if function == "true_divide":
        return pc.divide_checked(*(pc.cast(v, pa.float64(), safe=False) for v in values))
    if function == "floor_divide":
        return _floor_divide(*values)
    if function in _OF_DOUBLES:
        values = [
            pc.cast(v, pa.float64(), safe=False) if pa.types.is_integer(v.type) else v
            for v in values
        ]
    if function == "cast":
        values = [own(normal(values[0]))] if isinstance(values[0], pa.Array) else values
    if function in _LOOKS_UP:
        if isinstance(built, _Untyped):
            return built.look_up(function, values[0])
        values = [_one_zero(v) for v in values]
    try:
        return _FUNCTION(function).call(list(values), built)
    except pa.ArrowInvalid:
        if function in COMPARES and is_exact(values[0].type, values[1].type):
            return compared(function, *values)  # no type of Arrow's holds the values of both
        raise


def _one_zero(values: Any) -> Any:
    """Floats with one zero: Arrow looks bits up, and a payload's -0.0 is its 0.0."""
    t = values.type
    return (
        pc.add(values, pa.scalar(0.0, t))
        if pa.types.is_floating(t) and t.bit_width > 16
        else values
    )


def operand(value: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """What functions are given: most of Arrow's know neither dictionaries nor views."""
    t = value.type
    if t.id not in _DECODED:
        return value
    if pa.types.is_dictionary(t):
        values = value.dictionary.cast(without_views(t.value_type))
        return pa.DictionaryArray.from_arrays(value.indices, values).dictionary_decode()
    return value.cast(without_views(t))


def arrow_call(
    function: str, args: Sequence[pc.Expression], options: dict[str, Any], built: Any
) -> pc.Expression:
    """A call, as Arrow builds it over its own expressions; it has no `floor_divide`."""
    if function == "cast":
        return args[0].cast(options=built)
    if function == "true_divide":
        return pc.divide_checked(*(a.cast(pa.float64(), safe=False) for a in args))
    return arrow_function(function)(*args, **options)


def _floor_divide(a: Any, b: Any) -> Any:
    quotient = pc.divide_checked(a, b)
    if pa.types.is_floating(quotient.type):
        return _floor_divide_floats(a, b, quotient)
    if not pa.types.is_integer(quotient.type):
        return pc.floor(quotient)
    # Arrow rounds integers toward zero: one too high where there is a rest and the signs differ
    rest = pc.subtract(a, pc.multiply(quotient, b))
    zero = pa.scalar(0, rest.type)
    differ = pc.and_(pc.not_equal(rest, zero), pc.xor(pc.less(rest, zero), pc.less(b, zero)))
    return pc.subtract(quotient, pc.cast(differ, quotient.type))


def _floor_divide_floats(a: Any, b: Any, quotient: Any) -> Any:
    """Of floats the rest is exact, and the quotient is not: 1.0 / 0.1 is 10.0, rounded up."""
    t = quotient.type
    with np.errstate(all="ignore"):
        made = np.floor_divide(_as_numpy(a, t), _as_numpy(b, t))
    if isinstance(quotient, pa.Scalar):
        return pa.scalar(made.item() if quotient.is_valid else None, t)
    missing = quotient.is_null().to_numpy(zero_copy_only=False)
    return pa.array(made, t, mask=missing)


def _as_numpy(value: Any, t: pa.DataType) -> Any:
    cast = value.cast(t)
    if isinstance(cast, pa.Scalar):
        return t.to_pandas_dtype()(cast.as_py() if cast.is_valid else 1)
    return cast.fill_null(1).to_numpy(zero_copy_only=False)


def option_to_plain(value: Any) -> Document:
    """An option's value as plain data."""
    if isinstance(value, pa.DataType):
        return {"type": type_to_plain(value)}
    if isinstance(value, pa.Array):
        plain: Document = [value_to_plain(v) for v in to_values(value)]
        return {"array": [type_to_plain(value.type), plain]}
    if isinstance(value, list | tuple):
        return [option_to_plain(v) for v in value]
    if value is None or isinstance(value, PLAIN):
        return value
    raise ExpressionError(f"an option of type {type(value).__name__} has no plain form")


def option_from_plain(plain: Document) -> Any:
    """The inverse of `option_to_plain`; raises `DecodeError`."""
    if isinstance(plain, list):
        return [option_from_plain(v) for v in plain]
    if not isinstance(plain, dict):
        return plain
    match plain:
        case {"type": t, **rest} if not rest:
            return type_from_plain(t)
        case {"array": [t, list(values)], **rest} if not rest:
            return column([value_from_plain(v) for v in values], type_from_plain(t))
    raise DecodeError("option", f"a dict with {sorted(plain)[:3]}", "type, or array")


def option_text(value: Any) -> str:
    """An option's value as an expression prints it."""
    return str(to_values(value)) if isinstance(value, pa.Array) else repr(value)
