"""Whole jobs, drawn from a seed: rows, a query, how it runs, what happens to it; and its answer.

The answer (`plain_answers.py`) is plain Python over the rows, written apart from the engine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import gapless as gl
from tests.actors.plain_answers import Row, Table, best, changes, joined, latest, once, windowed

SCHEMA = {"ts": "int64", "src": "int32", "len": "int32"}
LATENESS = 40
BATCHES, BATCH_ROWS, BATCH_TIME = 60, 30, 100
SOURCES, SIZES = 6, 10
KINDS = ("windows", "join", "top", "latest", "distinct", "all", "lifetimes")
"""Of queries: one after the other as seeds count up, so that so many seeds have them all."""
ACTIONS = ("kill replica", "kill merger", "kill reader", "scale up", "scale down", "everything")

Rows = Mapping[str, Sequence[Row]]
"""By source."""


class Way(NamedTuple):
    """One query, and its answer."""

    query: gl.Query
    answer: Callable[[Rows], Table]


@dataclass(frozen=True)
class RandomJob:
    """One job."""

    seed: int
    told: str
    way: Way
    changed: Way
    """What it is cut over to, if it is: another answer, of the same columns."""
    batches: list[dict[str, list[Row]]]
    shards: int
    replicas: int
    mergers: int
    retain: str | None
    actions: tuple[str, ...]

    @property
    def rows(self) -> dict[str, list[Row]]:
        """All rows, in the order of batches."""
        sources = self.batches[0]
        return {name: [row for batch in self.batches for row in batch[name]] for name in sources}


class Query:
    """What a query is made with; of one seed."""

    def __init__(self, rng: random.Random, kind: str, shards: int) -> None:
        self.kind = kind
        self.by_source = shards > 1 or rng.random() < 0.5
        self.slide = rng.choice((20, 50, 100))
        self.covers = self.slide * rng.choice((1, 2, 4))
        self.lasts = rng.choice((10, 90))
        self.other_lasts = rng.choice((5, 40))
        self.k = rng.choice((1, 3))

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in vars(self).items())

    def way(self, least: int) -> Way:
        """Of the rows of so much at least."""
        flows = gl.source("flows", SCHEMA, time="ts", lateness=LATENESS)
        query, answer = self._made(flows.where(gl.col("len") >= least))
        return Way(query, lambda rows: answer([r for r in rows["flows"] if r[2] >= least], rows))

    def _made(self, kept: gl.Query) -> tuple[gl.Query, Callable[[Sequence[Row], Rows], Table]]:
        covers, slide, lasts, by_source = self.covers, self.slide, self.lasts, self.by_source
        alive = kept.lifetime(duration=lasts).select("src", "len")
        match self.kind:
            case "windows" | "all":
                grouped = self.kind == "windows"
                window = kept.window(range=covers, slide=slide)
                whole = window.group_by("src") if grouped else window
                query = whole.aggregate(n=gl.count(), total=gl.sum("len"), most=gl.max("len"))
                return query, lambda own, _: windowed(own, covers, slide, by_source=grouped)
            case "join":
                pings = gl.source("pings", SCHEMA, time="ts", lateness=LATENESS)
                other = pings.lifetime(duration=self.other_lasts).select("src", size=gl.col("len"))
                query = alive.join(other, on="src")
                return query, lambda own, rows: joined(own, rows["pings"], lasts, self.other_lasts)
            case "top":
                query = alive.top_k(self.k, by="len", within="src" if by_source else ())
                return query, lambda own, _: best(own, lasts, self.k, by_source=by_source)
            case "latest":
                return kept.select("src", "len").latest_by("src"), lambda own, _: latest(own)
            case "distinct":
                return alive.select("src").distinct(), lambda own, _: once(
                    ((src,), ts, ts + lasts) for ts, src, _ in own
                )
        return alive, lambda own, _: changes(((src, n), ts, ts + lasts) for ts, src, n in own)


def drawn(seed: int) -> RandomJob:
    """A job; the same for the same seed."""
    rng = random.Random(f"job {seed}")
    kind = KINDS[seed % len(KINDS)]
    shards = 1 if kind == "all" else rng.choice((1, 1, 2))
    made = Query(rng, kind, shards)
    least, then_least = rng.sample((0, 3, 6), 2)
    sources = ("flows", "pings") if kind == "join" else ("flows",)
    batches = [
        {name: [_row(rng, number) for _ in range(BATCH_ROWS)] for name in sources}
        for number in range(BATCHES)
    ]
    actions = rng.choices(ACTIONS, k=rng.randint(2, 4))
    if rng.random() < 0.5:
        actions.insert(rng.randint(0, len(actions)), "cutover")
    replicas, mergers = rng.choice((2, 3)), rng.choice((1, 2))
    retain = rng.choice((None, "1h"))
    told = f"{made} least {least}, then {then_least}, {shards} shards, {actions}"
    return RandomJob(
        seed,
        told,
        made.way(least),
        made.way(then_least),
        batches,
        shards,
        replicas,
        mergers,
        retain,
        tuple(actions),
    )


def _row(rng: random.Random, batch: int) -> Row:
    ts = batch * BATCH_TIME + rng.randrange(BATCH_TIME)
    return ts, rng.randrange(SOURCES), rng.randrange(SIZES)
