"""Functions by their names in SQL: those of `gl.col`, from the table in `protocol`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gapless.protocol.expr import Expr
from gapless.protocol.sql_functions import sql_function, sql_functions

_ONE_ROW = pa.record_batch({"": pa.nulls(1)})


class BadArgument(ValueError):
    """An argument that has to be a constant, and is none."""


def constant(value: Expr, what: str) -> Any:
    """The value of an expression without columns."""
    if value.columns:
        raise BadArgument(f"{what} has to be a constant")
    return value.evaluate(_ONE_ROW)[0].as_py()


def is_function(name: str) -> bool:
    """Whether SQL calls a function so."""
    return name.isidentifier() and name.upper() in sql_functions()


def names() -> list[str]:
    """What SQL calls, other than operators and syntax."""
    return [name.lower() for name in sql_functions() if name.isidentifier()]


def called(name: str, *arguments: Expr) -> Expr:
    """A function or an operator of these arguments, in the order they are written."""
    return sql_function(name, *arguments)


def part_of(part: str, value: Expr) -> Expr:
    """EXTRACT(part FROM value)."""
    key = f"EXTRACT {part.upper()} FROM"
    if key not in sql_functions():
        parts = (k.split()[1] for k in sql_functions() if k.startswith("EXTRACT "))
        raise BadArgument(f"no part {part}: there are {', '.join(parts)}")
    return called(key, value)
