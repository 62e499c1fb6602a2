"""Rows with times, and many ways in which they may arrive.

    rows             3:a  5:b  5:c  8:d          what a query is about: a multiset
    arrival          5:c  3:a  8:d  5:b          an order within the source's lateness
    told             [5:c 3:a] <2 [8:d] [5:b]>   cut into batches, watermarks in between

An order that stays within a bound is made as it would be in the world: every row is delayed by a
little (band), or a few are held together and let go in any order (blocks). `late` is the verdict of
docs/engine.md, row by row, in plain Python.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from gapless.engine.lateness import KLate, Lateness, TimeLate, Watermarks
from gapless.protocol.elements import BEGIN
from gapless.protocol.schema import StreamSchema

Row = tuple[Any, ...]

SPAN = 40
"""Times of rows lie within so much: a few windows, and many rows share a time."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that arrive together."""

    source: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A watermark: no row below `t` comes from this source any more; none of a group, if one is
    named by column and value.
    """

    source: str
    t: int
    group: tuple[tuple[str, Any], ...] = ()


Told = list[Batch | Mark]
"""What comes in, in the order in which it comes."""


# -- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """How the rows of one source are."""

    origin: int = 0
    """Times are around it."""
    lull: int = 3 * SPAN
    """How long nothing comes, where there are lulls at all."""
    keys: Literal["few", "one", "all"] = "few"
    """Values of `KEY`: few, the same in every row, or no value twice."""
    zeros: float = 0
    """The share of zeros among whole numbers, beyond those that are drawn anyway: bad divisors."""
    extremes: float = 0
    """The share of values that are the largest of their kind, or look like others."""

    @staticmethod
    def draw(rng: random.Random) -> World:
        """Mostly small and plain, sometimes skewed, sparse, dirty or far away."""
        return World(
            origin=rng.choice((0, 0, 0, 0, -37, 1_000, 2**62, -(2**62))),
            lull=rng.choice((3 * SPAN, 3 * SPAN, 1_000, 20_000)),
            keys=rng.choice(("few", "few", "few", "one", "all")),
            zeros=rng.choice((0, 0, 0.3)),
            extremes=rng.choice((0, 0, 0.1, 0.5)),
        )


def random_rows(
    rng: random.Random, schema: StreamSchema, time: str, count: int, world: World
) -> list[Row]:
    """Rows of a world: few values, many ties, some duplicates."""
    lulls = rng.random() < 0.3
    rows: list[Row] = []
    for i in range(count):
        if rows and world.keys != "all" and rng.random() < 0.1:
            rows.append(rng.choice(rows))
            continue
        t = world.origin + rng.randrange(SPAN)
        if lulls and t % 20 > 5:  # a burst, then nothing for most of the time
            t += world.lull * (t % 2)
        own = {time: t}
        if world.keys != "few":
            own[KEY] = i if world.keys == "all" else 1
        rows.append(
            tuple(
                own[f.name] if f.name in own else random_value(rng, f, world)
                for f in schema.payload
            )
        )
    return rows


def random_value(rng: random.Random, field: Any, world: World) -> Any:
    """A value of a column: few different ones, null where it may be."""
    if field.nullable and rng.random() < 0.12:
        return None
    if world.zeros and pa.types.is_integer(field.type) and rng.random() < world.zeros:
        return 0
    return _value(rng, field.type, world.extremes)


def _value(rng: random.Random, t: pa.DataType, extremes: float) -> Any:
    if pa.types.is_struct(t):
        return tuple(None if rng.random() < 0.1 else _value(rng, part.type, extremes) for part in t)
    if pa.types.is_dictionary(t):
        t = t.value_type
    name = "string" if "string" in str(t) else str(t)
    if name in EXTREMES and rng.random() < extremes:
        return rng.choice(EXTREMES[name])
    return rng.choice(VALUES[name])


KEY = "k"
"""The column that queries group by most."""

EXTREMES = {
    "int32": (2**31 - 1, -(2**31)),
    "int64": (2**63 - 1, -(2**63), 2**53 + 1),
    "double": (math.inf, -math.inf, 1e308, -1e308, 5e-324),
    "string": ("NA", "null", "1e999", "17", "0x1p3", "\u00e4\u0000", "\U0010ffff"),
}
"""What a door, a sum or a comparison might stumble over."""

VALUES = {
    "int32": (0, 1, 2),
    "int64": (-7, -1, 0, 1, 2, 3, 10),
    "double": (math.nan, -0.0, 0.0, 0.25, 1.5, -2.75, 8.0),
    "string": ("", "a", "b", "ab"),
    "bool": (False, True),
}
"""By type, canonical (the one NaN). Floats are multiples of a quarter: a few add up exactly, in any
order."""


def values_of(t: pa.DataType) -> tuple[Any, ...] | None:
    """Values to compare with, of types that have any."""
    name = str(t.value_type if pa.types.is_dictionary(t) else t)
    return VALUES.get("string" if "string" in name and "<" not in name else name)


# -- orders -----------------------------------------------------------------------------------


def arrange(rng: random.Random, rows: Sequence[Row], time: int, lateness: Lateness) -> list[Row]:
    """The rows in an order in which none is late; `time` is the place of the time column."""
    ordered = sorted(rng.sample(rows, len(rows)), key=lambda row: row[time])
    match lateness:
        case TimeLate(bound) if bound > 0 and rng.random() < 0.3:
            return _in_blocks_of_time(rng, ordered, time, bound)
        case TimeLate(bound):
            return _in_band(rng, ordered, time, bound)
        case KLate(n):
            return [row for block in _blocks(ordered, n + 1) for row in _shuffled(rng, block)]
    return _shuffled(rng, ordered) if rng.random() < 0.5 else _in_band(rng, ordered, time, 10)


def _in_band(rng: random.Random, ordered: list[Row], time: int, bound: int) -> list[Row]:
    """Each row delayed by up to `bound`."""
    delayed = [(row[time] + rng.randint(0, bound), rng.random(), row) for row in ordered]
    return [row for *_, row in sorted(delayed, key=lambda d: d[:2])]


def _in_blocks_of_time(rng: random.Random, ordered: list[Row], time: int, bound: int) -> list[Row]:
    """Rows of the same stretch of `bound` come in any order: block-sorted disorder."""
    stretch: dict[int, list[Row]] = {}
    for row in ordered:
        stretch.setdefault(row[time] // bound, []).append(row)
    return [row for block in stretch.values() for row in _shuffled(rng, block)]


def _blocks(rows: list[Row], size: int) -> list[list[Row]]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def _shuffled(rng: random.Random, rows: list[Row]) -> list[Row]:
    return rng.sample(rows, len(rows))


def late(rows: Sequence[Row], time: int, lateness: Lateness) -> list[Row]:
    """Of rows in order of arrival those that come too late, as docs/engine.md says."""
    times = [row[time] for row in rows]

    def least(i: int) -> int:
        match lateness:
            case TimeLate(bound):
                return max(times[:i], default=BEGIN) - bound
            case KLate(n):
                return max(times[: max(i - n, 0)], default=BEGIN)
        return BEGIN

    return [row for i, row in enumerate(rows) if times[i] < least(i)]


# -- telling ----------------------------------------------------------------------------------


def tell(
    rng: random.Random,
    name: str,
    arrived: Sequence[Row],
    time: int,
    lateness: Lateness,
    groups: Mapping[str, int] | None = None,
) -> Told:
    """One source's rows as batches of any size; watermarks, all true, where it takes them.

    `groups`: columns, by name and place, of which single values may be promised to come no more.
    """
    rows_max = rng.choice((1, 2, 5, 13, len(arrived) or 1))
    told: Told = []
    i = 0
    promised = BEGIN
    while i < len(arrived):
        n = rng.randint(0 if rng.random() < 0.1 else 1, rows_max)
        told.append(Batch(name, tuple(arrived[i : i + n])))
        i += n
        if isinstance(lateness, Watermarks) and rng.random() < 0.5:
            to_come = [row[time] for row in arrived[i:]]
            true = min(to_come, default=max(row[time] for row in arrived) + rng.randint(0, 30))
            t = true - rng.choice((0, 0, 1, 7))
            if t > promised:
                promised = t
                told.append(Mark(name, t))
        if isinstance(lateness, Watermarks) and groups and rng.random() < 0.5:
            told.append(_closed_group(rng, name, arrived[i:], time, groups))
    return told


def _closed_group(
    rng: random.Random, name: str, to_come: Sequence[Row], time: int, groups: Mapping[str, int]
) -> Mark:
    """A true promise about one group of some column."""
    column, place = rng.choice(list(groups.items()))
    value = rng.choice((*(row[place] for row in to_come), 0))
    times = [row[time] for row in to_come if row[place] == value]
    return Mark(name, min(times, default=SPAN) - rng.choice((0, 0, 3)), ((column, value),))


def interleave(rng: random.Random, streams: Sequence[Told]) -> Told:
    """Several sources as one sequence: in step, or one far ahead of the others."""
    skew = rng.choice((1, 1, 20))
    weights = [skew ** rng.random() for _ in streams]
    waiting = [list(reversed(s)) for s in streams]
    out: Told = []
    while any(waiting):
        busy = [i for i, s in enumerate(waiting) if s]
        [i] = rng.choices(busy, [weights[i] for i in busy])
        out.append(waiting[i].pop())
    return out
