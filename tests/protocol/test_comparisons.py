"""Numbers mean in an expression what they mean in Python, at the edges of their types, too."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.expr import Expr, call, col, lit

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
EDGES = [2**p + d for p in (0, 24, 53, 62, 63) for d in (-1, 0, 1)]
NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([v for e in EDGES for v in (e, -e) if -(2**63) <= v < 2**63]),
    "uint64": st.integers(0, 2**64 - 1) | st.sampled_from([*EDGES, 2**64 - 1]),
    "int8": st.integers(-128, 127),
    "double": st.floats() | st.sampled_from([float(e) for e in EDGES]) | st.just(2.0**64),
    "float": st.floats(width=32),
}
Op = Callable[[Any, Any], Any]


@st.composite
def sides(draw: st.DrawFn) -> tuple[str, str, list[tuple[Any, Any]]]:
    one, other = draw(st.sampled_from(sorted(NUMBERS))), draw(st.sampled_from(sorted(NUMBERS)))
    pairs = st.tuples(st.none() | NUMBERS[one], st.none() | NUMBERS[other])
    return one, other, draw(st.lists(pairs, min_size=1, max_size=4))


@given(sides(), st.sampled_from(COMPARISONS))
def test_numbers_of_any_types_are_compared_as_python_compares_them(
    case: tuple[str, str, list[tuple[Any, Any]]], op: Op
) -> None:
    one, other, pairs = case
    a = pa.array([a for a, _ in pairs], one)
    b = pa.array([b for _, b in pairs], other)
    batch = pa.RecordBatch.from_arrays([a, b], ["a", "b"])
    wanted = [None if x is None or y is None else op(x, y) for x, y in pairs]
    assert op(col("a"), col("b")).evaluate(batch).to_pylist() == wanted
    constant = next((y for _, y in pairs if y is not None), None)
    if constant is not None:
        fits = isinstance(constant, float) or constant < 2**63
        for literal in [lit(constant, other), *([lit(constant)] if fits else [])]:
            got = op(col("a"), literal).evaluate(batch).to_pylist()
            assert got == [None if x is None else op(x, constant) for x, _ in pairs]


@given(
    st.sampled_from(["double", "float"]),
    st.lists(st.tuples(st.floats(width=32), st.floats(width=32).filter(bool)), max_size=3),
)
def test_floats_are_divided_and_rounded_down_as_python_does(
    t: str, pairs: list[tuple[float, float]]
) -> None:
    pairs = [*pairs, (1.0, 0.5), *([(1.0, 0.1), (-1.0, 0.1), (6.0, 0.1)] if t == "double" else [])]
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in pairs], t), "b": pa.array([b for _, b in pairs], t)}
    )
    got = (col("a") // col("b")).evaluate(batch)
    assert got.type == pa.type_for_alias(t)
    if t == "double":
        wanted = [a // b for a, b in pairs]
        assert list(map(repr, got.to_pylist())) == list(map(repr, wanted))
    for (a, b), whole in zip(pairs, got.to_pylist(), strict=True):
        rest = (lit(a, t) % lit(b, t)).evaluate(batch.slice(0, 1))[0].as_py()
        if math.isfinite(whole) and math.isfinite(b) and abs(whole) < 2**20:
            assert whole * b + rest == pytest.approx(a, rel=1e-5, abs=1e-5 * abs(b))


def test_a_quotient_of_null_is_null_and_of_constants_a_constant() -> None:
    batch = pa.record_batch({"a": pa.array([1.0, None, 7.5])})
    assert (col("a") // 0.1).evaluate(batch).to_pylist() == [9.0, None, 74.0]
    assert (lit(1.0) // col("a")).evaluate(batch).to_pylist() == [1.0, None, 0.0]
    assert (lit(1.0) // lit(0.1)).evaluate(batch).to_pylist() == [9.0] * 3


@pytest.mark.parametrize("t", ["int64", "double", "string", "timestamp[ms]", "bool"])
def test_nothing_is_in_a_set_of_nothing_whatever_its_type(t: str) -> None:
    value = "a" if t == "string" else t == "bool" or 1
    batch = pa.record_batch({"a": pa.array([value, None], pa.type_for_alias(t))})

    def of(tree: Expr) -> list[Any]:
        read = Expr.from_document(tree.to_document())
        assert read.evaluate(batch).to_pylist() == tree.evaluate(batch).to_pylist()
        answers: list[Any] = tree.evaluate(batch).to_pylist()
        return answers

    assert of(col("a").is_in([])) == [False, False]
    assert of(col("a").is_in([None])) == [False, True]
    assert of(call("is_in", col("a"), value_set=pa.nulls(1), skip_nulls=True)) == [False, False]
    assert of(call("index_in", col("a"), value_set=pa.nulls(1))) == [None, 0]
