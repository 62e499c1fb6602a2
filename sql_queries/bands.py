"""Joins by times: conditions that bound how far apart two rows may be.

    a.ts BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts + INTERVAL '5' MINUTE
    b.ts >= a.ts AND b.ts < a.ts + INTERVAL '5' MINUTE

Rows join while their lifetimes overlap: [a, a + r) and [b, b + q) do where b < a + r and a < b + q.
So with d = b - a the bounds low <= d <= high are the windows r = high + 1 and q = 1 - low. Where
one of these is no length, the condition stays besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from gapless.sql_queries.intervals import nanoseconds, ticks
from gapless.sql_queries.places import Text
from gapless.sql_queries.relation import Relation


class _Point(NamedTuple):
    """A time of one side, and what is added to it."""

    side: int
    offset: int


@dataclass
class Band:
    """The bounds of d = right time - left time, in the stream's unit; None: none."""

    low: int | None = None
    high: int | None = None
    needs_condition: bool = False
    """Whether windows alone do not say it."""

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds are there."""
        return self.low is not None and self.high is not None

    @property
    def is_there(self) -> bool:
        """Whether any is."""
        return self.low is not None or self.high is not None

    def ranges(self) -> tuple[int, int]:
        """How long rows of both sides live."""
        if self.low is None or self.high is None:
            raise ValueError("a band without bounds")
        return max(1, self.high + 1), max(1, 1 - self.low)

    def take(self, low: int | None, high: int | None) -> None:
        """Another condition."""
        if low is not None:
            self.low = low if self.low is None else max(self.low, low)
            self.needs_condition |= low > 0
        if high is not None:
            self.high = high if self.high is None else min(self.high, high)
            self.needs_condition |= high < 0


def take_bounds(node: exp.Expr, sides: tuple[Relation, Relation], band: Band, text: Text) -> bool:
    """Takes a condition into the band, where it compares the times of both sides."""
    if isinstance(node, exp.Between):
        least = exp.GTE(this=node.this, expression=node.args["low"])
        most = exp.LTE(this=node.this, expression=node.args["high"])
        trial = Band()
        if take_bounds(least, sides, trial, text) and take_bounds(most, sides, trial, text):
            band.take(trial.low, trial.high)
            return True
        return False
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return False
    first, second = (_point(n, sides, text) for n in (node.this, node.expression))
    if first is None or second is None or first.side == second.side:
        return False
    # first.time + first.offset  op  second.time + second.offset
    distance = second.offset - first.offset  # first.time - second.time  op  distance
    low, high = _bounds(node, distance)
    if first.side == 0:  # d is the negative of that
        low, high = (None if high is None else -high), (None if low is None else -low)
    band.take(low, high)
    return True


def _bounds(node: exp.Expr, distance: int) -> tuple[int | None, int | None]:
    match node:
        case exp.EQ():
            return distance, distance
        case exp.GTE():
            return distance, None
        case exp.GT():
            return distance + 1, None
        case exp.LTE():
            return None, distance
    return None, distance - 1


def _point(node: exp.Expr, sides: tuple[Relation, Relation], text: Text) -> _Point | None:
    match node:
        case exp.Paren():
            return _point(node.this, sides, text)
        case exp.Column():
            for number, side in enumerate(sides):
                found = side.find(node)
                if len(found) == 1 and found[0].column in side.times:
                    return _Point(number, 0)
            return None
        case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
            base = _point(node.this, sides, text)
            if base is None:
                return None
            unit = sides[0].query.schema.time_unit
            offset = ticks(nanoseconds(node.expression, text), unit, node.expression, text)
            sign = 1 if isinstance(node, exp.Add) else -1
            return _Point(base.side, base.offset + sign * offset)
    return None
