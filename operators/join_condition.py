"""The `where` of a join, or of `followed_by`: which pairs of rows satisfy it.

A pair for which it raises goes aside when the pair is first formed, and is no match, then or later:
a condition reads payloads and no times, so it fails for a pair always or never.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Mask
from gapless.operators.aside import Aside
from gapless.operators.evaluation import evaluate_rows
from gapless.operators.join_columns import JoinColumns
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr


class Condition:
    """An expression over output columns."""

    def __init__(self, where: Expr, columns: JoinColumns, aside: Aside, what: str = "join") -> None:
        result = where.type(columns.schema.payload)
        if not pa.types.is_boolean(result):
            raise ExpressionError(f"{what} where {where}: gives {result}, a condition gives bool")
        self._where = where
        self._text = f"{what} where {where}"
        self._columns = columns
        self._aside = aside

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch, formed: Mask | None) -> Mask:
        """Which pairs satisfy it; those that are formed now go aside where it raises.

        `formed` None: all are.
        """
        pairs = self._columns.batch(self._columns.joined(left, right))
        if formed is None or formed.all():
            return self._evaluate(pairs, self._aside)[0]
        holds, _ = self._evaluate(pairs, _nowhere())
        if formed.any():  # those that raise do not hold, so none is looked at in vain
            self._evaluate(take_rows(pairs, (formed & ~holds).nonzero()[0]), self._aside)
        return holds

    def tried(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Mask, Mask | None]:
        """Which pairs satisfy it, and for which it has an answer: None where it does for all. None
        goes aside.
        """
        return self._evaluate(self._columns.batch(self._columns.joined(left, right)), _nowhere())

    def _evaluate(self, pairs: pa.RecordBatch, aside: Aside) -> tuple[Mask, Mask | None]:
        answers, answered = evaluate_rows(self._where, pairs, aside, self._text)
        holds: Mask = answers.fill_null(False).to_numpy(zero_copy_only=False)
        if answered is None:
            return holds, None
        mask = np.zeros(pairs.num_rows, np.bool_)
        mask[answered] = holds
        return mask, answered


def _nowhere() -> Aside:
    """For rows that are tried."""
    return Aside("aside", sys.maxsize)
