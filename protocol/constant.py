"""A constant of an expression, and the type that it takes beside a column.

    lit(5)             int64, not said: compared with a uint8 column a uint8; a uint64 beside one
    lit(300)           compared with a uint8 column an int64: no uint8 holds it
    lit(5, "int8")     an int8, whatever stands beside it

Taking its neighbour's type changes no answer of a comparison. It saves Arrow casting all of the
column, which takes four times as long. A uint64 beside an int64 has no common type that holds both,
so there a bare number that is not negative is a uint64.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from gapless.protocol.documents import Document
from gapless.protocol.errors import ExpressionError, FrameError, SchemaError
from gapless.protocol.functions import ARROW_ERRORS, operand
from gapless.protocol.plain import (
    PLAIN,
    column,
    type_from_plain,
    type_to_plain,
    value_from_plain,
    value_to_plain,
)
from gapless.protocol.schema import check_type
from gapless.protocol.type_text import type_of_text
from gapless.protocol.values import from_values, to_values


class Constant:
    """One value of an Arrow type, which somebody has said or not."""

    __slots__ = ("_beside", "is_typed", "scalar")

    def __init__(self, scalar: pa.Scalar, is_typed: bool) -> None:
        if not pa.types.is_null(scalar.type):
            try:
                check_type("literal", scalar.type)
            except SchemaError as e:
                raise ExpressionError(str(e)) from None
        self.scalar = scalar
        self.is_typed = is_typed
        self._beside: dict[int, pa.Scalar] = {}  # by the id of a type

    @staticmethod
    def of(value: Any, t: pa.DataType | str | None = None) -> Constant:
        """Of a Python value or an Arrow scalar, of the given type if one is given."""
        is_typed = t is not None or not (value is None or value.__class__ in PLAIN)
        try:
            if t is None:
                scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
            else:
                scalar = _scalar(value, type_of(t))
            if pa.types.is_dictionary(scalar.type):
                scalar = from_values(to_values(pa.repeat(scalar, 1)), scalar.type.value_type)[0]
        except (FrameError, *ARROW_ERRORS) as e:
            raise ExpressionError(f"lit({value!r}): {e}") from None
        return Constant(scalar, is_typed)

    # -- beside others ------------------------------------------------------------------------

    def beside(self, t: pa.DataType) -> pa.Scalar:
        """As one of type `t` if both are integers and `t` holds it: for a comparison."""
        known = self._beside.get(t.id)
        if known is None:
            known = self._beside[t.id] = _as_integer(self.scalar, t)
        return known

    def beside_uint64(self, value: pa.Scalar) -> pa.Scalar:
        """`value`, as which this goes into a function that has a uint64 beside it: as a uint64 too,
        if its type was not said and it is not negative.
        """
        if self.is_typed or value.type != pa.int64():
            return value
        number = value.as_py()
        return pa.scalar(number, pa.uint64()) if number >= 0 else value

    # -- as data and text ---------------------------------------------------------------------

    def _canonical(self) -> Any:
        return to_values(pa.repeat(self.scalar, 1))[0]

    def to_plain(self) -> tuple[Document, Document]:
        """Its type and value as plain data; the type is None where it was not said."""
        t = type_to_plain(self.scalar.type) if self.is_typed else None
        return t, value_to_plain(self._canonical())

    @staticmethod
    def from_plain(t: str | bytes, value: Document) -> Constant:
        """Of a type that was said, from what `to_plain` gave. Raises `DecodeError`."""
        return Constant(column([value_from_plain(value)], type_from_plain(t))[0], True)

    def __str__(self) -> str:
        value = self._canonical()
        if not self.is_typed:
            return repr(value)
        shown = str(value) if isinstance(value, Decimal) else repr(value)
        return f"lit({shown}, {str(self.scalar.type)!r})"


def type_of(given: pa.DataType | str) -> pa.DataType:
    """A type, or the one of that name. Raises `ExpressionError`."""
    try:
        return type_of_text(given) if isinstance(given, str) else given
    except SchemaError as e:
        raise ExpressionError(str(e)) from None


def _scalar(value: Any, t: pa.DataType) -> pa.Scalar:
    if pa.types.is_dictionary(t):
        t = t.value_type
    if isinstance(value, pa.Scalar):
        return value.cast(t)
    if pa.types.is_nested(t) and isinstance(value, tuple):
        return from_values([value], t)[0]
    return pa.scalar(value, t)


def _as_integer(value: pa.Scalar, t: pa.DataType) -> pa.Scalar:
    """An integer as one of integer type `t`, if that holds it; any other value as it is."""
    both = pa.types.is_integer(value.type) and pa.types.is_integer(t)
    if not both or t == pa.uint64() or not value.is_valid:
        return operand(value)
    try:
        return value.cast(t)
    except pa.ArrowInvalid:
        return value
