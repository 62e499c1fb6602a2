"""Rows for the section `weight`: in order of time, in batches that are made when they are read.

    spread(rows, keys, over_s)      evenly over so much time, keys at random
    once(rows, over_s)              the same, no key twice
    burst(rows, keys)               all within one second
    lulls(rows, lull_s)             one row, nothing for so long, one row, ...

`None` after the batches of a source is its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.bench.netflow import SEED, START_MS

ROW = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("x", pa.float64())])
BATCH_ROWS = 16_384

Ints = npt.NDArray[np.int64]
Feed = Iterator[tuple[str, pa.RecordBatch | None]]
"""A source's name, and its next batch; None: its end."""


def rows_of(source: str, ts: Ints, keys: Ints) -> Feed:
    """Rows with these times and keys, and the end."""
    rng = np.random.default_rng(SEED)
    for start in range(0, len(ts), BATCH_ROWS):
        part = slice(start, start + BATCH_ROWS)
        n = len(ts[part])
        values = rng.integers(-1000, 1000, n)
        columns = [START_MS + ts[part], keys[part], values, values / 8]
        yield source, pa.record_batch(columns, schema=ROW)
    yield source, None


def spread(rows: int, keys: int, over_s: int, source: str = "a") -> Feed:
    """`rows` evenly over a time, their keys at random."""
    return rows_of(source, _even(rows, over_s), _random(rows, keys))


def once(rows: int, over_s: int, source: str = "a") -> Feed:
    """`rows` evenly over a time, no key twice."""
    return rows_of(source, _even(rows, over_s), np.arange(rows))


def burst(rows: int, keys: int) -> Feed:
    """`rows` within one second."""
    return spread(rows, keys, 1)


def lulls(rows: int, lull_s: int, keys: int = 1) -> Feed:
    """A row each `lull_s` seconds, the keys in turn."""
    return rows_of("a", np.arange(rows) * lull_s * 1000, np.arange(rows) % keys)


def after_a_lull(rows: int, keys: int, over_s: int, lull_s: int) -> Feed:
    """`rows` over a time, nothing for `lull_s` seconds, and one row more."""
    ts = np.append(_even(rows, over_s), (over_s + lull_s) * 1000)
    return rows_of("a", ts, np.append(_random(rows, keys), 0))


def in_turn(*feeds: Feed) -> Feed:
    """A batch of each, as long as there are any: as they are read that are as far in time."""
    left = [iter(feed) for feed in feeds]
    while left:
        for feed in list(left):
            given = next(feed, None)
            if given is None:
                left.remove(feed)
            else:
                yield given


def one_after_the_other(*feeds: Feed) -> Feed:
    """All batches of the first, then the next one's; the ends last."""
    ends = []
    for feed in feeds:
        for name, given in feed:
            if given is None:
                ends.append(name)
            else:
                yield name, given
    yield from ((name, None) for name in ends)


def changed(feed: Feed, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Feed:
    """The same with other columns."""
    for name, given in feed:
        yield name, None if given is None else change(given)


def every(share: float, rows: int) -> npt.NDArray[np.bool_]:
    """A mask of so many of the rows, evenly."""
    whole = np.floor(np.arange(rows + 1) * share)
    mask: npt.NDArray[np.bool_] = np.diff(whole) > 0
    return mask


def _even(rows: int, over_s: int) -> Ints:
    return np.arange(rows, dtype=np.int64) * (over_s * 1000) // rows


def _random(rows: int, keys: int) -> Ints:
    return np.random.default_rng(SEED).integers(0, keys, rows)
