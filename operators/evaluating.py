"""Evaluating what a query computes of its rows, when some rows cannot be.

    (len / n) > 3 over      len  n            answers    left
                             8   2    4 > 3   true       true
                             8   0    aside              false
                             8   4    2 > 3   false      true

An expression answers row by row, so the rows that it cannot answer are found by halving: parts that
can be answered are left alone, and a single row that cannot goes aside with the reason. Each row
costs a few evaluations at most, and none where all is well. A user's function sees a whole frame
and says nothing of rows: where it raises, or answers with another length or type, all of them go.

A row is the same whatever frame it is in, so its expression fails in an adjust exactly where it
failed in the insert: both go aside, and what passes is a legal stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from gapless.operators.aside import Aside
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import ExpressionError
from gapless.protocol.frame import Mask
from gapless.protocol.values import from_values


class Computed(Protocol):
    """An `Expr`, or a user's function: then it has a `whole_frame` that is True, its `evaluate` may
    raise anything, and `type` says what it has to give.
    """

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The answer for each row."""

    def type(self, schema: pa.Schema) -> pa.DataType:
        """The type of its answers over batches of `schema`."""


def evaluate_rows(
    computed: Computed, batch: pa.RecordBatch, aside: Aside, where: str
) -> tuple[pa.Array, Mask | None]:
    """The answers of the rows that have one, and which rows these are: None where all have.

    The others go aside, as rows of `batch`; in mode "stop" that raises `RowError`.
    """
    if getattr(computed, "whole_frame", False):
        return _evaluate_frame(computed, batch, aside, where)
    try:
        return computed.evaluate(batch), None
    except ExpressionError:
        return _evaluate_some(computed, batch, aside, where)


def _evaluate_some(
    computed: Computed, batch: pa.RecordBatch, aside: Aside, where: str
) -> tuple[pa.Array, Mask]:
    left = np.ones(batch.num_rows, np.bool_)
    reasons: dict[str, list[int]] = {}
    for row, reason in _without_answer(computed, batch):
        left[row] = False
        reasons.setdefault(reason, []).append(row)
        if aside.mode == "stop":
            break
    for reason, rows in reasons.items():
        aside.put(where, take_rows(batch, np.array(rows)), reason)
    answerable = take_rows(batch, left)
    try:
        return computed.evaluate(answerable), left
    except ExpressionError as e:  # none alone is at fault: they are too much for one column
        aside.put(where, answerable, _reason(computed, e))
        return _nothing(computed, batch)


def _without_answer(computed: Computed, batch: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """The rows that have no answer, from the first on, each with the reason."""
    parts = [(0, batch.num_rows)]
    while parts:
        start, length = parts.pop()
        try:
            computed.evaluate(batch.slice(start, length))
        except ExpressionError as e:
            if length == 1:
                yield start, _reason(computed, e)
            else:
                half = length // 2
                parts += [(start + half, length - half), (start, half)]


def _evaluate_frame(
    computed: Computed, batch: pa.RecordBatch, aside: Aside, where: str
) -> tuple[pa.Array, Mask | None]:
    if not batch.num_rows:  # nobody need write a function that takes no rows
        return _nothing(computed, batch)
    wanted = computed.type(batch.schema)
    try:
        answers = computed.evaluate(batch)
    except Exception as e:  # noqa: BLE001  # a user's function may raise what it likes
        problem = f"{type(e).__name__}: {e}"
    else:
        if not isinstance(answers, pa.Array):
            problem = f"gave a {type(answers).__name__}, not an Arrow array"
        elif answers.type != wanted:
            problem = f"gave {answers.type}, declared was {wanted}"
        elif len(answers) != batch.num_rows:
            problem = f"gave {len(answers)} values for {batch.num_rows} rows"
        else:
            return answers, None
    aside.put(where, batch, problem)
    return _nothing(computed, batch)


def _nothing(computed: Computed, batch: pa.RecordBatch) -> tuple[pa.Array, Mask]:
    no_answers = from_values([], computed.type(batch.schema))
    return no_answers, np.zeros(batch.num_rows, np.bool_)


def _reason(computed: Computed, error: ExpressionError) -> str:
    return str(error).removeprefix(f"{computed}: ")
