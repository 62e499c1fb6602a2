"""Greatest and least of progressing columns: what marks say of them (window-queries, 7.1).

    greatest(a, b)     no later row has a < 5             so none has the greatest < 5: it is not
                                                          less than a
                       none has both a < 7 and b < 6      so none has the greatest < 6
    least(a, b)        none has a < 5, none has b < 7     so none has the least < 5: it takes both

The thesis has the two the wrong way round. Where a column may be null (the other side's columns in
the null rows of an outer join), the greatest may be that of the other alone: then it needs all
bounds, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.operators.operator import Marks
from gapless.protocol.elements import BEGIN
from gapless.protocol.punctuation import Punctuation


@dataclass(frozen=True, slots=True)
class Extreme:
    """A column computed as the greatest or least of some."""

    name: str
    columns: tuple[str, ...]
    """Of the input."""
    by_either: bool
    """Whether a bound of one of them bounds it: the greatest, where none is ever null."""


class ExtremeMarks:
    """Hears marks of columns, and says what follows for the extremes, once."""

    def __init__(self, extremes: Sequence[Extreme]) -> None:
        self._extremes = extremes
        names = {column for each in extremes for column in each.columns}
        self._bounds = dict.fromkeys(sorted(names), BEGIN)
        self._told = [BEGIN] * len(extremes)

    def hear(self, marks: Marks) -> Marks:
        """What holds now and was not said before."""
        jointly = [BEGIN] * len(self._extremes)
        for mark in marks:
            for column in self._bounds:
                t = mark.as_stable(column)
                if t is not None:
                    self._bounds[column] = max(self._bounds[column], t)
            for i, each in enumerate(self._extremes):
                if each.by_either and not mark.group and _within(mark, each):
                    jointly[i] = max(jointly[i], min(t for _, t in mark.bounds))
        said = []
        for i, each in enumerate(self._extremes):
            bounds = [self._bounds[column] for column in each.columns]
            now = max(*bounds, jointly[i]) if each.by_either else min(bounds)
            if now > self._told[i]:
                self._told[i] = now
                said.append(Punctuation(((each.name, now),)))
        return tuple(said)

    def snapshot(self) -> dict[str, int]:
        """What was promised and said, as numbers with names."""
        numbers = [*self._bounds.values(), *self._told]
        return {f"extreme{i}": n for i, n in enumerate(numbers)}

    def restore(self, numbers: Sequence[int]) -> None:
        """The inverse, in the same order."""
        self._bounds = dict(zip(self._bounds, numbers, strict=False))
        self._told = [*numbers[len(self._bounds) :]]


def _within(mark: Punctuation, each: Extreme) -> bool:
    return bool(mark.bounds) and all(name in each.columns for name, _ in mark.bounds)
