"""Columns, rows and random trees that tests of expressions share."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from gapless.protocol.expr import Expr, col, if_else, lit

A, B, P, Q = col("a"), col("b"), col("p"), col("q")
INTS = st.none() | st.integers(-4, 4)
ROWS = st.lists(st.tuples(INTS, INTS, st.none() | st.booleans(), st.none() | st.booleans()))
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("p", pa.bool_()), ("q", pa.bool_())])
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
ARITHMETIC = [operator.add, operator.sub, operator.mul]


def batch_of(rows: list[Any]) -> pa.RecordBatch:
    """Rows of SCHEMA."""
    columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def trees() -> st.SearchStrategy[Expr]:
    """Trees whose types fit, over SCHEMA."""
    numbers = st.sampled_from([A, B]) | st.integers(-3, 3).map(lit)
    truths = st.sampled_from([P, Q]) | st.booleans().map(lit)

    def grow(pair: tuple[st.SearchStrategy[Expr], st.SearchStrategy[Expr]]) -> Any:
        n, t = pair
        bigger = st.builds(lambda op, a, b: op(a, b), st.sampled_from(ARITHMETIC), n, n)
        bigger |= st.builds(if_else, t, n, n) | n.map(lambda a: a.cast("int64"))
        bigger |= st.builds(lambda a, b: a % if_else(b == 0, None, b), n, n)
        truer = st.builds(lambda op, a, b: op(a, b), st.sampled_from(COMPARISONS), n, n)
        truer |= (
            st.builds(operator.and_, t, t) | st.builds(operator.or_, t, t) | t.map(lambda a: ~a)
        )
        truer |= n.map(lambda a: a.is_in([1, None])) | n.map(lambda a: a.is_null())
        return bigger | n, truer | t

    pair = (numbers, truths)
    for _ in range(3):
        pair = grow(pair)
    return pair[0] | pair[1]
