"""The engine's workloads W1 to W3: network flows and two streams to join, from a seed.

    W1  count and sum(len) by src, over the last 10 s, every second       flows
    W2  the same over each second                                         flows
    W3  pairs of equal key that are at most 2 s apart                     join_side, twice

Flows: 10,000 a second of event time in the order of their arrival; every fifth has its time moved
back by up to 5 s. `src` is one of 10,000, drawn from Zipf's law with exponent 1.1, as a few hosts
send most of a network's packets. The sides of the join: 5,000 a second each, 5 % moved back by up
to 1 s, 100,000 keys, all as likely.

Drawn in this order from this seed, the tables are the same everywhere, so every engine's answers
can be compared row by row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]

SEED = 7
START_MS = 1_700_000_000_000
"""The first event's time: a multiple of 10 s, so every engine's windows begin alike."""

RANGE_MS, SLIDE_MS = 10_000, 1_000
"""W1's windows. W2's are a slide long."""
FLOW_RATE, FLOW_KEYS = 10_000, 10_000
"""Flows a second of event time, and different sources among them."""
FLOW_LATENESS_MS = 5_000
"""A flow's time is above the largest before it minus this."""
BAND_MS = 2_000
"""W3: pairs that are at most so far apart."""
SIDE_RATE, SIDE_KEYS = 5_000, 100_000
SIDE_LATENESS_MS = 1_000

FLOWS = pa.schema([("ts", pa.int64()), ("src", pa.int32()), ("len", pa.int32())])
SIDE = pa.schema([("id", pa.int64()), ("key", pa.int32()), ("ts", pa.int64())])


def generator() -> np.random.Generator:
    """What the tables are drawn from: first the flows, then the left side, then the right."""
    return np.random.default_rng(SEED)


def flows(n: int, rng: np.random.Generator) -> pa.RecordBatch:
    """`n` flows in the order of their arrival."""
    ts = _times(n, FLOW_RATE, 0.20, FLOW_LATENESS_MS, rng)
    weight = 1.0 / np.arange(1, FLOW_KEYS + 1) ** 1.1
    share = np.cumsum(weight / weight.sum())
    src = np.minimum(np.searchsorted(share, rng.random(n)), FLOW_KEYS - 1).astype(np.int32)
    length = rng.integers(40, 1501, n).astype(np.int32)
    return pa.record_batch([ts, src, length], schema=FLOWS)


def join_side(n: int, rng: np.random.Generator) -> pa.RecordBatch:
    """`n` rows of one of W3's two inputs, in the order of their arrival."""
    ts = _times(n, SIDE_RATE, 0.05, SIDE_LATENESS_MS, rng)
    key = rng.integers(0, SIDE_KEYS, n).astype(np.int32)
    return pa.record_batch([np.arange(n, dtype=np.int64), key, ts], schema=SIDE)


def _times(n: int, rate: int, late: float, lateness_ms: int, rng: np.random.Generator) -> Ints:
    on_time = START_MS + np.arange(n, dtype=np.int64) * 1000 // rate
    is_late = rng.random(n) < late
    times: Ints = np.where(is_late, on_time - rng.integers(1, lateness_ms, n), on_time)
    return times
