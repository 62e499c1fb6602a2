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
    if function == "try_cast":
        return f"{args[0]}.try_cast({options['type']})"
    if function == "case":
        pairs = [f"({when}, {then})" for when, then in zip(args[:-1:2], args[1::2], strict=True)]
        return f"case({', '.join(pairs)}, otherwise={args[-1]})"
    as_method = _method_text(function, args, options)
    if as_method is not None:
        return as_method
    named = [f"{k}={option_text(v)}" for k, v in options.items()]
    return f"{function}({', '.join([*args, *named])})"


def _method_text(function: str, args: Sequence[str], options: Mapping[str, Any]) -> str | None:
    """As a method of its first argument, where the table has one with these options."""
    from gapless.protocol.sql_functions import methods_of  # the table stands on expressions

    for row in methods_of(function):
        constants = [p for p in row.parameters if p.name in row.constants]
        names = {p.name for p in constants}
        has_all = all(p.name in options or p.default is not p.empty for p in constants)
        if not has_all or not options.keys() <= names:
            continue
        if len(args) - 1 != len(row.parameters) - len(constants):
            continue
        given = [f"{v}" for v in args[1:]]
        for p in constants:
            if p.name in options and not _is_default(p.default, options[p.name]):
                shown = option_text(options[p.name])
                given.append(shown if p.default is p.empty else f"{p.name}={shown}")
        x = args[0]
        if x[0] in "-~":
            x = f"({x})"
        elif x[0].isdigit() or x[0] in "'\"":
            x = f"lit({x})"
        call = f"{x}.{row.place}.{row.name}" if row.place else f"{x}.{row.name}"
        return call if row.is_property else f"{call}({', '.join(given)})"
    return None


def _is_default(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)
