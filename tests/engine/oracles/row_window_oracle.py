"""Windows that count rows, by their definitions (docs/windows.md): every window by itself.

    rows of A at 3 5 5 9     rows(3) / rows(2)     ends at 5 with ranks 0 1, at 9 with ranks 1 2 3

`closed_windows` lists the windows of one partition, each with when it ends, its rows, and those
that no window before it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gapless.engine import nodes
from gapless.engine.row_counts import Rows
from gapless.protocol.elements import INF
from gapless.protocol.tdb import Event
from tests.engine.oracles.fixed_order import place
from tests.engine.oracles.instants import Payload


class Closed(NamedTuple):
    """A window that has ended."""

    at: int
    rows: list[Event]
    new: list[Event]


def closed_windows(window: nodes.RowWindow, events: Sequence[Event]) -> Iterator[Closed]:
    """Of rows of one partition; of those that end at one time only the last."""
    ranked = sorted(events, key=lambda e: (e.vs, place(e.payload)))
    ends = list(_ends(window, ranked))
    had = 0
    for at, upto in ends:
        if (at, upto) != max(e for e in ends if e[0] == at):
            continue
        match window.range:
            case Rows(n):
                rows = ranked[max(0, upto - n) : upto]
            case None:
                rows = ranked[:upto]
            case covers:
                rows = [e for e in ranked if at - covers < e.vs <= at]
        yield Closed(at, rows, ranked[had:upto])
        had = upto


def _ends(window: nodes.RowWindow, ranked: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """When each window ends, and how many rows there are by then."""
    if isinstance(window.slide, Rows):
        for rank in range(window.slide.count - 1, len(ranked), window.slide.count):
            yield ranked[rank].vs, rank + 1
    else:
        s = window.slide
        for e in sorted({e.vs - e.vs % s + s for e in ranked}):
            yield e, sum(r.vs < e for r in ranked)


def counted(
    window: nodes.RowWindow,
    events: Sequence[Event],
    groups: Mapping[Payload, Sequence[Event]],
    answers: Callable[[list[Event]], Iterable[Payload]],
) -> Iterator[Event]:
    """The answers of one partition, whose groups are given; of landmarks only groups with news."""
    closed = list(closed_windows(window, events))
    if window.range is not None:
        for each, lives in zip(closed, lifetimes([c.at for c in closed]), strict=True):
            for payload in answers(each.rows):
                yield Event(payload, *lives)
        return
    for group, members in groups.items():
        mine = [c for c in closed if any(e in members for e in c.new)]
        for each, lives in zip(mine, lifetimes([c.at for c in mine]), strict=True):
            for payload in answers(each.rows):
                if payload[: len(group)] == group:
                    yield Event(payload, *lives)


def lifetimes(times: Sequence[int]) -> list[tuple[int, int]]:
    """From each of these times to the next."""
    return list(pairwise([*times, INF]))
