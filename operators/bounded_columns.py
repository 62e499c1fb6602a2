"""Rows whose columns are at most so far before their time; the others go aside.

    source(.., time="ts", progress={"start": "60s"})

    start 40, ts 100     passes: 60 before it
    start 39, ts 100     goes aside, and so does a row without a start

So a stable, no later row has `_vs` < t, says of such a column: no later row has start < t - 60.
That is `progress.py`'s to tell. A row is judged by itself alone: all who read it agree on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.operators.aside import Aside
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.window_times import ticks_of
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import SchemaError
from gapless.protocol.frame import Frame, Mask
from gapless.protocol.schema import StreamSchema


class BoundedColumns(Operator):
    """Passes the rows that keep to what was declared."""

    def __init__(
        self,
        schema: StreamSchema,
        bounds: Sequence[tuple[str, int]],
        told: Sequence[str],
        aside: Aside | None = None,
        name: str = "",
    ) -> None:
        """`bounds`: columns, and how far before `_vs` their values are at most; `told`: each in
        words. `name`: the source's.
        """
        self.schema = schema
        self._bounds = list(zip(bounds, told, strict=True))
        for column, _ in bounds:
            if column not in schema.names:
                raise SchemaError(f"no column {column!r} among {', '.join(schema.names)}")
        self._aside = aside or Aside()
        self._where = f"source {name}"

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The same frame without the rows that go aside."""
        check_schema(frame, self.schema)
        if not len(frame):
            return Out(frame, marks)
        left: Mask | None = None
        for (name, bound), told in self._bounds:
            least = np.maximum(frame.vs, BEGIN + bound) - bound
            missing = frame.payload.column(self.schema.names.index(name)).is_null()
            for why, bad in (
                (f"{name} is null", missing.to_numpy(zero_copy_only=False)),
                (
                    f"too far before its time; the source was declared: {told}",
                    ticks_of(frame.batch, name) < least,
                ),
            ):
                if np.count_nonzero(bad):
                    left = np.ones(len(frame), np.bool_) if left is None else left
                    self._aside.put(self._where, take_rows(frame.payload, bad & left), why)
                    left &= ~bad
        return Out(frame if left is None else frame.take(left, frame.stable), marks)

    def fast_forward(self, t: int) -> int:
        """Each row is there for itself alone."""
        return t

    def validate(self) -> None:
        """It holds nothing."""
