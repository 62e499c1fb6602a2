"""Columns, rows and random trees that tests of expressions share."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from gapless.protocol.conditions import case, coalesce, greatest, least
from gapless.protocol.expr import Expr, col, if_else, lit

Strategy = st.SearchStrategy[Expr]
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


def functions_of_numbers(n: Strategy, t: Strategy) -> Strategy:
    """Numbers of numbers and truths, by functions of the table; none fails for small numbers."""
    texts = n.map(lambda a: a.cast("string"))
    found = n.map(lambda a: a.abs()) | n.map(lambda a: a.round(-1)) | n.map(lambda a: a.bit_xor(5))
    found |= st.builds(lambda a, b: a.null_if(b), n, n) | st.builds(coalesce, n, n)
    found |= st.builds(greatest, n, n) | st.builds(least, n, n)
    found |= st.builds(lambda p, a, b: case((p, a), otherwise=b), t, n, n)
    found |= texts.map(lambda a: a.str.length()) | texts.map(lambda a: a.str.find("1"))
    found |= texts.map(lambda a: a.str.lpad(3, "0").str.slice(1).try_cast("int64"))
    found |= texts.map(lambda a: a.str.split("-").list.length())
    found |= texts.map(lambda a: a.str.split("1").list.get(-1).str.count("-"))
    times = n.map(lambda a: (a.cast("int64") * 86_399).cast("timestamp[s]"))
    found |= times.map(lambda a: a.dt.hour) | times.map(lambda a: a.dt.truncate("week").dt.epoch())
    return found


def functions_of_truths(n: Strategy) -> Strategy:
    """Truths of numbers, by functions of the table."""
    texts = n.map(lambda a: a.cast("string"))
    found = st.builds(lambda a, b: a.is_distinct_from(b), n, n) | n.map(lambda a: a.is_valid())
    found |= texts.map(lambda a: a.str.contains("-")) | texts.map(lambda a: a.str.like("_1%"))
    found |= texts.map(lambda a: a.str.matches("^-?1")) | texts.map(
        lambda a: a.str.starts_with("2")
    )
    found |= texts.map(lambda a: a.str.split("-").list.contains("1"))
    found |= texts.map(lambda a: a.str.extract("(-?)(.)", 2) == "1")
    return found


def trees(with_functions: bool = True) -> st.SearchStrategy[Expr]:
    """Trees whose types fit, over SCHEMA; of Arrow's own functions alone, or with the table's."""
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
        if with_functions:
            bigger |= functions_of_numbers(n, t)
            truer |= functions_of_truths(n)
        return bigger | n, truer | t

    pair = (numbers, truths)
    for _ in range(3):
        pair = grow(pair)
    return pair[0] | pair[1]
