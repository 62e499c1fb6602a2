"""The table of functions: each method of an expression, and how SQL spells it.

    @listed("str", "match_substring", "text -> bool", "CONTAINS(x, pattern)")
    def contains(self, pattern: str, ignore_case: bool = False) -> Expr:

One line says where the function stands (`x.str.contains`), which function of `pyarrow.compute` it
is, its types, and its spellings in SQL. The method's own signature and docstring say the rest. So
there is one place to read: Python, SQL, the page docs/functions.md and the tests that compare each
row with DuckDB are all made from it.

In a spelling, words in small letters are the arguments, `x` the expression itself; those in
brackets may be left out, and `...` is any number of them:

    SUBSTRING(x, start[, length])        x LIKE pattern        CONCAT(x, ...)

An argument that the method takes as a `str`, an `int` or a `bool` is a constant, the same for all
rows; any other is an expression.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

from gapless.protocol.errors import ExpressionError

_CONSTANTS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,)}
"""Annotations of parameters that are the same for all rows."""

_CALLED = {str: "a text", int: "a whole number", bool: "True or False"}

_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Spelling:
    """One way to write a function in SQL."""

    text: str
    """As it is written."""
    make: Callable[..., Any] | None = None
    """The expression of its arguments, in their order; None: the method itself."""

    @cached_property
    def key(self) -> str:
        """What it is found by: the words in capitals, or the operator."""
        return " ".join(re.findall(r"[A-Z][A-Z0-9_]*|[|%&]+", self.text))

    @cached_property
    def arguments(self) -> list[str]:
        """The names of the arguments, in the order in which they are written."""
        return re.findall(r"\b[a-z_]+\b", self.text)

    @cached_property
    def least(self) -> int:
        """How many arguments there are at least."""
        return len(re.findall(r"\b[a-z_]+\b", self.text.partition("[")[0]))

    @cached_property
    def most(self) -> float:
        """How many there are at most."""
        return float("inf") if "..." in self.text else len(self.arguments)


@dataclass(frozen=True)
class Function:
    """A row of the table."""

    place: str
    """Where it stands: "str", "dt" or "list", "" of any expression, "gl" of the package."""
    arrow: str
    """The functions of `pyarrow.compute` that it is; in brackets those of ours that stand for
    several."""
    types: str
    """What it takes and gives, as in "text -> bool"."""
    spellings: tuple[Spelling, ...]
    note: str
    """Where DuckDB's answer is another one."""
    method: Callable[..., Any]
    is_property: bool = False
    """Whether it is written without parentheses."""

    @property
    def name(self) -> str:
        """Its name in Python."""
        return self.method.__name__

    @property
    def doc(self) -> str:
        """What it answers."""
        return " ".join(inspect.cleandoc(self.method.__doc__ or "").split("\n\n")[0].split())

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """What it takes beside the expression itself."""
        parameters = list(inspect.signature(self.method).parameters.values())
        return parameters if self.place == "gl" else parameters[1:]

    @cached_property
    def constants(self) -> dict[str, tuple[type, ...]]:
        """The types of the parameters that are the same for all rows."""
        return constant_types(self.method)

    @cached_property
    def python(self) -> str:
        """How it is written in Python."""
        x = {"": "x.", "gl": "gl."}.get(self.place, f"x.{self.place}.")
        if self.is_property:
            return f"{x}{self.name}"
        given = [str(p.replace(annotation=inspect.Parameter.empty)) for p in self.parameters]
        return f"{x}{self.name}({', '.join(given)})"

    @cached_property
    def functions(self) -> list[str]:
        """The functions that it calls, by name."""
        return re.findall(r"\w+", self.arrow)


def listed(
    place: str, arrow: str, types: str, *sql: str | Spelling, note: str = ""
) -> Callable[[_Method], _Method]:
    """Puts a method into the table, and has it refuse what is not the constant it takes."""

    def decorate(method: _Method) -> _Method:
        signature = inspect.signature(method)
        constants = constant_types(method)

        @wraps(method)
        def checked(*args: Any, **options: Any) -> Any:
            given = signature.bind(*args, **options).arguments
            for name, types in constants.items():
                if name in given:
                    default = signature.parameters[name].default
                    _check_constant(method.__name__, name, given[name], types, default)
            return method(*args, **options)

        spellings = tuple(Spelling(s) if isinstance(s, str) else s for s in sql)
        checked.row = Function(place, arrow, types, spellings, note, method)  # type: ignore[attr-defined]  # read by rows_of
        return cast(_Method, checked)

    return decorate


def constant_types(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """The types of the parameters that are constants."""
    annotations = {
        name: str(parameter.annotation).partition(" |")[0]
        for name, parameter in inspect.signature(function).parameters.items()
    }
    return {name: _CONSTANTS[t] for name, t in annotations.items() if t in _CONSTANTS}


def _check_constant(
    function: str, name: str, value: Any, types: tuple[type, ...], default: Any
) -> None:
    if value is default or type(value) in types:
        return
    raise ExpressionError(
        f"{function}: {name} is the same for all rows: give {called(types)}, not {value!r}"
    )


def called(types: tuple[type, ...]) -> str:
    """What a constant of these types is called."""
    return " or ".join(_CALLED[t] for t in types)


def rows_of(*holders: Any) -> Iterator[Function]:
    """The rows of some classes and modules, in the order in which they are written."""
    for holder in holders:
        for member in vars(holder).values():
            is_property = isinstance(member, property)
            row = getattr(member.fget if is_property else member, "row", None)
            if isinstance(row, Function):
                yield replace(row, is_property=is_property)
