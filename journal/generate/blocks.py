"""What every generator is: rows in blocks, each block drawn from (seed, generator, block number).

    rows      0 .. 65,535   65,536 .. 131,071   ...
    drawn by  (seed, g, 0)  (seed, g, 1)        ...      g: a number of its own for each generator

A block is drawn whole and then cut to the rows that are wanted. So nobody's batch size, and not
even the number of events, changes a row: a run of 1,000 is how a run of a million begins. Memory is
that of a block and of the generator's keys, whatever the number of events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.protocol.errors import Misuse

Ints = npt.NDArray[np.int64]

BLOCK_ROWS = 1 << 16
"""Rows that are drawn at once: a block of narrow columns stays in a core's cache, and what numpy
costs for each call is spread over enough of them. Part of what a seed means: another size, other
rows."""
EVENTS_MAX = 10**12
"""A thousand milliards: the products of row numbers and rates stay far inside an int64."""
RATE_MAX = 10**9
"""Events a second: a million a millisecond, the unit of time."""
SEED_MAX = 2**63 - 1
START_MS = 1_704_067_200_000
"""2024-01-01T00:00:00: the first event's time where nothing else is said."""
START_MIN_MS = -62_135_510_400_000
"""0001-01-02: rows may be up to a day before the start, and Python's dates begin the day before."""
TIME_MAX_MS = 253_370_764_800_000
"""9999-01-01: no event is later; Python's dates end in that year."""
TIMESTAMP = pa.timestamp("ms")


@dataclass(frozen=True, kw_only=True)
class Events(ABC):
    """An iterable of record batches, the same ones each time. Raises `Misuse` when it is made."""

    seed: int = 0
    events: int
    rate: int
    """Events a second of event time."""
    start_ms: int = START_MS
    """The first event's time, in milliseconds since 1970."""

    time_column = "ts"
    """Where the rows' times are."""

    def __post_init__(self) -> None:
        within("seed", self.seed, 0, SEED_MAX)
        within("events", self.events, 1, EVENTS_MAX)
        within("rate", self.rate, 1, RATE_MAX, "events a second")
        within("start", self.start_ms, START_MIN_MS, TIME_MAX_MS, "ms since 1970")
        self._check()
        last_ms = self.start_ms + self._span_ms()
        if last_ms > TIME_MAX_MS:
            years = (last_ms - TIME_MAX_MS) // (365 * 86_400_000) + 1
            raise Misuse(
                f"{self.events} events at {self.rate} a second end {years} years after 9999-01-01, "
                "the last time there is: ask for fewer, or for a higher rate"
            )

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Of every batch."""

    @property
    def rows(self) -> int:
        """How many rows there are in all: the events, where each is a row."""
        return self.events

    @abstractmethod
    def _check(self) -> None:
        """Raises `Misuse` where an option has no meaning."""

    @abstractmethod
    def _span_ms(self) -> int:
        """Event time from the start to the last event, more or less."""

    @abstractmethod
    def _blocks(self) -> Iterator[pa.RecordBatch]:
        """The rows without end, block by block: nothing of it depends on `events`."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left = self.rows
        if not left:
            return
        for block in self._blocks():
            batch = block if len(block) <= left else block.slice(0, left)
            left -= len(batch)
            if len(batch):
                yield batch
            if not left:
                return

    def draws(self, generator: int, block: int) -> np.random.Generator:
        """What a block's random numbers are drawn from."""
        return np.random.default_rng([self.seed, generator, block])


class Zipf:
    """Ranks 0 to `ranks` - 1, the rank k with a weight of 1 / (k + 1) ** exponent.

    With exponent 0 all are as likely; at 1.1 the first of 10,000 is drawn 15 times in 100.
    """

    def __init__(self, ranks: int, exponent: float) -> None:
        weight = np.arange(1, ranks + 1, dtype=np.float64) ** -exponent
        self._share = np.cumsum(weight / weight.sum())
        self._share[-1] = 1.0  # rounding may leave it below the largest draw

    def draw(self, draws: np.random.Generator, rows: int) -> Ints:
        """So many ranks."""
        return np.searchsorted(self._share, draws.random(rows), side="right")


def row_numbers(block: int) -> Ints:
    """The numbers of a block's rows."""
    return np.arange(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS, dtype=np.int64)


def below(draws: np.random.Generator, bounds: Ints) -> Ints:
    """For each bound b a number from 0 to b - 1, all as likely to the last bits of a float."""
    drawn: Ints = (draws.random(len(bounds)) * bounds).astype(np.int64)
    return drawn


def times(start_ms: int, offsets_ms: Ints) -> pa.Array:
    """A column of times."""
    return pa.array(offsets_ms + start_ms).view(TIMESTAMP)


def within(what: str, value: Any, least: float, most: float, unit: str = "") -> None:
    """Raises `Misuse` where an option is out of its range."""
    if not least <= value <= most:
        raise Misuse(f"{what} {value}: it is from {least} to {most}{unit and f' {unit}'}")
