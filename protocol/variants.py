"""Many physical streams from one TDB: the same table, told in different ways.

A merger must not care how a stream is told: in which order, with how many revisions, how often it
is promised stable. This module makes such streams, from a seed, so that tests (ours, and users'
through `gapless.testing`) can throw hundreds of them at anything that reads streams.

How one is made. Every event becomes a little story of steps:

    ins(A,6,9)  adj(A,6,9,6)  ins(A,6,inf)  adj(A,6,inf,20)        the event <A, [6,20)>
    provisional   removed       again         its final end

The stories are shuffled into one sequence, each in its own order. Then stables are put in: behind
position i a stable t is legal exactly when every later insert has vs >= t and every later adjust
has was >= t and ve >= t, so the largest legal t is a running minimum taken from the end. A stream
is therefore legal by construction; it is folded and compared all the same, and a difference is a
`Bug`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert, Stable
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

Order = Literal["by_start", "ties_shuffled", "any"]


@dataclass(frozen=True, slots=True)
class Telling:
    """How a stream tells its table. The default tells it as plainly as can be."""

    order: Order = "by_start"
    """by_start: inserts by vs, ties in a fixed order (cases R0, R1); ties_shuffled: by vs, ties
    in any order (R2); any: late by up to `disorder` (R3, R4)."""
    disorder: int = 0
    """How far, in event time, an element may come later than its place."""
    provisional_ends: int = 0
    """Most provisional ends that an event goes through before its final one."""
    open_ends: float = 0.0
    """Share of provisional ends that are INF: the lease is open, the end not known yet."""
    removals: float = 0.0
    """Share of events that are removed and inserted again on the way."""
    mistakes: float = 0.0
    """Events that are not in the table at all, as a share of it: inserted, later removed."""
    stable_every: int | None = 4
    """Elements between two stables, on average; None: only the last."""
    stable_lag: int = 0
    """A stable stays up to this far, in event time, behind what it could promise."""
    join_at: int | None = None
    """Joins late: tells every event with ve >= join_at, and of the rest none."""
    frame_rows: int = 8
    """Most rows in a frame; frames also end at stables."""
    complete: bool = True
    """Ends with stable(INF)."""

    def __post_init__(self) -> None:
        if self.order not in ("by_start", "ties_shuffled", "any"):
            raise Misuse(f"order {self.order!r}: use by_start, ties_shuffled or any")
        revises = self.provisional_ends or self.removals or self.mistakes
        if self.order != "any" and (self.disorder or revises):
            raise Misuse(f"order {self.order!r} has no disorder and no revisions")
        if min(self.disorder, self.provisional_ends, self.stable_lag) < 0 or self.frame_rows < 1:
            raise Misuse("amounts are not negative, frame_rows is 1 or more")


def random_telling(rng: random.Random, join_at: int | None = None) -> Telling:
    """A way of telling with everything in it, drawn from `rng`."""
    return Telling(
        order="any",
        disorder=rng.choice((0, 3, 20)),
        provisional_ends=rng.choice((0, 1, 3)),
        open_ends=rng.choice((0.0, 0.3)),
        removals=rng.choice((0.0, 0.2)),
        mistakes=rng.choice((0.0, 0.2)),
        stable_every=rng.choice((None, 2, 8, 30)),
        stable_lag=rng.choice((0, 5)),
        join_at=join_at,
        frame_rows=rng.choice((1, 4, 16)),
    )


def random_tdb(
    rng: random.Random,
    schema: StreamSchema,
    payloads: list[tuple[object, ...]],
    events: int = 30,
    span: int = 60,
    duplicates: bool = False,
) -> Tdb:
    """A table of up to `events` events that start within `span`.

    (payload, vs) is a key unless `duplicates`: then events share starts, and ends too.
    """
    drawn: dict[tuple[object, ...], list[Event]] = {}
    for _ in range(events):
        payload, vs = rng.choice(payloads), rng.randrange(span)
        ve = INF if rng.random() < 0.05 else vs + rng.choice((1, 2, 5, 20))
        drawn.setdefault((payload, vs), []).append(Event(payload, vs, ve))
    kept = [e for same in drawn.values() for e in (same if duplicates else same[:1])]
    return Tdb(schema, kept)


def tell(tdb: Tdb, telling: Telling, seed: int) -> list[Frame]:
    """One physical stream of `tdb`, as frames. The same arguments give the same stream."""
    rng = random.Random(f"variant {seed}")
    told = tdb if telling.join_at is None else tdb.since(telling.join_at)
    elements = _with_stables(_interleave(_stories(told, telling, rng), telling, rng), telling, rng)
    frames = list(_cut(tdb.schema, elements, telling.frame_rows))
    check = Tdb(tdb.schema)
    for frame in frames:
        check.fold(frame)
    if check != told:
        raise Bug(f"seed {seed} tells another table:\n{check.difference(told)}")
    return frames


# -- stories ----------------------------------------------------------------------------------

Story = list[Insert | Adjust]


def _stories(tdb: Tdb, telling: Telling, rng: random.Random) -> list[Story]:
    events = tdb.events
    stories = [_story(e, telling, rng) for e in events]
    starts = {(e.payload, e.vs) for e in events}
    for e in events:
        vs = e.vs + rng.choice((0, 1))
        if (e.payload, vs) not in starts and vs < INF and rng.random() < telling.mistakes:
            starts.add((e.payload, vs))
            wrong = _provisional_end(vs, telling, rng)
            stories.append([Insert(e.payload, vs, wrong), Adjust(e.payload, vs, wrong, vs)])
    return stories


def _story(e: Event, telling: Telling, rng: random.Random) -> Story:
    """The steps that lead to event `e`."""
    ends = [
        _provisional_end(e.vs, telling, rng)
        for _ in range(rng.randint(0, telling.provisional_ends))
    ]
    ends = [end for end in ends if end != e.ve] + [e.ve]
    story: Story = []
    if rng.random() < telling.removals:
        end = _provisional_end(e.vs, telling, rng)
        story += [Insert(e.payload, e.vs, end), Adjust(e.payload, e.vs, end, e.vs)]
    story.append(Insert(e.payload, e.vs, ends[0]))
    story += [Adjust(e.payload, e.vs, was, ve) for was, ve in pairwise(ends) if was != ve]
    return story


def _provisional_end(vs: int, telling: Telling, rng: random.Random) -> int:
    return INF if rng.random() < telling.open_ends else vs + rng.randint(1, 25)


# -- order and promises -----------------------------------------------------------------------


def _interleave(stories: list[Story], telling: Telling, rng: random.Random) -> Story:
    """One sequence of all steps: roughly by time, each story in its own order."""
    placed: list[tuple[float, float, int, int, Insert | Adjust]] = []
    for number, story in enumerate(stories):
        at = float(story[0].vs + rng.randint(0, telling.disorder))
        for step, e in enumerate(story):
            tie = rng.random() if telling.order != "by_start" else 0.0
            placed.append((at, tie if len(story) == 1 else 0.0, number, step, e))
            at += rng.random() * (3 + telling.disorder)
    return [e for *_, e in sorted(placed, key=lambda p: p[:4])]


def _floor(e: Insert | Adjust) -> int:
    """The largest stable that may stand before `e`."""
    return e.vs if isinstance(e, Insert) else min(e.was, e.ve)


def _with_stables(steps: Story, telling: Telling, rng: random.Random) -> list[Element]:
    limits: list[int] = [INF]  # of the stable behind each step, from the end
    for e in reversed(steps[1:]):
        limits.append(min(limits[-1], _floor(e)))
    limits.reverse()
    elements: list[Element] = []
    stable = BEGIN
    for e, limit in zip(steps, limits, strict=False):
        elements.append(e)
        if telling.stable_every is None or rng.random() * telling.stable_every >= 1:
            continue
        t = limit - rng.randint(0, telling.stable_lag)
        if stable < t < INF:
            stable = t
            elements.append(Stable(t))
    if telling.complete:
        elements.append(Stable(INF))
    return elements


def _cut(schema: StreamSchema, elements: list[Element], rows_max: int) -> Iterator[Frame]:
    """Frames of at most `rows_max` rows, each ending at a stable where there is one."""
    for frame in frames_of(schema, elements):
        last = max(len(frame) - 1, 0) // rows_max * rows_max
        for first in range(0, last, rows_max):
            yield frame.slice(first, rows_max)
        yield frame.slice(last, rows_max, frame.stable)
