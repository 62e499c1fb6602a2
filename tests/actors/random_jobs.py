"""Whole jobs, drawn from a seed: rows, a query, how it runs, what befalls it; and its answer.

The answer is plain Python over the rows and shares nothing with operators: a table is how often
each payload is there at each time, as +1 where it begins and -1 where it ends. Two tables are equal
when these are, however their events are cut.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import gapless as gl

SCHEMA = {"ts": "int64", "src": "int32", "len": "int32"}
LATENESS = 40
BATCHES, BATCH_ROWS, BATCH_TIME = 60, 30, 100
ACTIONS = ("kill replica", "kill merger", "scale up", "scale down", "everything")

Row = tuple[int, int, int]
Payload = tuple[object, ...]
Table = dict[Payload, dict[int, int]]


@dataclass(frozen=True)
class RandomJob:
    """One job."""

    seed: int
    told: str
    query: gl.Query
    answer: Callable[[Sequence[Row]], Table]
    batches: list[list[Row]]
    shards: int
    replicas: int
    mergers: int
    retain: str | None
    actions: tuple[str, ...]

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of batches."""
        return [row for batch in self.batches for row in batch]


def drawn(seed: int) -> RandomJob:
    """A job; the same for the same seed."""
    rng = random.Random(f"job {seed}")
    flows = gl.source("flows", SCHEMA, time="ts", lateness=LATENESS)
    least = rng.choice((0, 3, 6))
    shards = rng.choice((1, 1, 2))
    kept = flows.where(gl.col("len") >= least)
    kinds = ["windows", "lifetimes", "distinct"] + (["all"] if shards == 1 else [])
    kind = rng.choice(kinds)
    slide = rng.choice((20, 50, 100))
    covers = slide * rng.choice((1, 2, 4))
    lasts = rng.choice((10, 90))
    match kind:
        case "windows":
            grouped = kept.window(range=covers, slide=slide).group_by("src")
            query = grouped.aggregate(n=gl.count(), total=gl.sum("len"), most=gl.max("len"))
        case "all":
            query = kept.window(range=covers, slide=slide).aggregate(
                n=gl.count(), total=gl.sum("len"), most=gl.max("len")
            )
        case "lifetimes":
            query = kept.lifetime(duration=lasts).select("src", "len")
        case _:
            query = kept.lifetime(duration=lasts).select("src").distinct()

    def answer(rows: Sequence[Row]) -> Table:
        counted = [row for row in rows if row[2] >= least]
        if kind in ("windows", "all"):
            return windowed(counted, covers, slide, by_source=kind == "windows")
        if kind == "lifetimes":
            return changes(((src, size), ts, ts + lasts) for ts, src, size in counted)
        return once(((src,), ts, ts + lasts) for ts, src, _ in counted)

    batches = [
        [
            (
                number * BATCH_TIME + rng.randrange(BATCH_TIME),
                rng.randrange(6),
                rng.randrange(10),
            )
            for _ in range(BATCH_ROWS)
        ]
        for number in range(BATCHES)
    ]
    actions = tuple(rng.choices(ACTIONS, k=rng.randint(2, 4)))
    replicas, mergers = rng.choice((2, 3)), rng.choice((1, 2))
    retain = rng.choice((None, "1h"))
    told = f"{kind} range {covers} slide {slide} lasts {lasts} least {least}, {actions}"
    return RandomJob(seed, told, query, answer, batches, shards, replicas, mergers, retain, actions)


# -- the answer -----------------------------------------------------------------------------------


def changes(events: Iterable[tuple[Payload, int, int]]) -> Table:
    """How often each payload is there, as the changes of that."""
    table: Table = defaultdict(lambda: defaultdict(int))
    for payload, begin, end in events:
        if end > begin:
            table[payload][begin] += 1
            table[payload][end] -= 1
    return {
        payload: {at: by for at, by in sorted(times.items()) if by}
        for payload, times in table.items()
        if any(times.values())
    }


def once(events: Iterable[tuple[Payload, int, int]]) -> Table:
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
