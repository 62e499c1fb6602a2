"""Evaluating what a query computes of its rows, when some rows cannot be.

    (len / n) > 3 over      len  n            answers    left
                             8   2    4 > 3   true       true
                             8   0    aside              false
                             8   4    2 > 3   false      true

An expression answers row by row, and so has a user's function to. Both see a whole frame at once.
Where that fails, an expression's rows that cannot be answered are found by column, function by
function (`protocol/failed_rows.py`): they may be as many as they like. What a user's function
fails for nobody knows: its rows are found by halving. Parts that can be answered are left alone,
and a single row that cannot goes aside with the reason. A bad row among n costs two evaluations for
each halving of n, and none where all is well.

So which rows go aside does not depend on how rows are cut into frames, and frames are cut
differently in each replica: what goes aside is what fails *alone*. What only fails together with
others (too much for one column) is answered in parts.

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
from gapless.protocol.expr import Expr
from gapless.protocol.failed_rows import answers
from gapless.protocol.frame import Mask


class Computed(Protocol):
    """An `Expr`, or a user's function: then it has an `is_foreign` that is True, its `evaluate` may
    raise, and give, anything, and `type` says what it has to give.
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
    if not batch.num_rows and _is_foreign(computed):
        return _nothing(computed, batch), None  # nobody need write a function that takes no rows
    try:
        return _evaluate(computed, batch), None
    except ExpressionError as e:
        if isinstance(computed, Expr):
            return _answered(computed, batch, aside, where)
        return _evaluate_parts(computed, batch, aside, where, e)


def _answered(
    computed: Expr, batch: pa.RecordBatch, aside: Aside, where: str
) -> tuple[pa.Array, Mask]:
    values, reason, reasons = answers(computed, batch)
    left: Mask = reason < 0
    failed = (~left).nonzero()[0]
    if aside.mode == "stop":
        failed = failed[:1]
    of, first = np.unique(reason[failed], return_index=True)
    for number in of[np.argsort(first)]:
        rows = failed[reason[failed] == number]
        aside.put(where, take_rows(batch, rows), reasons[number])
    return values.filter(pa.array(left)), left


def _evaluate_parts(
    computed: Computed, batch: pa.RecordBatch, aside: Aside, where: str, failed: ExpressionError
) -> tuple[pa.Array, Mask]:
    left = np.ones(batch.num_rows, np.bool_)
    answers = [_nothing(computed, batch)]
    reasons: dict[str, list[int]] = {}
    for row, answer in _in_parts(computed, batch, failed):
        if not isinstance(answer, ExpressionError):
            answers.append(answer)
            continue
        left[row] = False
        reasons.setdefault(_reason(computed, answer), []).append(row)
        if aside.mode == "stop":
            break
    for reason, rows in reasons.items():
        aside.put(where, take_rows(batch, np.array(rows)), reason)
    try:
        return pa.concat_arrays(answers), left
    except pa.ArrowInvalid as e:
        raise ExpressionError(
            f"{computed}: the answers of {batch.num_rows} rows are too much for one column ({e}): "
            "read smaller frames"
        ) from None


def _in_parts(
    computed: Computed, batch: pa.RecordBatch, failed: ExpressionError
) -> Iterator[tuple[int, pa.Array | ExpressionError]]:
    """The answers in the order of the rows, in parts as large as can be, and of a single row that
    has none the error; each with its first row. That all of them together `failed` is known.
    """
    if batch.num_rows == 1:
        yield 0, failed
        return
    half = batch.num_rows // 2
    parts = [(half, batch.num_rows - half), (0, half)]
    while parts:
        start, length = parts.pop()
        try:
            yield start, _evaluate(computed, batch.slice(start, length))
        except ExpressionError as e:
            if length == 1:
                yield start, e
            else:
                half = length // 2
                parts += [(start + half, length - half), (start, half)]


def _is_foreign(computed: Computed) -> bool:
    # An `Expr` looks for what was meant by a name that it lacks, for longer than it evaluates.
    return not isinstance(computed, Expr) and getattr(computed, "is_foreign", False)


def _evaluate(computed: Computed, batch: pa.RecordBatch) -> pa.Array:
    """The answers, as they were declared. Raises `ExpressionError` only."""
    if not _is_foreign(computed):
        return computed.evaluate(batch)
    wanted = computed.type(batch.schema)
    try:
        answers = computed.evaluate(batch)
    except Exception as e:  # a user's function may raise what it likes
        raise ExpressionError(f"{type(e).__name__}: {e}") from e
    if not isinstance(answers, pa.Array):
        raise ExpressionError(f"gave a {type(answers).__name__}, not an Arrow array")
    if (
        answers.type == pa.null()
    ):  # what Arrow infers where all answers are None: in a part they are
        answers = answers.cast(wanted)
    if answers.type != wanted:
        raise ExpressionError(f"gave {answers.type}, declared was {wanted}")
    if len(answers) != batch.num_rows:
        raise ExpressionError(f"gave {len(answers)} values for {batch.num_rows} rows")
    return answers


def _nothing(computed: Computed, batch: pa.RecordBatch) -> pa.Array:
    return pa.nulls(0, computed.type(batch.schema))


def _reason(computed: Computed, error: ExpressionError) -> str:
    return str(error).removeprefix(f"{computed}: ")
