"""Network flow records as routers send them: few busy hosts, out of order inside a bound.

A *NetFlow* is a connection between two addresses; its record has a start time, `ts`. Two patterns
of disorder were seen in such streams, and are drawn here (the window queries thesis has them in its
figures 6-8 and 6-9):

    band      time |            ..'        Near linear, with a band of disorder: delays and
    disorder       |        ..'.'          retransmission move some rows back, each by its own time
                   |    ..'.'              up to the bound.
                   |..'.'______ arrival

    block-    time |         | :. |        Once a cache purge the router puts out all its records:
    sorted         |    | .:.|    |        an ascending set of disjoint blocks, with the points
    disorder       |.:. |    |    |        scattered at random in each. A block is as long as the
                   |____|____|____ arrival bound.

Besides: lulls, in which no link sees a flow; several links, the first the busiest, whose clocks lag
behind by fixed amounts from 0 to `skew_ms` (time skew).

Guarantee: no row's `ts` is more than `lateness_ms` below the largest before it. Disorder moves a
row by `lateness_ms - skew_ms` at most, skew takes the rest. A row that disorder would move into a
lull, or before the start, stays where it is. With skew, a lull is at another time
on each link's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

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
from gapless.journal.generate.pace import Pace
from gapless.protocol.errors import Misuse

Disorder = Literal["none", "band", "block"]

GENERATOR = 1
HOSTS_MAX = 1 << 24
"""As many as 10.0.0.0/8 has; their shares are 128 MB."""
EXPONENT_MAX = 10.0
"""Beyond it not one row in a thousand is another's than the first host's."""
LATENESS_MAX_MS = 86_400_000
LINKS_MAX = 100
"""They fit an int8, and all have rows: the last has a five-hundredth."""
LINK_EXPONENT = 1.0
"""Link k has 1 / (k + 1) of the first one's flows: main links, then control links."""
LEN_MIN, LEN_MAX = 40, 1500
"""Bytes: a bare header, and what fits a frame of Ethernet."""


@dataclass(frozen=True, kw_only=True)
class Netflow(Events):
    """Flows in the order of their arrival."""

    rate: int = 10_000
    hosts: int = 10_000
    exponent: float = 1.1
    """Of Zipf's law, for sources and for destinations."""
    disorder: Disorder = "band"
    lateness_ms: int = 5_000
    late_share: float = 0.2
    """Band disorder: the share of rows that are moved back."""
    links: int = 1
    skew_ms: int = 0
    lull_ms: int = 0
    lull_every_ms: int = 60_000
    """Each stretch of so much event time has one lull."""

    def _check(self) -> None:
        within("hosts", self.hosts, 2, HOSTS_MAX)
        within("exponent", self.exponent, 0.0, EXPONENT_MAX)
        within("lateness", self.lateness_ms, 0, LATENESS_MAX_MS, "ms")
        within("late share", self.late_share, 0.0, 1.0)
        within("links", self.links, 1, LINKS_MAX)
        within("skew within the lateness", self.skew_ms, 0, self.lateness_ms, "ms")
        if self.disorder not in get_args(Disorder):
            raise Misuse(
                f"disorder {self.disorder!r}: it is one of {', '.join(get_args(Disorder))}"
            )
        if self.skew_ms and self.links == 1:
            raise Misuse(
                f"skew {self.skew_ms} ms: one link has no other clock; give 2 links or more"
            )
        if self.disorder != "none" and self._room_ms < 1:
            raise Misuse(
                f"{self.disorder} disorder: the lateness, {self.lateness_ms} ms, leaves it no room "
                f"beside a skew of {self.skew_ms} ms: make it at least 1 ms longer"
            )

    @cached_property
    def _pace(self) -> Pace:
        return Pace(self.seed, self.rate, self.lull_every_ms, self.lull_ms, 0, "lull")

    @property
    def _room_ms(self) -> int:
        """How far disorder may move a row; skew has the rest of the bound."""
        return self.lateness_ms - self.skew_ms

    def _span_ms(self) -> int:
        return int(self._pace.time_of(np.array([self.events - 1]))[0]) + self._room_ms

    @property
    def schema(self) -> pa.Schema:
        """`ts` in milliseconds; `src`, `dst`: hosts; `len`: bytes; `link`: where it was seen."""
        return pa.schema(
            [
                ("ts", TIMESTAMP),
                ("src", pa.int32()),
                ("dst", pa.int32()),
                ("len", pa.int32()),
                ("link", pa.int8()),
            ]
        )

    @property
    def clock_lags_ms(self) -> Ints:
        """How far each link's clock is behind: evenly spread, the first is right."""
        return np.arange(self.links, dtype=np.int64) * self.skew_ms // max(1, self.links - 1)

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        hosts, links = Zipf(self.hosts, self.exponent), Zipf(self.links, LINK_EXPONENT)
        lags = self.clock_lags_ms
        block = 0
        while True:
            draws = self.draws(GENERATOR, block)
            src = hosts.draw(draws, BLOCK_ROWS)
            dst = self._destinations(src, hosts.draw(draws, BLOCK_ROWS))
            length = draws.integers(LEN_MIN, LEN_MAX + 1, BLOCK_ROWS, dtype=np.int32)
            link = links.draw(draws, BLOCK_ROWS)
            ts = self._disordered(self._pace.time_of(row_numbers(block)), draws) - lags[link]
            columns = [times(self.start_ms, ts), src.astype(np.int32), dst.astype(np.int32)]
            columns += [length, link.astype(np.int8)]
            yield pa.record_batch(columns, schema=self.schema)
            block += 1

    def _destinations(self, src: Ints, rank: Ints) -> Ints:
        """The host that sends most is not the one that gets most, and nobody sends to itself."""
        dst = (rank + self.hosts // 2) % self.hosts
        return np.where(dst == src, (dst + 1) % self.hosts, dst)

    def _disordered(self, on_time: Ints, draws: np.random.Generator) -> Ints:
        if self.disorder == "none":
            return on_time
        if self.disorder == "band":
            is_late = draws.random(len(on_time)) < self.late_share
            back = draws.integers(1, self._room_ms + 1, len(on_time))
            moved = np.where(is_late, on_time - back, on_time)
        else:
            within_block = draws.integers(0, self._room_ms, len(on_time))
            moved = on_time - on_time % self._room_ms + within_block
        stays = (moved < 0) | self._pace.in_stretch(moved)
        return np.where(stays, on_time, moved)
