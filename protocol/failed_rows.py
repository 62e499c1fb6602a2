"""Evaluating an expression of which some rows have no answer: those are found, the others answered.

    (len / n) > 3     over   len  n         len / n      > 3
                             8    2         4            true
                             8    0         fails        null, "divide by zero"

The tree is evaluated as usual, function by function. Where one fails, rows that it has no answer
for are taken out of its arguments, as nulls, and it is called again: those that fail for a known
cause all at once (misses.py), others one by one, by halving. A row fails where the first of the
functions does that fails for it alone, and for that reason, whatever rows are beside it. An
argument that does not concern a row cannot fail it (guards.py): there its columns are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.protocol.columns import take
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Call, Expr
from gapless.protocol.functions import ARROW_ERRORS
from gapless.protocol.guards import concerned
from gapless.protocol.misses import misses
from gapless.protocol.values import from_values

Mask = npt.NDArray[np.bool_]
_FAILS = (ExpressionError, *ARROW_ERRORS)


class Answers(NamedTuple):
    """Of some rows."""

    values: pa.Array
    """One for each row, null where there is none."""
    reason: npt.NDArray[np.int64]
    """By row, which of `reasons` it fails for; -1 where it is answered."""
    reasons: list[str]


def answers(expr: Expr, batch: pa.RecordBatch) -> Answers:
    """What can be answered. Raises `ExpressionError` only where all answers together cannot be."""
    found = _Found(batch)
    try:
        value = found.value(expr)
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, batch.num_rows)
    except _FAILS as e:
        raise ExpressionError(f"{expr}: {e}") from None
    return Answers(value, found.reason, list(found.reasons))


class _Found:
    """The rows of one batch that have been found to fail."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._concerned: Mask | None = None  # the rows that what is evaluated concerns; None: all
        self.reason = np.full(batch.num_rows, -1)
        self.reasons: dict[str, int] = {}

    def value(self, expr: Expr) -> Any:
        """As `Expr.evaluate` gives it, null in rows that fail."""
        if not isinstance(expr, Call):
            return self._concerning(expr.value(self._batch))
        values = expr.operands(self._arguments(expr))
        try:
            return expr.applied(values)
        except _FAILS:
            return self._some(expr, values)

    def _arguments(self, call: Call) -> list[Any]:
        values: list[Any] = []
        outside = self._concerned
        for arg in call.args:
            rows = concerned(call.function, values, self._batch.num_rows)
            if rows is not None:
                self._concerned = rows if outside is None else rows & outside
            values.append(self.value(arg))
            self._concerned = outside
        return values

    def _concerning(self, value: Any) -> Any:
        """Null in other rows: of null nothing fails."""
        if self._concerned is None or isinstance(value, pa.Scalar):
            return value
        return take(value, pa.array(np.arange(len(value)), mask=~self._concerned))

    def _some(self, call: Call, values: Sequence[Any]) -> Any:
        n = self._batch.num_rows
        if not any(isinstance(value, pa.Array) for value in values):
            values = [pa.repeat(value, n) for value in values]  # it fails in all rows, or in none
        for rows, reason in misses(call.function, values, call.options, str(call.args[0])):
            values = self._without(np.broadcast_to(rows, n), values, reason)
        try:
            return call.applied(values)
        except _FAILS:
            return self._halved(call, values)

    def _without(self, rows: Mask, values: Sequence[Any], reason: str) -> list[Any]:
        """Takes rows that fail out of arguments; where one is null nothing fails."""
        rows = rows.copy()
        for value in values:
            if isinstance(value, pa.Scalar):
                rows &= value.is_valid
            elif value.null_count:
                rows &= value.is_valid().to_numpy(zero_copy_only=False)
        if not rows.any():
            return list(values)
        self._fails(rows, reason)
        places = pa.array(np.arange(len(rows)), mask=rows)
        return [take(v, places) if isinstance(v, pa.Array) else v for v in values]

    def _fails(self, rows: Mask, reason: str) -> None:
        """Of a row that has failed before that reason stays."""
        if self._concerned is not None:
            rows = rows & self._concerned
            if not rows.any():
                return
        number = self.reasons.setdefault(reason, len(self.reasons))
        self.reason[rows & (self.reason < 0)] = number

    def _halved(self, call: Call, values: Sequence[Any]) -> Any:
        """The answers in parts as large as can be; a single row that has none is null."""
        n = self._batch.num_rows
        empty = [v.slice(0, 0) if isinstance(v, pa.Array) else v for v in values]
        parts, todo = [call.applied(empty)], [(0, n)]
        while todo:
            start, length = todo.pop()
            some = [v.slice(start, length) if isinstance(v, pa.Array) else v for v in values]
            try:
                parts.append(call.applied(some))
            except _FAILS as e:
                if length > 1:
                    half = length // 2
                    todo += [(start + half, length - half), (start, half)]
                    continue
                alone = np.zeros(n, np.bool_)
                alone[start] = True
                self._fails(alone, str(e))
                parts.append(from_values([None], parts[0].type))
        try:
            return pa.concat_arrays(parts)
        except pa.ArrowInvalid as e:
            raise ExpressionError(
                f"the answers of {n} rows are too much for one column ({e}): read smaller frames"
            ) from None
