"""Filter: keeps the elements whose payload satisfies a predicate.

An adjust has the payload of its insert, so both pass or neither does, and a stable of the input
is a stable of the output. A predicate that gives null does not hold, as in SQL.
"""

from __future__ import annotations

import pyarrow as pa

from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Filter(Operator):
    """Passes the rows for which `predicate`, over the payload columns, is true."""

    def __init__(self, schema: StreamSchema, predicate: Expr) -> None:
        result = predicate.type(schema.payload)
        if not pa.types.is_boolean(result):
            raise ExpressionError(f"where {predicate}: gives {result}, a condition gives bool")
        self.schema = schema
        self._predicate = predicate

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The rows that hold, in their order, and the stable."""
        check_schema(frame, self.schema)
        if not len(frame):
            return Out(frame, marks)
        holds = self._predicate.evaluate(frame.payload).fill_null(False)
        mask = holds.to_numpy(zero_copy_only=False)
        return Out(frame if mask.all() else frame.take(mask, frame.stable), marks)

    def fast_forward(self, t: int) -> int:
        """Keeps nothing, so asks its input for what is asked of it."""
        return t

    def validate(self) -> None:
        """Keeps nothing that could be wrong."""
