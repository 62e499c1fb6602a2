"""Updates of prices: a few symbols have most of them, and they come in bursts.

    ts            symbol  bid    ask    size  seq
    09:00:00.000  AAAA    25117  25119  1200  1
    09:00:00.001  KBDZ     9004   9008   300  1
    09:00:00.002  AAAA    25118  25121   500  2      the third update of AAAA would have seq 3

Each row replaces what its symbol had before: what a reader wants of them is the last by symbol.
`seq` counts a symbol's updates from 1 without a gap, so a reader can tell that none was lost.
Prices are whole cents: a random walk that turns back before it has halved, or grown by half.

The walks and counts go on from block to block, so blocks are made in order; their state is two
numbers a symbol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from gapless.journal.generate.blocks import (
    BLOCK_ROWS,
    TIMESTAMP,
    Events,
    Ints,
    Zipf,
    row_numbers,
    times,
    within,
)
from gapless.journal.generate.netflow import EXPONENT_MAX
from gapless.journal.generate.pace import FACTOR_MAX, Pace, mixed

GENERATOR = 2
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NAME_LETTERS = 4
NAME_STRIDE = 17_011
"""Names of neighbours differ: a stride that shares no factor with 26 meets each name once."""
SYMBOLS_MAX = 100_000
"""More than all exchanges list; four letters make 456,976 names."""
PRICE_MIN_CENTS, PRICE_MAX_CENTS = 1_000, 50_000
"""Where a walk may begin."""
STEP_MAX_CENTS = 2
SPREAD_MAX_CENTS = 5
LOT = 100
LOTS_MAX = 100


@dataclass(frozen=True, kw_only=True)
class Quotes(Events):
    """Updates in the order of their times."""

    rate: int = 10_000
    """Between bursts."""
    symbols: int = 1_000
    exponent: float = 1.1
    burst_ms: int = 500
    burst_every_ms: int = 10_000
    """Each stretch of so much event time has one burst."""
    burst_factor: int = 20

    def _check(self) -> None:
        within("symbols", self.symbols, 1, SYMBOLS_MAX)
        within("exponent", self.exponent, 0.0, EXPONENT_MAX)
        within("burst factor", self.burst_factor, 1, FACTOR_MAX)

    @cached_property
    def _pace(self) -> Pace:
        every, length, factor = self.burst_every_ms, self.burst_ms, self.burst_factor
        return Pace(self.seed, self.rate, every, length, factor, "burst")

    def _span_ms(self) -> int:
        return int(self._pace.time_of(np.array([self.events - 1]))[0])

    @property
    def schema(self) -> pa.Schema:
        """`bid`, `ask` in cents; `size` in shares; `seq` counts the symbol's updates from 1."""
        return pa.schema(
            [
                ("ts", TIMESTAMP),
                ("symbol", pa.string()),
                ("bid", pa.int64()),
                ("ask", pa.int64()),
                ("size", pa.int32()),
                ("seq", pa.int64()),
            ]
        )

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        names, zipf = pa.array(symbol_names(self.symbols)), Zipf(self.symbols, self.exponent)
        numbers = np.arange(self.symbols, dtype=np.int64)
        places = np.uint64(PRICE_MAX_CENTS - PRICE_MIN_CENTS + 1)
        begin = PRICE_MIN_CENTS + (mixed(self.seed, numbers) % places).astype(np.int64)
        seq, walked = np.zeros(self.symbols, np.int64), np.zeros(self.symbols, np.int64)
        block = 0
        while True:
            draws = self.draws(GENERATOR, block)
            symbol = zipf.draw(draws, BLOCK_ROWS)
            steps = draws.integers(-STEP_MAX_CENTS, STEP_MAX_CENTS + 1, BLOCK_ROWS)
            spread = draws.integers(1, SPREAD_MAX_CENTS + 1, BLOCK_ROWS)
            size = draws.integers(1, LOTS_MAX + 1, BLOCK_ROWS, dtype=np.int32) * np.int32(LOT)
            order = np.argsort(symbol, kind="stable")
            row_seq = _sums(symbol, order, np.ones_like(steps), seq)
            bid = begin[symbol] + _turned(_sums(symbol, order, steps, walked), begin[symbol] // 2)
            ts = times(self.start_ms, self._pace.time_of(row_numbers(block)))
            columns = [ts, names.take(pa.array(symbol)), bid, bid + spread, size, row_seq]
            yield pa.record_batch(columns, schema=self.schema)
            block += 1


def symbol_names(count: int) -> list[str]:
    """So many different names, the busiest symbol's first."""
    letters = len(LETTERS)
    powers = [letters**place for place in reversed(range(NAME_LETTERS))]
    codes = [number * NAME_STRIDE % letters**NAME_LETTERS for number in range(count)]
    return ["".join(LETTERS[code // power % letters] for power in powers) for code in codes]


def _sums(keys: Ints, order: Ints, values: Ints, sums: Ints) -> Ints:
    """For each row the sum of its key's values so far, on top of `sums`, which go on from there.

    `order` sorts the rows by key, those of a key in their own order.
    """
    key, total = keys[order], np.cumsum(values[order])
    is_first = np.r_[True, key[1:] != key[:-1]]
    first = np.flatnonzero(is_first)
    before = (total - values[order])[first]  # what other keys have added until a key's first row
    total += (sums[key[first]] - before)[np.cumsum(is_first) - 1]
    last = np.r_[first[1:] - 1, len(key) - 1]
    sums[key[last]] = total[last]
    ours = np.empty_like(total)
    ours[order] = total
    return ours


def _turned(walked: Ints, bound: Ints) -> Ints:
    """A walk of the same steps that turns back at `bound` and at minus `bound`."""
    turned: Ints = bound - np.abs((walked + bound) % (4 * bound) - 2 * bound)
    return turned
