"""What every expression offers by itself: Python's operators, and functions of any value.

    (col("len") + 1) // 2        col("len").sqrt()        col("src").is_in(["a", "b"])

Functions of text, times and lists stand apart, in `x.str`, `x.dt` and `x.list`. Arithmetic is
checked: what has no answer (an overflow, the logarithm of zero, the root of a negative number)
fails for its row, where DuckDB gives NaN or infinity.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.protocol.constant import type_of
from gapless.protocol.errors import ExpressionError
from gapless.protocol.function_table import Spelling, listed
from gapless.protocol.functions import ARROW_ERRORS

if TYPE_CHECKING:
    from gapless.protocol.expr import Expr

_value = partial(listed, "")
_FAILS = "Elsewhere the row fails; DuckDB gives NaN or infinity."


def _call(function: str, *args: Any, **options: Any) -> Expr:
    from gapless.protocol.expr import call  # expr.py stands on this module

    return call(function, *args, **options)


def _double(x: Expr) -> Expr:
    return x.cast("double", safe=False)


def _sql_round(x: Expr, ndigits: int = 0) -> Expr:
    return _call("round", x, ndigits=ndigits, round_mode="half_towards_infinity")


class Operations:
    """What can be done with any expression."""

    __slots__ = ()

    # -- operators ----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return _call("add_checked", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _call("add_checked", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _call("subtract_checked", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _call("subtract_checked", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _call("multiply_checked", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _call("multiply_checked", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _call("true_divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _call("true_divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _call("modulo_checked", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _call("modulo_checked", other, self)

    def __pow__(self, other: Any) -> Expr:
        return _call("power_checked", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return _call("power_checked", other, self)

    def __neg__(self) -> Expr:
        return _call("negate_checked", self)

    def __abs__(self) -> Expr:
        return self.abs()

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # builds a tree
        return _call("equal", self, _not_none(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # builds a tree
        return _call("not_equal", self, _not_none(other))

    def __lt__(self, other: Any) -> Expr:
        return _call("less", self, _not_none(other))

    def __le__(self, other: Any) -> Expr:
        return _call("less_equal", self, _not_none(other))

    def __gt__(self, other: Any) -> Expr:
        return _call("greater", self, _not_none(other))

    def __ge__(self, other: Any) -> Expr:
        return _call("greater_equal", self, _not_none(other))

    def __and__(self, other: Any) -> Expr:
        return _call("and_kleene", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _call("and_kleene", other, self)

    def __or__(self, other: Any) -> Expr:
        return _call("or_kleene", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _call("or_kleene", other, self)

    def __invert__(self) -> Expr:
        return _call("invert", self)

    __hash__ = object.__hash__

    # -- null and membership ------------------------------------------------------------------

    @_value("is_null", "any -> bool", "x IS NULL")
    def is_null(self) -> Expr:
        """True where the value is null."""
        return _call("is_null", self)

    @_value("is_valid", "any -> bool", "x IS NOT NULL")
    def is_valid(self) -> Expr:
        """True where the value is not null."""
        return _call("is_valid", self)

    @_value("is_in", "any -> bool", "x IN values", note="Never null: SQL's is, beside null.")
    def is_in(self, values: Iterable[Any]) -> Expr:
        """True where the value is one of `values`; null is found where it is among them."""
        try:
            listed = pa.array(list(values))
        except ARROW_ERRORS as e:
            raise ExpressionError(f"is_in: {e}") from None
        return _call("is_in", self, value_set=listed)

    @_value("and_kleene", "any -> bool", "x BETWEEN low AND high")
    def between(self, low: Any, high: Any) -> Expr:
        """True where `low <= value <= high`."""
        return _call("and_kleene", self >= low, self <= high)

    @_value(
        "(is_distinct_from)",
        "any, same -> bool",
        "x IS DISTINCT FROM other",
        Spelling("x IS NOT DISTINCT FROM other", lambda x, other: ~x.is_distinct_from(other)),
    )
    def is_distinct_from(self, other: Any) -> Expr:
        """Whether the values differ, where null is a value that equals null."""
        return _call("is_distinct_from", self, other)

    @_value("(null_if)", "any, same -> the same", "NULLIF(x, other)")
    def null_if(self, other: Any) -> Expr:
        """Null where it equals `other`."""
        return _call("null_if", self, other)

    @_value("coalesce", "any -> the same", "IFNULL(x, value)")
    def fill_null(self, value: Any) -> Expr:
        """`value` in place of null."""
        return _call("coalesce", self, value)

    # -- types --------------------------------------------------------------------------------

    @_value(
        "cast", "any -> type", "CAST(x AS type)", note="2.5 is no integer; DuckDB makes it 3 or 2."
    )
    def cast(self, to: pa.DataType | str, safe: bool = True) -> Expr:
        """The value as another type; where it does not fit an error, or if not `safe` what C
        makes of it.
        """
        return _call("cast", self, type=type_of(to), safe=safe)

    @_value("cast (try_cast)", "any -> type", "TRY_CAST(x AS type)", note="As `cast`.")
    def try_cast(self, to: pa.DataType | str) -> Expr:
        """The value as another type; null where it does not fit."""
        return _call("try_cast", self, type=type_of(to))

    # -- rounding -----------------------------------------------------------------------------

    @_value("abs_checked", "number -> the same", "ABS(x)")
    def abs(self) -> Expr:
        """The number without its sign."""
        return _call("abs_checked", self)

    @_value("sign", "number -> int8, or double", "SIGN(x)", note="NaN of NaN; DuckDB has 0.")
    def sign(self) -> Expr:
        """-1, 0 or 1."""
        return _call("sign", self)

    @_value(
        "round",
        "number -> the same",
        Spelling("ROUND(x[, ndigits])", _sql_round),
        note="Halves go to the even digit, as in Python; in SQL away from zero, as in DuckDB.",
    )
    def round(self, ndigits: int = 0) -> Expr:
        """The number with so many digits behind the point."""
        return _call("round", self, ndigits=ndigits)

    @_value("floor", "number -> double", "FLOOR(x)")
    def floor(self) -> Expr:
        """The next whole number below."""
        return _call("floor", self)

    @_value("ceil", "number -> double", "CEIL(x)", "CEILING(x)")
    def ceil(self) -> Expr:
        """The next whole number above."""
        return _call("ceil", self)

    @_value("trunc", "number -> double", "TRUNC(x)")
    def trunc(self) -> Expr:
        """The number without its fraction."""
        return _call("trunc", self)

    # -- powers and logarithms ----------------------------------------------------------------

    @_value("sqrt_checked", "number -> double", "SQRT(x)", note=_FAILS)
    def sqrt(self) -> Expr:
        """The square root."""
        return _call("sqrt_checked", self)

    @_value("exp", "number -> double", "EXP(x)")
    def exp(self) -> Expr:
        """Euler's number to this power."""
        return _call("exp", self)

    @_value("ln_checked", "number -> double", "LN(x)", note=_FAILS)
    def ln(self) -> Expr:
        """The natural logarithm."""
        return _call("ln_checked", self)

    @_value("log10_checked", "number -> double", "LOG10(x)", "LOG(x)", note=_FAILS)
    def log10(self) -> Expr:
        """The logarithm to base 10."""
        return _call("log10_checked", self)

    @_value("log2_checked", "number -> double", "LOG2(x)", note=_FAILS)
    def log2(self) -> Expr:
        """The logarithm to base 2."""
        return _call("log2_checked", self)

    @_value(
        "power_checked",
        "number, number -> number",
        Spelling("POWER(x, y)", lambda x, y: _double(x) ** _double(y)),
        Spelling("POW(x, y)", lambda x, y: _double(x) ** _double(y)),
        note="SQL's is a double. In Python `x ** y`, of integers an integer.",
    )
    def power(self, exponent: Any) -> Expr:
        """The number to a power."""
        return _call("power_checked", self, exponent)

    @_value(
        "remainder_checked",
        "number, number -> number",
        "MOD(x, divisor)",
        "x % divisor",
        note="SQL's `%` takes the sign of x; Python's that of the divisor.",
    )
    def remainder(self, divisor: Any) -> Expr:
        """What is left of a division that rounds toward zero."""
        return _call("remainder_checked", self, divisor)

    # -- trigonometry -------------------------------------------------------------------------

    @_value("sin_checked", "number -> double", "SIN(x)", note=_FAILS)
    def sin(self) -> Expr:
        """The sine, of radians."""
        return _call("sin_checked", self)

    @_value("cos_checked", "number -> double", "COS(x)", note=_FAILS)
    def cos(self) -> Expr:
        """The cosine, of radians."""
        return _call("cos_checked", self)

    @_value("tan_checked", "number -> double", "TAN(x)", note=_FAILS)
    def tan(self) -> Expr:
        """The tangent, of radians."""
        return _call("tan_checked", self)

    @_value("asin_checked", "number -> double", "ASIN(x)", note=_FAILS)
    def asin(self) -> Expr:
        """The angle of a sine, in radians."""
        return _call("asin_checked", self)

    @_value("acos_checked", "number -> double", "ACOS(x)", note=_FAILS)
    def acos(self) -> Expr:
        """The angle of a cosine, in radians."""
        return _call("acos_checked", self)

    @_value("atan", "number -> double", "ATAN(x)")
    def atan(self) -> Expr:
        """The angle of a tangent, in radians."""
        return _call("atan", self)

    @_value("atan2", "number, number -> double", "ATAN2(y, x)")
    def atan2(self, x: Any) -> Expr:
        """The angle of the point (x, this one), in radians."""
        return _call("atan2", self, x)

    # -- bits and floats ----------------------------------------------------------------------

    @_value("bit_wise_and", "integer, integer -> integer", "x & other")
    def bit_and(self, other: Any) -> Expr:
        """The bits that both have."""
        return _call("bit_wise_and", self, other)

    @_value("bit_wise_or", "integer, integer -> integer", "x | other")
    def bit_or(self, other: Any) -> Expr:
        """The bits that one of them has."""
        return _call("bit_wise_or", self, other)

    @_value("bit_wise_xor", "integer, integer -> integer", "XOR(x, other)")
    def bit_xor(self, other: Any) -> Expr:
        """The bits that just one of them has."""
        return _call("bit_wise_xor", self, other)

    @_value("is_nan", "number -> bool", "ISNAN(x)")
    def is_nan(self) -> Expr:
        """Whether it is NaN."""
        return _call("is_nan", self)

    @_value("is_finite", "number -> bool", "ISFINITE(x)")
    def is_finite(self) -> Expr:
        """Whether it is neither NaN nor infinite."""
        return _call("is_finite", self)


def _not_none(value: Any) -> Any:
    if value is None:
        raise ExpressionError("comparing with None gives null in each row: use is_null()")
    return value
