"""Punctuation of a join: what its inputs' progress says of columns other than `_vs`.

A row of the output comes of a new row on one side and a stored or new one on the other. Let side i
have a progressing column c, of which its input has promised c >= b for what is still to come, and
let T be the other side's stable. A row lives until c + lag at most, and both its end and T are
multiples of grain.

    individual    no later row has   c < min(b, T + grain - lag)

New rows of this side have c >= b. A stored one can only meet a new row of the other side, or a
change of one, if it lives beyond T, so until T + grain at least, and so has c >= T + grain - lag.

    joint         no later row has   c0 < b0 and c1 < b1

One of the two rows is new. This says more than the individual ones only for bounds within each
other's windows: where `T1 + grain0 - lag0 <= b0` and `T0 + grain1 - lag1 <= b1`.

    sliding, [ts, ts+r)          lag r, grain 1, T = b   individual min(b, b_other - r + 1)
                                                         joint if b1 - b0 < r0 and b0 - b1 < r1
    tumbling by R                lag 2R, grain R,        individual min(b, floor(b_other/R) R)
                                 T = (floor(b/R)+1) R    joint if floor(b0/R) = floor(b1/R)

These are the thesis' figures 7-1 to 7-4, except for: the ranges of 7-1, which are swapped against
its purge rule; the ceiling of 7-2, which is a floor; and the "or" of 7-3, which is an "and".

Null rows of an outer join keep to the same bounds: a part of a lifetime that begins or changes at T
or later belongs to a row that lives beyond T. The other side's columns are null in them, and null
is below no bound. Only an `on` column is there in both sides' null rows: of it nothing is said
where the other side's unmatched rows come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.operators.join_columns import JoinColumns
from gapless.operators.operator import Marks
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import ticks_type


@dataclass(frozen=True, slots=True)
class JoinProgress:
    """A column of one side that grows with time."""

    side: int
    """0 is the left, 1 the right."""
    column: str
    """In that side's input."""
    lag: int
    """The most that a row's end is after its value."""
    grain: int = 1
    """What the ends of its rows and the other side's stables are multiples of."""

    def __post_init__(self) -> None:
        if self.side not in (0, 1) or self.grain < 1:
            raise Misuse(f"progressing {self.column!r}: side is 0 or 1, grain at least 1")


class JoinMarks:
    """Hears the inputs' marks and stables, and says what follows, once."""

    def __init__(
        self,
        progressing: Sequence[JoinProgress],
        columns: JoinColumns,
        sides: tuple[StreamSchema, StreamSchema],
    ) -> None:
        for p in progressing:
            _check(p, sides[p.side])
        self._progressing = [p for p in progressing if not _in_null_rows_of_the_other(p, columns)]
        self._names = [columns.names[p.side][p.column] for p in self._progressing]
        count = len(self._progressing)
        self.bounds = [BEGIN] * count
        """What each column's input has promised of it."""
        self.told = [BEGIN] * count
        """What was said of each column alone."""
        self._pairs = [
            (i, j)
            for i, left in enumerate(self._progressing)
            for j, right in enumerate(self._progressing)
            if (left.side, right.side) == (0, 1) and self._names[i] != self._names[j]
        ]
        self.told_jointly = [(BEGIN, BEGIN)] * len(self._pairs)
        """What was said of two columns together."""

    def hear(self, source: int, marks: Marks) -> None:
        """Marks of an input."""
        for i, p in enumerate(self._progressing):
            if p.side == source:
                for mark in marks:
                    self.bounds[i] = max(self.bounds[i], mark.as_stable(p.column) or BEGIN)

    def tell(self, stables: tuple[int, int]) -> Marks:
        """What holds now and was not said before."""
        if not self._progressing or BEGIN in stables:
            return ()
        bounds = [
            INF if stables[p.side] == INF else bound
            for p, bound in zip(self._progressing, self.bounds, strict=True)
        ]
        others = [_others_say(p, stables[1 - p.side]) for p in self._progressing]
        marks = []
        for i, name in enumerate(self._names):
            now = min(bounds[i], others[i])
            if now > self.told[i]:
                self.told[i] = now
                marks.append(Punctuation(((name, now),)))
        for k, (i, j) in enumerate(self._pairs):
            pair = bounds[i], bounds[j]
            near = others[i] <= pair[0] and others[j] <= pair[1] and BEGIN not in pair
            if near and pair != self.told_jointly[k]:
                self.told_jointly[k] = pair
                marks.append(Punctuation(((self._names[i], pair[0]), (self._names[j], pair[1]))))
        return tuple(marks)

    def snapshot(self) -> dict[str, int]:
        """What was promised and said, as numbers with names."""
        numbers = [*self.bounds, *self.told, *(t for pair in self.told_jointly for t in pair)]
        return {f"mark{i}": n for i, n in enumerate(numbers)}

    def restore(self, numbers: Sequence[int]) -> None:
        """The inverse, in the same order."""
        n = len(self.bounds)
        self.bounds, self.told = [*numbers[:n]], [*numbers[n : 2 * n]]
        joint = numbers[2 * n :]
        self.told_jointly = list(zip(joint[::2], joint[1::2], strict=True))


def _others_say(p: JoinProgress, stable: int) -> int:
    return INF if stable == INF else max(BEGIN, stable + p.grain - p.lag)


def _check(p: JoinProgress, schema: StreamSchema) -> None:
    if p.column not in schema.names:
        raise SchemaError(f"progressing {p.column!r}: the columns are {', '.join(schema.names)}")
    t = schema.payload.field(p.column).type
    if not pa.types.is_signed_integer(ticks_type(t) or t):
        raise SchemaError(f"progressing {p.column!r} is {t}; a bound needs integers or times")


def _in_null_rows_of_the_other(p: JoinProgress, columns: JoinColumns) -> bool:
    return p.column in columns.on[p.side] and columns.keeps[1 - p.side]
