"""What holds at each instant, and the one way of saying it with lifetimes.

A [0,10)  A [10,20)  B [5,15)      boundaries 0 5 10 15 20: what is alive between two of them
                                   is asked once, and the pieces are put together: A [0,20)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from gapless.operators.rank_keys import RankKey
from gapless.protocol.tdb import Event
from tests.engine.oracles.fixed_order import place

Payload = tuple[Any, ...]
Table = list[Event]


def at_each_instant(tables: list[Table], say: Callable[[list[Table]], Iterable[Payload]]) -> Table:
    """What `say` answers from the rows alive, at every instant, in normal form."""
    bounds = sorted({t for events in tables for e in events for t in (e.vs, e.ve)})
    pieces = []
    for vs, ve in pairwise(bounds):
        alive = [[e for e in events if e.vs <= vs < e.ve] for events in tables]
        if any(alive):
            pieces += [Event(p, vs, ve) for p in say(alive)]
    return normal_form(pieces)


def normal_form(events: Iterable[Event]) -> Table:
    """For each payload: starts and ends that meet cancel, the i-th start takes the i-th end."""
    sums: dict[Payload, Counter[int]] = defaultdict(Counter)
    for e in events:
        sums[e.payload][e.vs] += 1
        sums[e.payload][e.ve] -= 1
    out = []
    for payload, at in sums.items():
        starts = sorted(t for t, n in at.items() for _ in range(n))
        ends = sorted(t for t, n in at.items() for _ in range(-n))
        out += [Event(payload, vs, ve) for vs, ve in zip(starts, ends, strict=True)]
    return out


def rank_by(values: Sequence[Any], keys: Sequence[RankKey]) -> Any:
    """What comes first by the keys has the smallest."""
    return tuple(_rank_by(value, key) for value, key in zip(values, keys, strict=True))


def _rank_by(value: Any, key: RankKey) -> Any:
    """NaN comes after numbers either way; null last or, if it is said, first."""
    largest = key.largest
    if value is None and key.nulls_first:
        return (-1,)
    if value is None or value != value:
        return (1, value is None)
    return (0, _Reversed(place((value,)))) if largest else (0, place((value,)))


class _Reversed:
    """Orders the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # a key of sorting alone
