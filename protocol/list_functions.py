"""Functions of lists: `col("tags").list.length()`.

Places count from 0, as in Python; SQL's, which count from 1, are translated.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr, call
from gapless.protocol.expr_aliases import of_lists
from gapless.protocol.function_table import Spelling, listed

_list = partial(listed, "list")


def _extract(x: Expr, place: int) -> Expr:
    if place == 0:
        raise ExpressionError("LIST_EXTRACT: SQL counts places from 1, or from -1 at the end")
    return x.list.get(place - 1 if place > 0 else place)


class ListFunctions:
    """What an expression's `list` has."""

    __slots__ = ("_x",)

    def __init__(self, x: Expr) -> None:
        self._x = x

    if not TYPE_CHECKING:  # a type checker is to find such a name

        def __getattr__(self, name: str) -> Any:
            return of_lists(self, name)

    @_list(
        "list_value_length",
        "list -> int32",
        "LEN(x)",
        "ARRAY_LENGTH(x)",
        "CARDINALITY(x)",
    )
    def length(self) -> Expr:
        """How many elements the list has."""
        return call("list_value_length", self._x)

    @_list(
        "list_element (list_get)",
        "list -> its element",
        Spelling("LIST_EXTRACT(x, place)", _extract),
        Spelling("LIST_ELEMENT(x, place)", _extract),
        note="Place 0 is refused in SQL.",
    )
    def get(self, place: int) -> Expr:
        """The element at a place, from the end if negative; null where there is none."""
        return call("list_get", self._x, place=place)

    @_list("list_slice", "list -> list")
    def slice(self, start: int, stop: int | None = None) -> Expr:
        """The elements from place `start` up to `stop`; neither may be negative."""
        return call("list_slice", self._x, start=start, stop=stop)

    @_list(
        "(list_contains)",
        "list, element -> bool",
        "LIST_CONTAINS(x, value)",
        "ARRAY_CONTAINS(x, value)",
        "LIST_HAS(x, value)",
    )
    def contains(self, value: Any) -> Expr:
        """Whether an element equals `value`; null where the list or the value is."""
        return call("list_contains", self._x, value)

    @_list("binary_join", "list of text -> text")
    def join(self, separator: str = "") -> Expr:
        """The texts one behind another; null where one of them is."""
        return call("binary_join", self._x, separator)
