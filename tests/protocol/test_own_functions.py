"""Functions that are ours, against Python row by row; and what all functions refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.conditions import case, coalesce, concat
from gapless.protocol.documents import Document, pack, unpack
from gapless.protocol.errors import DecodeError, ExpressionError
from gapless.protocol.expr import Expr, call, col, lit
from gapless.protocol.failed_rows import answers
from gapless.protocol.regex_groups import named_groups
from tests.protocol.expressions import ROWS, batch_of, trees

X, Y = col("x"), col("y")
TEXTS = st.lists(st.none() | st.text("ab\u00e9\U0001f600-", max_size=5), max_size=6)
LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 2), max_size=3), max_size=6)


def of(t: pa.DataType, values: list[Any], expression: Expr) -> list[Any]:
    """The answers over x, also where x is a slice of a longer column."""
    column = pa.array([None, *values], t).slice(1)
    found: list[Any] = expression.evaluate(pa.record_batch([column], ["x"])).to_pylist()
    return found


@given(TEXTS, st.text("ab\u00e9", max_size=2))
def test_find_counts_code_points(texts: list[str | None], pattern: str) -> None:
    wanted = [None if x is None else x.find(pattern) for x in texts]
    assert of(pa.string(), texts, X.str.find(pattern)) == wanted


@given(TEXTS, st.integers(-6, 6), st.none() | st.integers(-6, 6))
def test_slices_of_text_are_pythons(texts: list[str | None], start: int, stop: int | None) -> None:
    wanted = [None if x is None else x[start:stop] for x in texts]
    assert of(pa.string(), texts, X.str.slice(start, stop)) == wanted


@given(TEXTS, st.sampled_from([r"(a)(?P<n>.)", r"(?:b)([(a-]?)", "((a)|\u00e9)-?", r"\((a)|(b)"]))
def test_groups_of_a_regular_expression_go_by_number(texts: list[str | None], pattern: str) -> None:
    for group in range(re.compile(pattern).groups + 1):
        found = [None if x is None else re.search(pattern, x) for x in texts]
        wanted = [None if m is None else m.group(group) or "" for m in found]
        assert of(pa.string(), texts, X.str.extract(pattern, group)) == wanted


def test_groups_are_found_among_what_looks_like_one() -> None:
    assert named_groups(r"\((a)[(]\Q(\E(?:b)") == r"(?P<g0>\((?P<g1>a)[(]\Q(\E(?:b))"


@given(LISTS, st.integers(-4, 4))
def test_an_element_that_is_not_there_is_null(lists: list[Any], place: int) -> None:
    wanted = [None if x is None or not -len(x) <= place < len(x) else x[place] for x in lists]
    assert of(pa.list_(pa.int64()), lists, X.list.get(place)) == wanted


@given(LISTS, st.none() | st.integers(0, 2))
def test_a_value_is_among_the_elements_or_not(lists: list[Any], value: int | None) -> None:
    wanted = [None if x is None or value is None else value in x for x in lists]
    assert of(pa.list_(pa.int64()), lists, X.list.contains(lit(value, "int64"))) == wanted


@given(st.lists(st.integers(-(2**40), 2**40)), st.sampled_from(["s", "ms", "us", "ns"]))
def test_an_epoch_is_rounded_down(ticks: list[int], unit: str) -> None:
    per = {"s": 10**3, "ms": 1}
    wanted = [
        t // per[unit] if unit in per else t * (1_000 if unit == "us" else 10**6) for t in ticks
    ]
    assert of(pa.timestamp("ms"), ticks, X.dt.epoch(unit)) == wanted


@given(st.lists(st.none() | st.text("0123456789-.ex ", max_size=5), max_size=9))
def test_try_cast_is_null_where_cast_fails(texts: list[str | None]) -> None:
    for t in ("int8", "double", "date32[day]", "bool"):
        batch = pa.record_batch([pa.array(texts, pa.string())], ["x"])
        values, reason, _ = answers(X.cast(t), batch)
        tried = X.try_cast(t).evaluate(batch)
        assert tried.equals(values)
        assert [v is None for v in tried.to_pylist()] == [
            bool(failed) or x is None for failed, x in zip(reason >= 0, texts, strict=True)
        ]


@given(TEXTS, TEXTS)
def test_texts_are_joined_without_those_that_are_null(
    xs: list[str | None], ys: list[str | None]
) -> None:
    rows = list(zip(xs, ys, strict=False))
    batch = pa.record_batch(
        [pa.array([r[i] for r in rows], pa.string()) for i in (0, 1)], ["x", "y"]
    )
    joined = concat(X, Y, separator=", ").evaluate(batch).to_pylist()
    assert joined == [", ".join(v for v in row if v is not None) for row in rows]


def test_a_condition_that_is_null_is_not_true() -> None:
    batch = pa.record_batch({"x": pa.array([True, None, False])})
    assert case((X, 1), otherwise=2).evaluate(batch).to_pylist() == [1, 2, 2]
    assert case((X, 1)).evaluate(batch).to_pylist() == [1, None, None]


def test_functions_of_constants_are_constants() -> None:
    batch = pa.record_batch({"x": pa.array([1, 2])})
    assert lit("ab").str.find("b").evaluate(batch).to_pylist() == [1, 1]
    assert lit(3).null_if(3).evaluate(batch).to_pylist() == [None, None]
    assert lit("7").try_cast("int8").evaluate(batch).to_pylist() == [7, 7]


@given(trees(), ROWS)
def test_any_tree_is_the_same_from_its_document_and_whatever_rows_are_beside(
    tree: Expr, rows: list[Any]
) -> None:
    again = Expr.from_document(unpack(pack(tree.to_document())))
    assert again.same_as(tree)
    assert str(again) == str(tree)
    batch = batch_of(rows)
    values = again.evaluate(batch)
    assert values.type == tree.type(batch.schema)
    half = len(rows) // 2
    parts = [tree.evaluate(batch.slice(0, half)), tree.evaluate(batch.slice(half))]
    assert pa.concat_arrays(parts).equals(values)


@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (X.sqrt(), [-1.0, -0.5]),
        (X.ln(), [0.0, -1.0]),
        (X.log10(), [0.0]),
        (X.asin(), [1.5, -2.0]),
        (X.sin(), [np.inf]),
        (X.remainder(X - X), [1.0]),
    ],
    ids=str,
)
def test_a_row_without_an_answer_fails_alone(function: Expr, bad: list[float]) -> None:
    batch = pa.record_batch({"x": pa.array([0.5, *bad, None])})
    values, reason, reasons = answers(function, batch)
    failed = [False, *[True] * len(bad), False] if "remainder" not in str(function) else None
    assert failed is None or (reason >= 0).tolist() == failed
    assert len(reasons) == 1
    assert values.to_pylist()[-1] is None


# -- mistakes -------------------------------------------------------------------------------------

ANY: Any = Y
FIVE: Any = 5
THREE: Any = (X, 1, 2)

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a column as a pattern": (lambda: X.str.contains(ANY), "same for all rows: give a text, not y"),
    "a number as a pattern": (lambda: X.str.like(FIVE), "give a text"),
    "a bool as a number": (lambda: X.str.left(True), "give a whole number"),
    "a bad regular expression": (lambda: X.str.matches("("), "missing [)]"),
    "a bad one to extract": (lambda: X.str.extract("("), "missing [)]"),
    "no such group": (lambda: X.str.extract("(a)", 2), "1 groups, and no group 2"),
    "an empty pattern": (lambda: X.str.replace("", "x"), "pattern is empty"),
    "an empty pattern to split by": (lambda: X.str.split(""), "pattern is empty"),
    "a function that never ends": (lambda: call("split_pattern_regex", X, pattern="a*"), "not a"),
    "a function that drops rows": (
        lambda: call("binary_join_element_wise", X, ",", null_handling="skip"),
        "use gl.concat",
    ),
    "an unknown unit": (lambda: X.dt.truncate("fortnight"), "none of year, quarter"),
    "an unknown function": (lambda: call("utf8_uppr", X), "did you mean utf8_upper"),
    "a case without pairs": (case, "give pairs"),
    "a case of three": (lambda: case(THREE), "no pair"),
    "nothing to choose from": (coalesce, "at least one"),
    "an option of another type": (lambda: call("list_get", X, place="1"), "place is of type int"),
    "an option too few": (lambda: call("list_get", X), "takes place="),
    "an argument too many": (lambda: call("null_if", X, X, X), "3 arguments, wants 2"),
}


@pytest.mark.parametrize(("make", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_when_the_tree_is_built(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        make()


def test_a_function_of_another_type_is_told_with_the_schema() -> None:
    schema = pa.schema({"x": pa.int64()})
    for wrong in (X.str.lower(), X.dt.hour, X.list.get(0), X.list.contains(1), X.dt.epoch()):
        with pytest.raises(ExpressionError, match="int64"):
            wrong.type(schema)


def test_arrow_has_none_of_ours_and_says_so() -> None:
    with pytest.raises(ExpressionError, match="after the scan"):
        X.str.find("a").to_arrow()


def test_a_document_with_a_bad_option_is_refused() -> None:
    bad: list[Document] = [{}, {"place": "1"}, {"place": 1, "more": 2}]
    for options in bad:
        with pytest.raises(DecodeError):
            Expr.from_document(["call", "list_get", options, ["col", "x"]])
