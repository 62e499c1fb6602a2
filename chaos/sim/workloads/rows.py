"""Source rows: drawn in disorder, each in time by the rule of the journal that takes them.

    lateness 8      batch 1   20 14 17        watermark 12: the largest so far less the lateness
                    batch 2   33 12 30        12 is in time: what counts is the watermark before
                              front

Each batch has a row at the *front*, the largest time so far, which every batch moves: so each batch
moves the watermark, and nearly every batch makes the output promise more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from gapless.chaos.sim.workloads.workload import Batches
from gapless.protocol.schema import StreamSchema

Draw = Callable[[random.Random], int]
"""Draws one value of a column."""
STARTS = (100, 200)
"""Where times begin: somewhere, so that they lie at any place of a window's slides."""


class SourcePace(NamedTuple):
    """How sources go on."""

    batches: int
    rows: tuple[int, int]
    """Of one batch, at least and at most."""
    advance: tuple[int, int]
    """Time from one front to the next."""
    lateness: int
    loud: tuple[int, int] = (0, 0)
    quiet: tuple[int, int] = (0, 0)
    """Consecutive batches that are loud, then quiet; all are loud where a source has no quiet."""


def fronts(rng: random.Random, pace: SourcePace) -> list[int]:
    """The front of each batch."""
    steps = (_within(rng, pace.advance) for _ in range(pace.batches - 1))
    return list(accumulate(steps, initial=rng.randrange(*STARTS)))


def draw(
    rng: random.Random,
    schema: StreamSchema,
    pace: SourcePace,
    fronts: Sequence[int],
    value: Mapping[str, Draw],
    quiet: Mapping[str, int] | None = None,
) -> list[pa.RecordBatch]:
    """A batch of integer rows for each front; `value` draws each column but the time, "ts".

    `quiet` has the columns that do not vary in quiet batches.
    """
    times: list[int] = []
    sizes = []
    before = fronts[0]
    for front in fronts:
        size = _within(rng, pace.rows)
        drawn = [_within(rng, (before - pace.lateness, front)) for _ in range(size)]
        drawn[_within(rng, (0, size - 1))] = before = front
        times += drawn
        sizes.append(size)
    columns = {name: [one(rng) for _ in times] for name, one in value.items()}
    columns["ts"] = times
    if quiet is not None:
        for start, end in _pauses(rng, pace, sizes):
            for name, constant in quiet.items():
                columns[name][start:end] = [constant] * (end - start)
    arrays = [pa.array(columns[field.name], field.type) for field in schema.payload]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema.payload)
    ends = accumulate(sizes)
    return [whole.slice(end - size, size) for size, end in zip(sizes, ends, strict=True)]


def _pauses(
    rng: random.Random, pace: SourcePace, sizes: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The rows of each run of quiet batches: first and behind the last."""
    ends = list(accumulate(sizes, initial=0))
    at = _within(rng, pace.loud)
    while at < len(sizes):
        until = min(at + _within(rng, pace.quiet), len(sizes))
        yield ends[at], ends[until]
        at = until + _within(rng, pace.loud)


def _within(rng: random.Random, bounds: tuple[int, int]) -> int:
    """A number within bounds; several times faster than `randint`."""
    return bounds[0] + int(rng.random() * (bounds[1] - bounds[0] + 1))


def rows(batches: Batches, source: str) -> Iterable[Any]:
    """All rows of a source, as tuples."""
    own = [batch for name, batch in batches if name == source]
    return zip(*(column.to_pylist() for column in pa.Table.from_batches(own).columns), strict=True)


def below(n: int) -> Draw:
    """Draws a number of 0 to n - 1."""
    return lambda rng: int(rng.random() * n)
