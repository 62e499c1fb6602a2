"""The whole table of functions, and the functions of SQL that it spells.

    sql_function("SUBSTRING", col("name"), lit(2), lit(3))        name.str.slice(1, 4)

A constant of SQL is an expression without columns: `-1`, or `2 * 60`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from gapless.protocol import conditions, expr
from gapless.protocol.date_functions import DateFunctions
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr
from gapless.protocol.function_table import Function, Spelling, called, constant_types, rows_of
from gapless.protocol.list_functions import ListFunctions
from gapless.protocol.operations import Operations
from gapless.protocol.text_functions import TextFunctions

_ONE_ROW = pa.record_batch({"": pa.nulls(1)})
_SYNTAX = frozenset({"type", "values", "condition"})
"""Arguments that are no expressions: spellings that have one are for a parser to take apart."""


class SqlFunction(NamedTuple):
    """A spelling, and the row that it stands in."""

    spelling: Spelling
    function: Function


@cache
def table() -> tuple[Function, ...]:
    """All functions."""
    return tuple(rows_of(Operations, expr, conditions, TextFunctions, DateFunctions, ListFunctions))


@cache
def methods_of(function: str) -> tuple[Function, ...]:
    """The methods that call a function of `pyarrow.compute`, or one of ours."""
    return tuple(row for row in table() if row.place != "gl" and function in row.functions)


@cache
def sql_functions() -> Mapping[str, SqlFunction]:
    """What SQL calls, by its name in capitals: "SUBSTRING", "LIKE", "EXTRACT DOW FROM", "||"."""
    return {
        spelling.key: SqlFunction(spelling, row)
        for row in table()
        for spelling in row.spellings
        if not _SYNTAX & set(spelling.arguments)
    }


def sql_function(name: str, *args: Expr) -> Expr:
    """The expression that a function of SQL is, of its arguments in the order they are written.

    Raises `ExpressionError`, for an unknown function with the names that are near.
    """
    found = sql_functions().get(name.upper())
    if found is None:
        near = get_close_matches(name.upper(), sql_functions(), n=3)
        meant = f": did you mean {', '.join(near)}?" if near else ""
        raise ExpressionError(f"SQL has no function {name}{meant}")
    spelling, row = found
    if not spelling.least <= len(args) <= spelling.most:
        raise ExpressionError(f"{name}: {len(args)} arguments; write {spelling.text}")
    make = spelling.make or row.method
    constants = {**row.constants, **constant_types(make)}
    given = [
        _constant(spelling, argument, value, constants[argument])
        if argument in constants
        else value
        for argument, value in zip(_names(spelling, len(args)), args, strict=True)
    ]
    if spelling.make is not None or row.place == "gl":
        made: Expr = make(*given)
        return made
    x = given[0]
    of_method: Expr = make(getattr(x, row.place) if row.place else x, *given[1:])
    return of_method


def _names(spelling: Spelling, count: int) -> list[str]:
    names = spelling.arguments[:count]
    return names + [""] * (count - len(names))


def _constant(spelling: Spelling, name: str, value: Expr, types: tuple[type, ...]) -> object:
    if value.columns:
        raise ExpressionError(
            f"{spelling.text}: {name} is the same for all rows: give a constant, not {value}"
        )
    constant = value.evaluate(_ONE_ROW)[0].as_py()
    if type(constant) not in types:
        raise ExpressionError(f"{spelling.text}: {name} is {called(types)}, not {value}")
    return constant
