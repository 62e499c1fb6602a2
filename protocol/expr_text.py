"""Calls as people write them: `(a + 1)`, `~p`, `a.is_in([1, 2])`, `round(a, ndigits=1)`.

Operators stand in parentheses, so nobody needs their precedence to read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gapless.protocol.functions import option_text
from gapless.protocol.values import to_values

_INFIX = {
    "add_checked": "+",
    "subtract_checked": "-",
    "multiply_checked": "*",
    "true_divide": "/",
    "floor_divide": "//",
    "modulo_checked": "%",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and_kleene": "&",
    "or_kleene": "|",
}
_PREFIX = {"negate_checked": "-", "invert": "~"}


def call_text(function: str, args: Sequence[str], options: Mapping[str, Any]) -> str:
    """A call of a function; the arguments are as they print."""
    if function in _INFIX and len(args) == 2:
        return f"({args[0]} {_INFIX[function]} {args[1]})"
    if function in _PREFIX:
        return f"{_PREFIX[function]}{args[0]}"
    if function == "is_null" and not options:
        return f"{args[0]}.is_null()"
    if function == "is_in":
        return f"{args[0]}.is_in({to_values(options['value_set'])})"
    if function == "cast":
        unsafe = "" if options.get("safe", True) else ", safe=False"
        return f"{args[0]}.cast({options['type']}{unsafe})"
    named = [f"{k}={option_text(v)}" for k, v in options.items()]
    return f"{function}({', '.join([*args, *named])})"
