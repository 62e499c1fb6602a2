"""Columns that a stable speaks of, too: each is at least so much more than `_vs` in every event.

    window_time = _vs - 1        stable(30) -> and the mark: no later row has window_time < 29
    start >= _vs - 60            stable(90) -> and the mark: no later row has start < 30

A step behind a source, or an aggregate, of which a window above reads such a column. What a mark
says of `_vs` in one group it says of the column in that group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS, StreamSchema


class Progress(Operator):
    """Passes frames on, and says by marks what stables and marks mean for some columns."""

    def __init__(self, schema: StreamSchema, offsets: Mapping[str, int]) -> None:
        """`offsets`: by column, what it is more than `_vs` at least; none is above 0."""
        self.schema = schema
        self._offsets = dict(offsets)

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The same frame, with more marks."""
        check_schema(frame, self.schema)
        said = [] if frame.stable is None else [*self._meaning({VS: frame.stable})]
        for mark in marks:
            said += self._meaning(dict(mark.bounds), mark)
        return Out(frame, (*marks, *said))

    def _meaning(
        self, bounds: Mapping[str, int], mark: Punctuation | None = None
    ) -> Iterator[Punctuation]:
        """What a bound of `_vs`, maybe among others, says of each column that has none yet."""
        stable = bounds.get(VS, BEGIN)
        others = tuple((name, t) for name, t in bounds.items() if name != VS)
        group = () if mark is None else mark.group
        taken = {*bounds, *(name for name, _ in group)}
        for name, offset in self._offsets.items():
            t = INF if stable == INF else stable + offset
            if t > BEGIN and name not in taken:
                yield Punctuation((*others, (name, t)), group)

    def fast_forward(self, t: int) -> int:
        """Each row is there for itself alone."""
        return t

    def validate(self) -> None:
        """It holds nothing."""
