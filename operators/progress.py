"""Columns that a stable speaks of, too: each differs from `_vs` by as much in every event.

    window_time = _vs - 1        stable(30) -> and the mark: no later row has window_time < 29

A step behind an aggregate whose answers a window above reads by such a column.
"""

from __future__ import annotations

from collections.abc import Mapping

from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema


class Progress(Operator):
    """Passes frames on, and says by marks what their stables mean for some columns."""

    def __init__(self, schema: StreamSchema, offsets: Mapping[str, int]) -> None:
        """`offsets`: by column, what it is more than `_vs`; none is above 0."""
        self.schema = schema
        self._offsets = dict(offsets)

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The same frame, with more marks."""
        check_schema(frame, self.schema)
        if frame.stable is None:
            return Out(frame, marks)
        said = [
            Punctuation(((name, t),))
            for name, offset in self._offsets.items()
            if (t := INF if frame.stable == INF else frame.stable + offset) > BEGIN
        ]
        return Out(frame, (*marks, *said))

    def fast_forward(self, t: int) -> int:
        """Each row is there for itself alone."""
        return t

    def validate(self) -> None:
        """It holds nothing."""
