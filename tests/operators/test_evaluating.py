"""Rows that have no answer go aside, exactly those; the others get the answers they always get."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.aside import Aside
from gapless.operators.evaluating import evaluate_rows
from gapless.protocol.errors import ExpressionError, RowError
from gapless.protocol.expr import Expr, call, col

SCHEMA = pa.schema({"len": pa.int64(), "n": pa.int64()})


def rows(*pairs: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch([list(side) for side in zip(*pairs, strict=True)], schema=SCHEMA)


class Function:
    """As a user's function is: it may do whatever it likes."""

    is_foreign = True

    def __init__(self, function: Callable[[pa.RecordBatch], object]) -> None:
        self.function = function

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return self.function(batch)

    def type(self, schema: pa.Schema) -> pa.DataType:
        return pa.int64()


class Counting:
    """Counts how often an expression is evaluated."""

    def __init__(self, inner: Expr) -> None:
        self.inner = inner
        self.times = 0

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        self.times += 1
        return self.inner.evaluate(batch)

    def type(self, schema: pa.Schema) -> pa.DataType:
        return self.inner.type(schema)


def test_rows_that_all_have_an_answer_are_evaluated_once() -> None:
    quotient = Counting(col("len") // col("n"))
    answers, left = evaluate_rows(quotient, rows((8, 2), (9, 3)), Aside(), "select")
    assert answers.to_pylist() == [4, 3]
    assert left is None
    assert quotient.times == 1


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([0, 1, 2, None])), max_size=40))
def test_exactly_the_rows_that_fail_alone_go_aside(pairs: list[tuple[int, int]]) -> None:
    batch = pa.record_batch([[p[0] for p in pairs], [p[1] for p in pairs]], schema=SCHEMA)
    aside = Aside("aside")
    answers, left = evaluate_rows(col("len") // col("n"), batch, aside, "select")
    assert answers.to_pylist() == [n and p // n for p, n in pairs if n != 0]
    assert (left is None) == all(n != 0 for _, n in pairs)
    assert left is None or left.tolist() == [n != 0 for _, n in pairs]
    gone = [tuple(row.values()) for kept in aside.take() for row in kept.rows.to_pylist()]
    assert gone == [p for p in pairs if p[1] == 0]


def test_each_reason_is_said_once_with_its_rows() -> None:
    aside = Aside("aside")
    batch = rows((8, 0), (1 << 62, 1), (2, 1), (7, 0))
    evaluate_rows(col("len") * 4 + col("len") // col("n"), batch, aside, "select x")
    kept = aside.take()
    assert [(k.where, k.rows.column(0).to_pylist()) for k in kept] == [
        ("select x", [8, 7]),
        ("select x", [1 << 62]),
    ]
    assert "zero" in kept[0].reason
    assert "overflow" in kept[1].reason


def test_a_query_that_stops_names_the_first_row_and_looks_no_further() -> None:
    quotient = Counting(col("len") // col("n"))
    batch = rows(*[(i, 1) for i in range(1000)], *[(i, 0) for i in range(1000, 2000)])
    with pytest.raises(RowError) as stopped:
        evaluate_rows(quotient, batch, Aside(), "select x")
    assert (stopped.value.where, stopped.value.row) == ("select x", "len=1000, n=0")
    assert quotient.times < 30


def test_a_bad_row_costs_a_few_evaluations() -> None:
    quotient = Counting(col("len") // col("n"))
    batch = rows(*[(i, int(i != 777)) for i in range(4096)])
    evaluate_rows(quotient, batch, Aside("aside"), "select")
    assert quotient.times < 2 * 13 + 3


def test_what_only_fails_together_is_answered_in_parts() -> None:
    class Limited:
        def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
            if batch.num_rows > 2:
                raise ExpressionError("too much")
            return batch.column(0)

        def type(self, schema: pa.Schema) -> pa.DataType:
            return pa.int64()

    aside = Aside("aside")
    answers, left = evaluate_rows(Limited(), rows((1, 1), (2, 2), (3, 3)), aside, "select")
    assert answers.to_pylist() == [1, 2, 3]
    assert left is not None
    assert left.all()
    assert aside.count == 0


def raises(_batch: pa.RecordBatch) -> pa.Array:
    raise ZeroDivisionError("no")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (raises, "ZeroDivisionError: no"),
        (lambda batch: batch.column(0).slice(1), "gave 0 values for 1 rows"),
        (lambda batch: batch.column(0).cast(pa.int32()), "gave int32, declared was int64"),
        (lambda batch: batch.column(0).to_numpy(), "gave a ndarray, not an Arrow array"),
    ],
)
def test_a_function_that_always_breaks_its_word_sets_every_row_aside(
    function: Callable[[pa.RecordBatch], object], reason: str
) -> None:
    aside = Aside("aside")
    answers, left = evaluate_rows(Function(function), rows((1, 1), (2, 2)), aside, "select")
    assert (answers.type, len(answers)) == (pa.int64(), 0)
    assert left is not None
    assert left.tolist() == [False, False]
    [kept] = aside.take()
    assert (kept.reason, kept.rows.num_rows) == (reason, 2)
    with pytest.raises(RowError):
        evaluate_rows(Function(function), rows((1, 1), (2, 2)), Aside(), "select")


def fails_where_n_is_0(batch: pa.RecordBatch) -> pa.Array:
    if 0 in batch.column(1).to_pylist():
        raise ZeroDivisionError("no")
    return pa.array(
        [p * 2 if n else None for p, n in zip(*batch.to_pydict().values(), strict=True)]
    )


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([0, 1, 2, None])), max_size=40),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_a_function_is_judged_by_the_row_however_rows_are_cut_into_frames(
    pairs: list[tuple[int, int]], cuts: list[int]
) -> None:
    """Also where a part has no value, of which Arrow makes a column of nulls."""
    batch = pa.record_batch([[p[0] for p in pairs], [p[1] for p in pairs]], schema=SCHEMA)
    aside, answers, at = Aside("aside"), [], 0
    for length in (*cuts, len(pairs) + 1):
        part = batch.slice(at, length)
        found, left = evaluate_rows(Function(fails_where_n_is_0), part, aside, "map")
        answers += found.to_pylist()
        assert (part.num_rows if left is None else int(left.sum())) == len(found)
        at += length
    assert answers == [p * 2 if n else None for p, n in pairs if n != 0]
    gone = [tuple(row.values()) for kept in aside.take() for row in kept.rows.to_pylist()]
    assert gone == [p for p in pairs if p[1] == 0]


def test_a_bad_row_of_a_function_costs_a_few_calls() -> None:
    calls = 0

    def counted(batch: pa.RecordBatch) -> pa.Array:
        nonlocal calls
        calls += 1
        return fails_where_n_is_0(batch)

    batch = rows(*[(i, int(i not in (777, 3000))) for i in range(4096)])
    aside = Aside("aside")
    evaluate_rows(Function(counted), batch, aside, "map")
    assert aside.count == 2
    assert calls < 2 * 2 * 12


def test_a_function_is_not_asked_about_no_rows() -> None:
    answers, _ = evaluate_rows(Function(raises), rows((1, 1)).slice(1), Aside(), "select")
    assert len(answers) == 0


def test_rows_of_every_layout_go_aside() -> None:
    schema = pa.schema({"word": pa.string_view()})
    batch = pa.record_batch([pa.array(["7", "x", "9"], pa.string_view())], schema=schema)
    aside = Aside("aside")
    number = call("cast", col("word"), type=pa.int64())
    answers, left = evaluate_rows(number, batch, aside, "select")
    assert answers.to_pylist() == [7, 9]
    assert left is not None
    assert aside.take()[0].rows.to_pylist() == [{"word": "x"}]
