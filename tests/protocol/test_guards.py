"""A row fails only by what it needs: guards, against an evaluation row by row that stops early."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.protocol import guards
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Call, Expr, call, col, lit
from gapless.protocol.failed_rows import answers
from tests.effort import cases

N, M = col("n"), col("m")
ROWS = pa.record_batch(
    {
        "n": pa.array([0, 1, 2, 3, None, -4, 2**62, 0]),
        "m": pa.array([5, 0, None, 2, 0, 0, 8, 0]),
        "s": pa.array(["7", "x", "", None, "12", "-3", "1.5", "0"]),
    }
)
FAILED = "fails"


def one(expr: Expr, row: pa.RecordBatch) -> Any:
    """The answer of one row, computing nothing that it does not need."""
    if not isinstance(expr, Call):
        return expr.evaluate(row)[0].as_py()
    first, rest = expr.args[0], expr.args[1:]
    match expr.function:
        case "and_kleene" | "or_kleene":
            left = one(first, row)
            if left == FAILED or left is (expr.function == "or_kleene"):
                return left
            right = one(rest[0], row)
            if right == FAILED or right is (expr.function == "or_kleene") or left is None:
                return right if right in (FAILED, expr.function == "or_kleene") else None
            return right
        case "if_else":
            left = one(first, row)
            return left if left in (None, FAILED) else one(rest[0 if left else 1], row)
        case "coalesce":
            found = (one(arg, row) for arg in expr.args)
            return next((value for value in found if value is not None), None)
        case "case":
            pairs = list(zip(expr.args[:-1:2], expr.args[1:-1:2], strict=True))
            for condition, value in pairs:
                is_true = one(condition, row)
                if is_true in (True, FAILED):
                    return one(value, row) if is_true is True else FAILED
            return one(expr.args[-1], row)
    values = [one(arg, row) for arg in expr.args]
    if FAILED in values:
        return FAILED
    types = [arg.type(row.schema) for arg in expr.args]
    constants = [lit(pa.scalar(v, t)) for v, t in zip(values, types, strict=True)]
    try:
        return call(expr.function, *constants, **expr.options).evaluate(row)[0].as_py()
    except ExpressionError:
        return FAILED


def number(rng: random.Random, depth: int = 3) -> Expr:
    if not depth or rng.random() < 0.2:
        return rng.choice((N, M, lit(2), col("s").cast("int64")))
    some: Callable[[], Expr] = lambda: number(rng, depth - 1)  # noqa: E731  # shorter so
    made = (
        lambda: some() // some(),
        lambda: some() * some(),
        lambda: gl.if_else(condition(rng, depth - 1), some(), some()),
        lambda: gl.coalesce(some(), some(), some()),
        lambda: gl.case(
            (condition(rng, depth - 1), some()),
            (condition(rng, depth - 1), some()),
            otherwise=rng.choice((None, some())),
        ),
    )
    return rng.choice(made)()


def condition(rng: random.Random, depth: int = 3) -> Expr:
    if depth <= 0 or rng.random() < 0.4:
        return rng.choice((N != 0, M > 1, number(rng, max(depth - 1, 0)) > 2, M.is_null()))
    left, right = condition(rng, depth - 1), condition(rng, depth - 1)
    return left & right if rng.random() < 0.5 else left | right


def check(seed: int) -> bool:
    """Whether a drawn expression had rows that a guard saved."""
    rng = random.Random(seed)
    expr = number(rng) if seed % 2 else condition(rng)
    wanted = [one(expr, ROWS.slice(i, 1)) for i in range(len(ROWS))]
    found = answers(expr, ROWS)
    said = [
        FAILED if reason >= 0 else value
        for value, reason in zip(found.values.to_pylist(), found.reason, strict=True)
    ]
    assert said == wanted, f"seed {seed}: {expr}"
    if FAILED not in wanted:
        assert expr.evaluate(ROWS).to_pylist() == wanted
        return True
    with pytest.raises(ExpressionError):
        expr.evaluate(ROWS)
    return False


def test_a_row_fails_only_by_what_it_needs() -> None:
    assert sum(check(seed) for seed in range(cases(150))) > 5


@pytest.mark.parametrize("function", guards.GUARDS)
def test_the_check_notices_a_guard_that_is_not_there(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def everywhere(_: Any, n: int) -> Any:
        return np.ones(n, np.bool_)

    monkeypatch.setitem(guards.GUARDS, function, everywhere)
    with pytest.raises(AssertionError, match="seed"):
        _ = [check(seed) for seed in range(400)]


GUARDED = {
    "CASE WHEN n <> 0 THEN m / n ELSE -1 END": [-1, 0, None, 2 / 3, -1, 0, 8 / 2**62, -1],
    "CASE WHEN n = 0 THEN 0 WHEN 4 % n = 0 THEN 1 END": [0, 1, 1, None, None, 1, None, 0],
    "n <> 0 AND m / n > 0.5": [False, False, None, True, None, False, False, False],
    "n = 0 OR n IS NULL OR m / n > 0.5": [True, False, None, True, True, False, False, True],
    "COALESCE(m * 0, n * 4)": [0, 0, 8, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("text", GUARDED)
def test_guards_of_sql_work(text: str) -> None:
    rows = ROWS.append_column("ts", pa.array(range(len(ROWS))))
    source = gl.source("t", rows.schema, time="ts")
    query = gl.sql(f"SELECT ts, {text} AS x FROM t", {"t": source})  # noqa: S608  # a test's own
    answered = gl.execute(query, pa.Table.from_batches([rows])).to_arrow().to_pylist()
    assert [row["x"] for row in sorted(answered, key=lambda row: row["ts"])] == GUARDED[text]


def test_a_branch_without_columns_fails_where_it_is_needed() -> None:
    found = answers(gl.if_else(N > 1, lit(1) // lit(0), 0), ROWS)
    assert (found.reason >= 0).tolist() == [False, False, True, True, False, False, True, False]
