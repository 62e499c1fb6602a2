"""A tree prints as it was written."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from gapless.protocol.conditions import case
from gapless.protocol.expr import Expr, call, col, if_else, lit
from tests.protocol.expressions import A, B, P

PRINTED = [
    ((col("len") > 0) & (col("src") == 3), "((len > 0) & (src == 3))"),
    (~(A / 2 - 7 // B) | P, "(~((a / 2) - (7 // b)) | p)"),
    (-A * (B % 3), "(-a * (b % 3))"),
    (A.is_null() | B.is_in([1, None]), "(a.is_null() | b.is_in([1, None]))"),
    (A.cast("int8") + B.cast(pa.decimal128(5, 2), safe=False),
     "(a.cast(int8) + b.cast(decimal128(5, 2), safe=False))"),
    (if_else(A.between(0, 9), "x", None), "if_else(((a >= 0) & (a <= 9)), 'x', None)"),
    (call("round", col("a b"), ndigits=1), "col('a b').round(ndigits=1)"),
    (call("strftime", A, format="%H", locale="C"), "strftime(a, format='%H', locale='C')"),
    (A.str.lower().str.like("x%", ignore_case=True),
     "a.str.lower().str.like('x%', ignore_case=True)"),
    ((-A).sqrt() + lit(2).exp(), "((-a).sqrt() + lit(2).exp())"),
    (A.dt.hour == A.dt.truncate("day", 2).dt.epoch(),
     "(a.dt.hour == a.dt.truncate('day', multiple=2).dt.epoch())"),
    (A.str.trim().str.split("-").list.get(-1), "a.str.trim().str.split('-').list.get(-1)"),
    (case((A > 1, "x"), (P, "y"), otherwise="z"), "case(((a > 1), 'x'), (p, 'y'), otherwise='z')"),
    (A.try_cast("int8"), "a.try_cast(int8)"),
    (lit(Decimal("2.50")) <= A, "(lit(2.50, 'decimal128(3, 2)') <= a)"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "text"), PRINTED, ids=[text for _, text in PRINTED])
def test_a_tree_prints_as_it_was_written(tree: Expr, text: str) -> None:
    assert str(tree) == repr(tree) == text
