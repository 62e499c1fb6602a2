"""A join by brute force: all pairs of events, and what is left of each event's lifetime.

Reads tables, so it knows nothing of order, adjusts or purging. It tells, too, which null rows may
be known by now: those that start below the other side's stable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from gapless.protocol.elements import INF
from gapless.protocol.tdb import Event, Tdb

Payload = tuple[Any, ...]


@dataclass(frozen=True)
class Oracle:
    """A join of two sides whose payloads are tuples."""

    on: tuple[tuple[int, int], ...]
    """Positions of the `on` columns, left and right."""
    how: str
    where: Callable[[Payload], bool] = lambda _: True
    """Over an output payload."""
    widths: tuple[int, int] = (2, 2)

    def table(self, left: Tdb, right: Tdb, stables: tuple[int, int] = (INF, INF)) -> Counter[Event]:
        """The events of the output; of null rows those known at these stables of the inputs."""
        out: Counter[Event] = Counter()
        matches: tuple[list[list[Event]], ...] = (
            [[] for _ in left.events],
            [[] for _ in right.events],
        )
        for (i, a), (k, b) in product(enumerate(left.events), enumerate(right.events)):
            vs, ve = max(a.vs, b.vs), min(a.ve, b.ve)
            if vs < ve and self._joins(a.payload, b.payload):
                out[Event(self._joined(a.payload, b.payload), vs, ve)] += 1
                matches[0][i].append(b)
                matches[1][k].append(a)
        for side, table in enumerate((left, right)):
            if self.how not in (("left", "right")[side], "full"):
                continue
            for event, met in zip(table.events, matches[side], strict=True):
                for vs, ve in uncovered(event, met):
                    if vs < stables[1 - side]:
                        out[Event(self._alone(side, event.payload), vs, ve)] += 1
        return out

    def _joins(self, a: Payload, b: Payload) -> bool:
        keys = [(a[i], b[k]) for i, k in self.on]
        return all(
            x is not None and y is not None and (x is y or x == y) for x, y in keys
        ) and self.where(self._joined(a, b))

    def _joined(self, a: Payload, b: Payload) -> Payload:
        return (*self._on(0, a), *self._others(0, a), *self._others(1, b))

    def _alone(self, side: int, payload: Payload) -> Payload:
        missing = (None,) * (self.widths[1 - side] - len(self.on))
        rest = self._others(side, payload)
        return (*self._on(side, payload), *((*missing, *rest) if side else (*rest, *missing)))

    def _on(self, side: int, payload: Payload) -> Payload:
        return tuple(payload[pair[side]] for pair in self.on)

    def _others(self, side: int, payload: Payload) -> Payload:
        on = {pair[side] for pair in self.on}
        return tuple(v for i, v in enumerate(payload) if i not in on)


def uncovered(event: Event, met: list[Event]) -> list[tuple[int, int]]:
    """The longest parts of an event's lifetime in which none of `met` is alive."""
    parts, at = [], event.vs
    for vs, ve in sorted((e.vs, e.ve) for e in met):
        if vs > at:
            parts.append((at, min(vs, event.ve)))
        at = max(at, ve)
    if at < event.ve:
        parts.append((at, event.ve))
    return [(vs, ve) for vs, ve in parts if vs < ve]
