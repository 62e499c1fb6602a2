"""Rows that have no answer go aside, exactly those; the others get the answers they always get."""

import operator
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.aside import Aside
from gapless.operators.evaluation import evaluate_rows
from gapless.protocol.errors import ExpressionError, RowError
from gapless.protocol.expr import Call, Expr, call, col
from gapless.protocol.values import from_values, to_values

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


def test_an_expression_is_not_asked_for_a_name_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("gapless.protocol.expr.of_expression", lambda _, name: asked.append(name))
    evaluate_rows(col("len") // col("n"), rows((8, 2)), Aside(), "select")
    evaluate_rows(col("len") // col("n"), rows((8, 2)).slice(1), Aside(), "select")
    assert asked == []


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


# -- known causes, found by column ----------------------------------------------------------------

EDGES = [None, 0, 1, -1, 2, 3, 7, 127, 128, -128, -129, 1 << 31, -(1 << 31), 1 << 53, (1 << 53) + 1]
INT64 = [*EDGES, (1 << 63) - 1, -(1 << 63), 1 << 62]
UINT64 = [None, 0, 1, 2, 255, 256, 1 << 32, 1 << 63, (1 << 64) - 1]
FLOATS = [None, 0.0, -0.0, 1.0, 0.1, -2.5, 127.0, 128.0, 2.0**53, 2.0**63, -(2.0**63), 1e300]
FLOATS += [float("inf"), float("-inf"), float("nan")]
_WORDS = """0 1 -1 +1 007 127 128 -128 -129 255 256 -0 1.5 .5 5. 1e3 1e999 -1E-3 0x1F -0x1 0xg x
NaN -nan inf -Infinity infinit true FALSE T yes 2020-01-02 2020-01-02T03 2020-01-02T03:04:05.5
20200102 2020-13-01 1_000 --1 -"""
TEXTS = _WORDS.split()
TEXTS += ["", " 1", "1 ", "1\n", "2020-01-02 03:04:05", "\u0661"]
TEXTS += ["9" * 19, "9" * 20, "9" * 40, "0" * 40]
WIDE = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int64(),
        "b": pa.int8(),
        "u": pa.uint64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "t": pa.string(),
        "at": pa.timestamp("ms"),
        "d": pa.decimal128(10, 3),
    }
)
POOLS: list[list[Any]] = [
    INT64,
    INT64,
    [None, 0, 1, -1, 127, -128, 100],
    UINT64,
    FLOATS,
    FLOATS,
    [*TEXTS, None],
    [None, 0, 999, 1000, (1 << 63) - 1, -(1 << 63)],
    [None, *map(Decimal, ("0", "1.001", "1.5", "-99.999", "1234567.891", "9"))],
]
BINARY: list[Callable[[Any, Any], Expr]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
]


def drawn_expression(rng: random.Random) -> Expr:
    names = ("i", "j", "b", "u", "x", "y")
    kind = rng.randrange(6)
    a, b = (col(rng.choice(names)) for _ in range(2))
    if kind == 0:
        return rng.choice(BINARY)(a, b)
    if kind == 1:
        return rng.choice(BINARY)(a, rng.choice([0, 1, -1, 2, 1 << 62, 0.5]))
    if kind == 2:
        return rng.choice([-col("i"), -col("b"), call("abs_checked", col("j"))])
    if kind == 3:
        t = rng.choice(["int8", "uint8", "int64", "uint64", "float", "double", "bool", "date32"])
        t = rng.choice([t, "timestamp[us]", "timestamp[s]", "decimal128(5, 2)"])
        return col(rng.choice(["t", "t", "at", "d", *names])).cast(t)
    if kind == 4:
        return (a // b) + (col("i") * col("j"))
    return call("sqrt_checked", col("x")) > col("t").cast("double")


def outcome(expr: Expr, batch: pa.RecordBatch) -> list[Any]:
    """Of each row its answer, or the step's reason that it has none."""
    aside = Aside("aside")
    answers, left = evaluate_rows(expr, batch, aside, "select")
    told = iter(map(repr, to_values(answers)))
    if left is None:
        return list(told)
    found: list[Any] = [next(told) if there else None for there in left.tolist()]
    gone = {
        repr(values_of(k.rows, i)): k.reason for k in aside.take() for i in range(k.rows.num_rows)
    }
    return [
        gone[repr(values_of(batch, i))] if found[i] is None else found[i] for i in range(len(found))
    ]


def values_of(rows: pa.RecordBatch, i: int) -> list[Any]:
    return [to_values(column.slice(i, 1))[0] for column in rows.columns]


@pytest.mark.parametrize("seed", range(120))
def test_differential_a_row_has_its_answer_or_its_reason_whatever_rows_are_beside_it(
    seed: int,
) -> None:
    rng = random.Random(seed)
    columns = [[rng.choice(pool) for _ in range(30)] for pool in POOLS]
    arrays = [from_values(c, f.type) for c, f in zip(columns, WIDE, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=WIDE)
    expr = drawn_expression(rng)
    try:
        expr.type(WIDE)
    except ExpressionError:
        return
    together = outcome(expr, batch)
    for i in range(batch.num_rows):
        alone = batch.slice(i, 1)
        assert outcome(expr, alone) == together[i : i + 1]
        try:
            answer = expr.evaluate(alone)
        except ExpressionError:
            assert i in failing(expr, batch)
        else:
            assert repr(to_values(answer)[0]) == together[i]


def failing(expr: Expr, batch: pa.RecordBatch) -> list[int]:
    _, left = evaluate_rows(expr, batch, Aside("aside"), "select")
    return [] if left is None else (~left).nonzero()[0].tolist()


@pytest.mark.parametrize(
    ("expr", "bad"),
    [
        (col("len") // col("n"), (5, 0)),
        (col("len") / col("n") > 1, (5, 0)),
        (col("len") % col("n"), (5, 0)),
        (col("len") * 4, (1 << 62, 1)),
        (col("len") - (-1 - col("n")), ((1 << 63) - 1, 1)),
        (-col("len"), (-(1 << 63), 1)),
        (col("len").cast("int8"), (300, 1)),
        ((col("len") // col("n")).cast("int8") + 1, (5, 0)),
        (col("t").cast("int64"), (5, 1)),
        (col("t").cast("double"), (5, 1)),
        (col("t").cast("bool"), (5, 1)),
        (col("t").cast("timestamp[s]"), (5, 1)),
    ],
    ids=str,
)
def test_however_many_rows_fail_for_a_known_cause_each_function_is_called_twice(
    expr: Expr, bad: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halving called one of them 2,400 times for these."""
    calls = 0
    applied = Call.applied

    def counted(self: Call, values: Any) -> Any:
        nonlocal calls
        calls += 1
        return applied(self, values)

    good = {"bool": "true", "timestamp[s]": "2020-01-01"}.get(
        str(expr).split("cast(")[-1][:-1], "1"
    )
    pairs = [bad if i % 10 < 3 else (4, 2) for i in range(4000)]
    texts = ["a" if i % 10 < 3 else good for i in range(4000)]
    batch = rows(*pairs).append_column("t", pa.array(texts))
    monkeypatch.setattr(Call, "applied", counted)
    aside = Aside("aside")
    evaluate_rows(expr, batch, aside, "select")
    assert aside.count == 1200
    assert len(aside.take()) == 1
    assert calls <= 8
