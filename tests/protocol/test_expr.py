from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.documents import pack, unpack
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import DEPTH_MAX, NODES_MAX, Expr, call, col, if_else, lit
from gapless.protocol.values import from_values
from tests.protocol.expressions import (
    ARITHMETIC,
    COMPARISONS,
    INTS,
    ROWS,
    SCHEMA,
    A,
    B,
    P,
    Q,
    batch_of,
    trees,
)
from tests.protocol.strategies import values

# -- what the operators mean, row by row in Python ------------------------------------------------


def kleene_and(p: bool | None, q: bool | None) -> bool | None:
    return False if p is False or q is False else None if p is None or q is None else True


def kleene_or(p: bool | None, q: bool | None) -> bool | None:
    return True if p is True or q is True else None if p is None or q is None else False


DIVISIONS = [operator.truediv, operator.floordiv, operator.mod]


@pytest.mark.parametrize("op", COMPARISONS + ARITHMETIC, ids=lambda op: op.__name__)
@given(ROWS)
def test_operators_mean_what_they_mean_in_python_and_null_stays_null(
    op: Callable[[Any, Any], Any], rows: list[Any]
) -> None:
    wanted = [None if a is None or b is None else op(a, b) for a, b, _, _ in rows]
    assert op(A, B).evaluate(batch_of(rows)).to_pylist() == wanted
    by_a_constant = [None if a is None else op(a, 2) for a, _, _, _ in rows]
    assert op(A, 2).evaluate(batch_of(rows)).to_pylist() == by_a_constant
    of_a_constant = [None if a is None else op(2, a) for a, _, _, _ in rows]
    assert op(2, A).evaluate(batch_of(rows)).to_pylist() == of_a_constant


@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.__name__)
@given(ROWS)
def test_division_is_pythons_and_by_zero_an_error(
    op: Callable[[Any, Any], Any], rows: list[Any]
) -> None:
    batch = batch_of(rows)
    if any(b == 0 and a is not None for a, b, _, _ in rows):
        with pytest.raises(ExpressionError, match="zero"):
            op(A, B).evaluate(batch)
    guarded = op(A, if_else(B == 0, None, B)).evaluate(batch).to_pylist()
    assert guarded == [None if a is None or not b else op(a, b) for a, b, _, _ in rows]
    assert op(A, -3).evaluate(batch).to_pylist() == [
        None if a is None else op(a, -3) for a, _, _, _ in rows
    ]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).filter(bool))
def test_floor_division_is_exact_to_the_edges_of_int64(a: int, b: int) -> None:
    batch = pa.record_batch({"a": pa.array([a], pa.int64()), "b": pa.array([b], pa.int64())})
    if a // b > 2**63 - 1:
        with pytest.raises(ExpressionError, match="overflow"):
            (A // B).evaluate(batch)
    else:
        assert (A // B).evaluate(batch).to_pylist() == [a // b]


@given(ROWS)
def test_logic_is_kleenes(rows: list[Any]) -> None:
    batch = batch_of(rows)
    assert (P & Q).evaluate(batch).to_pylist() == [kleene_and(p, q) for _, _, p, q in rows]
    assert (P | Q).evaluate(batch).to_pylist() == [kleene_or(p, q) for _, _, p, q in rows]
    assert (~P).evaluate(batch).to_pylist() == [None if p is None else not p for _, _, p, _ in rows]


@given(ROWS, st.lists(INTS, max_size=3))
def test_the_named_ones_mean_what_they_say(rows: list[Any], listed: list[int | None]) -> None:
    batch = batch_of(rows)
    assert A.is_null().evaluate(batch).to_pylist() == [a is None for a, *_ in rows]
    assert A.is_in(listed).evaluate(batch).to_pylist() == [a in listed for a, *_ in rows]
    assert A.between(-1, 2).evaluate(batch).to_pylist() == [
        None if a is None else -1 <= a <= 2 for a, *_ in rows
    ]
    assert if_else(P, A, B).evaluate(batch).to_pylist() == [
        None if p is None else a if p else b for a, b, p, _ in rows
    ]
    assert (-A).evaluate(batch).to_pylist() == [None if a is None else -a for a, *_ in rows]
    assert lit(7).evaluate(batch).to_pylist() == [7] * len(rows)


@pytest.mark.parametrize("t", [pa.int8(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.__name__)
def test_an_integer_that_overflows_is_an_error_and_never_a_wrong_number(
    t: pa.DataType, op: Callable[[Any, Any], Any]
) -> None:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        a, b = data.draw(values(t, False)), data.draw(values(t, False))
        batch = pa.record_batch([pa.array([a], t), pa.array([b], t)], ["a", "b"])
        try:
            pa.array([op(a, b)], t)
        except (OverflowError, pa.ArrowInvalid):
            with pytest.raises(ExpressionError, match="overflow"):
                op(A, B).evaluate(batch)
        else:
            assert op(A, B).evaluate(batch).to_pylist() == [op(a, b)]

    check()


def test_functions_see_dictionaries_decoded_and_views_as_strings() -> None:
    words = ["x", None, "yy"]
    for t in (pa.string_view(), pa.dictionary(pa.int32(), pa.string_view()), pa.large_string()):
        batch = pa.record_batch([from_values(words, t)], ["a"])
        assert (A == "x").evaluate(batch).to_pylist() == [True, None, False]
        assert A.is_in(["yy", None]).evaluate(batch).to_pylist() == [False, True, True]
        assert call("utf8_length", A).evaluate(batch).to_pylist() == [1, None, 2]
        assert A.evaluate(batch).type == t


# -- mistakes ---------------------------------------------------------------------------------


MISTAKES: dict[str, Callable[[], Any]] = {
    "bool(A == 1)": lambda: bool(A == 1),
    "A == 1 and B == 2": lambda: A == 1 and B == 2,
    "1 < A < 3": lambda: 1 < A < 3,
    "A in [B]": lambda: A in [B],  # noqa: FURB171  # the mistake itself
    "A == None": lambda: A == None,  # noqa: E711  # the mistake itself
    "call('random')": lambda: call("random"),
    "call('sum', A)": lambda: call("sum", A),
    "call('no such function', A)": lambda: call("no such function", A),
    "call('add', A)": lambda: call("add", A),
    "call('coalesce')": lambda: call("coalesce"),
    "call('round', A, digits=3)": lambda: call("round", A, digits=3),
    "call('invert', A, digits=3)": lambda: call("invert", A, digits=3),
    "call('strptime', A)": lambda: call("strptime", A),
    "call('cast', A)": lambda: call("cast", A),
    "call('cast', A, type='int8')": lambda: call("cast", A, type="int8"),
    "A.cast('int7')": lambda: A.cast("int7"),
    "A.is_in([1, 'x'])": lambda: A.is_in([1, "x"]),
    "lit(map)": lambda: lit(pa.scalar([(1, 2)], pa.map_(pa.int8(), pa.int8()))),
    "lit(object())": lambda: lit(object()),
    "lit(2**70)": lambda: lit(2**70),
    "lit('x', 'int8')": lambda: lit("x", "int8"),
    "lit(300, 'int8')": lambda: lit(300, "int8"),
    "col('')": lambda: col(""),
    "A + object()": lambda: A + object(),
}


@pytest.mark.parametrize("make", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_shows_when_the_tree_is_built(make: Callable[[], Any]) -> None:
    with pytest.raises(ExpressionError):
        make()


def test_a_truth_value_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(ExpressionError, match=r"\(a == 1\).*use & \| ~"):
        bool(A == 1)


def test_a_type_that_does_not_fit_shows_on_an_empty_batch() -> None:
    assert (A + B).type(SCHEMA) == pa.int64()
    assert (A / B).type(SCHEMA) == pa.float64()
    assert (A > 1).type(SCHEMA) == pa.bool_()
    assert lit(None).type(SCHEMA) == pa.null()
    for wrong in (A + P, call("utf8_upper", A), A & P, col("z") > 1):
        with pytest.raises(ExpressionError):
            wrong.type(SCHEMA)
    with pytest.raises(ExpressionError, match="'z' among a, b, p, q"):
        (col("z") > 1).type(SCHEMA)


def test_what_does_not_fit_in_a_cast_is_an_error_unless_asked_for() -> None:
    batch = pa.record_batch({"a": [300]})
    with pytest.raises(ExpressionError, match=r"a\.cast\(int8\)"):
        A.cast("int8").evaluate(batch)
    assert A.cast("int8", safe=False).evaluate(batch).to_pylist() == [44]


def test_a_tree_has_a_bound_on_its_depth_and_size() -> None:
    deep = A
    for _ in range(DEPTH_MAX - 1):
        deep = ~deep
    assert Expr.from_document(unpack(pack(deep.to_document()))).same_as(deep)
    with pytest.raises(ExpressionError, match=str(DEPTH_MAX)):
        _ = ~deep
    with pytest.raises(ExpressionError, match=str(NODES_MAX)):
        call("coalesce", *[A] * NODES_MAX)
    doubled = A
    for _ in range(11):
        doubled = doubled + doubled
    with pytest.raises(ExpressionError, match=str(NODES_MAX)):
        _ = doubled + doubled


# -- trees as text and data -----------------------------------------------------------------------


def test_a_tree_knows_its_columns() -> None:
    assert if_else(lit(1) < A, B, A + col("c d")).columns == {"a", "b", "c d"}
    assert lit(1).columns == frozenset()


def test_trees_are_compared_by_what_they_say_and_keyed_by_what_they_are() -> None:
    assert (A + 1).same_as(col("a") + lit(1))
    assert not (A + 1).same_as(A + 1.0)
    assert not (A + 1).same_as(A + lit(1, "int64"))
    assert not (A + B).same_as(B + A)
    assert lit(math.nan).same_as(lit(-math.nan))
    one, other = A + 1, A + 1
    assert {one: 1, other: 2}[one] == 1


@given(trees(with_functions=False), ROWS)
def test_arrows_own_expression_answers_the_same(tree: Expr, rows: list[Any]) -> None:
    batch = batch_of(rows)
    table = ds.dataset(pa.table(batch)).to_table(columns={"x": tree.to_arrow()})
    assert table.column("x").to_pylist() == tree.evaluate(batch).to_pylist()


def test_arrow_has_no_floor_division_and_says_so() -> None:
    with pytest.raises(ExpressionError, match="after the scan"):
        (A // 2).to_arrow()
    assert (A / 2).to_arrow().equals(pc.divide_checked(
        pc.field("a").cast(pa.float64(), safe=False),
        pc.scalar(2).cast(pa.float64(), safe=False),
    ))  # fmt: skip


def test_zero_is_found_whatever_its_sign() -> None:
    batch = pa.record_batch({"f": pa.array([0.0, -0.0, 1.0, None])})
    for zero in (0.0, -0.0):
        assert col("f").is_in([zero]).evaluate(batch).to_pylist() == [True, True, False, False]
        assert col("f").is_in([zero, None]).evaluate(batch).to_pylist() == [True, True, False, True]


def test_arithmetic_that_would_wrap_is_an_error_also_when_called_by_its_name() -> None:
    batch = pa.record_batch({"n": pa.array([-(2**63)])})
    wraps = [call("abs", col("n")), call("negate", col("n")), call("subtract", col("n"), 1)]
    for expression in [*wraps, call("multiply", col("n"), 2), call("shift_left", col("n"), 64)]:
        with pytest.raises(ExpressionError):
            expression.evaluate(batch)
