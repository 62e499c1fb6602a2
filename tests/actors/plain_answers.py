"""What queries answer, in plain Python over rows: it shares nothing with operators.

A table is how often each payload is there at each time, as +1 where it begins and -1 where it ends.
Two tables are equal when these are, however their events are cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

Row = tuple[int, int, int]
"""ts, src, len."""
Payload = tuple[object, ...]
Event = tuple[Payload, int, int]
Table = dict[Payload, dict[int, int]]

FOREVER = 2**63 - 1


def changes(events: Iterable[Event]) -> Table:
    """How often each payload is there, as the changes of that."""
    table: Table = defaultdict(lambda: defaultdict(int))
    for payload, begin, end in events:
        if end > begin:
            table[payload][begin] += 1
            table[payload][end] -= 1
    return _without_nothing(table)


def _without_nothing(table: Table) -> Table:
    return {
        payload: {at: by for at, by in sorted(times.items()) if by}
        for payload, times in table.items()
        if any(times.values())
    }


def once(events: Iterable[Event]) -> Table:
    """The same where a payload is there at most once."""
    spans: dict[Payload, list[tuple[int, int]]] = defaultdict(list)
    for payload, begin, end in sorted(events, key=lambda each: each[1]):
        mine = spans[payload]
        if mine and begin <= mine[-1][1]:
            mine[-1] = (mine[-1][0], max(mine[-1][1], end))
        else:
            mine.append((begin, end))
    return changes((p, begin, end) for p, mine in spans.items() for begin, end in mine)


def windowed(rows: Sequence[Row], covers: int, slide: int, *, by_source: bool) -> Table:
    """Windows that end at multiples of the slide; an answer is there until the next one."""
    groups: dict[tuple[int, Payload], list[int]] = defaultdict(list)
    for ts, src, size in rows:
        first = (ts // slide + 1) * slide
        for end in range(first, ts + covers + 1, slide):
            groups[end, (src,) if by_source else ()].append(size)
    return changes(
        ((*key, len(sizes), sum(sizes), max(sizes)), end, end + slide)
        for (end, key), sizes in groups.items()
    )


def joined(left: Sequence[Row], right: Sequence[Row], lasts: int, other_lasts: int) -> Table:
    """Pairs of one src, as long as both are there."""
    by_src: dict[int, list[Row]] = defaultdict(list)
    for row in right:
        by_src[row[1]].append(row)
    return changes(
        ((src, size, other), max(ts, at), min(ts + lasts, at + other_lasts))
        for ts, src, size in left
        for at, _, other in by_src[src]
    )


def best(rows: Sequence[Row], lasts: int, k: int, *, by_source: bool) -> Table:
    """The k rows of the largest size at each instant, in each src or of all."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[1] if by_source else None].append(row)
    return changes(event for group in groups.values() for event in _best_of(group, lasts, k))


def _best_of(rows: Sequence[Row], lasts: int, k: int) -> Iterable[Event]:
    times = sorted({ts for ts, _, _ in rows} | {ts + lasts for ts, _, _ in rows})
    for begin, end in pairwise(times):
        alive = [(-size, src) for ts, src, size in rows if ts <= begin < ts + lasts]
        for negative, src in sorted(alive)[:k]:
            yield (src, -negative), begin, end


def latest(rows: Sequence[Row]) -> Table:
    """Each src's newest row; of several at one time the largest."""
    largest: dict[tuple[int, int], int] = {}
    for ts, src, size in rows:
        largest[src, ts] = max(size, largest.get((src, ts), size))
    events: list[Event] = []
    keys = sorted(largest)
    for (src, ts), (then_src, then) in zip(keys, [*keys[1:], (-1, 0)], strict=True):
        events.append(((src, largest[src, ts]), ts, then if then_src == src else FOREVER))
    return changes(events)


def spliced(before: Table, after: Table, at: int) -> Table:
    """One table up to a time, the other from it on."""
    both: Table = defaultdict(lambda: defaultdict(int))
    for table, sign in ((before, -1), (after, 1)):
        for payload, times in table.items():
            both[payload][at] += sign * sum(by for time, by in times.items() if time < at)
            for time, by in times.items():
                if (time >= at) == (table is after):
                    both[payload][time] += by
    return _without_nothing(both)
