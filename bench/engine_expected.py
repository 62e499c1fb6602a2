"""What the runs must answer: W1 to W3 computed at once over the whole input, without the engine.

A rate is only measured after the frames have been compared with this, value for value. Flows are
few enough for a table with a place for each window and source; pairs are found by binary search
among the right rows in the order of (key, time).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from gapless.bench.netflow import BAND_MS, FLOW_KEYS, Ints
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame


class ExpectedWindows:
    """Count and sum(len) by window and source."""

    def __init__(self, flows: pa.RecordBatch, range_ms: int, slide_ms: int) -> None:
        """`range_ms` is a multiple of `slide_ms`."""
        ts, src, length = (flows.column(name).to_numpy() for name in ("ts", "src", "len"))
        pane = ts // slide_ms
        self._first, panes = int(pane.min()), int(pane.max() - pane.min()) + 1
        cell = (pane - self._first) * FLOW_KEYS + src
        size = panes * FLOW_KEYS
        counts = np.bincount(cell, minlength=size)
        sums = np.bincount(cell, weights=length, minlength=size).astype(np.int64)
        self._slide_ms = slide_ms
        span = range_ms // slide_ms
        self._counts = _slid(counts.reshape(panes, FLOW_KEYS), span)
        self._sums = _slid(sums.reshape(panes, FLOW_KEYS), span)

    def check(self, frames: Sequence[Frame]) -> None:
        """Raises `Bug` unless the frames are these answers: no more, no fewer, none different."""
        rows = sum(map(len, frames))
        wanted = int(np.count_nonzero(self._counts))
        if rows != wanted:
            raise Bug(f"{rows:,} answers, {wanted:,} are right")
        counts, sums = np.zeros_like(self._counts), np.zeros_like(self._sums)
        for frame in frames:
            if not frame.insert_only or (frame.ve - frame.vs != self._slide_ms).any():
                raise Bug("an answer is no insert that lives for a slide")
            # A window is known by its last pane, which ends as its answer starts.
            place = frame.vs // self._slide_ms - 1 - self._first
            src = frame.payload.column("src").to_numpy()
            counts[place, src] = frame.payload.column("n").to_numpy()
            sums[place, src] = frame.payload.column("bytes").to_numpy()
        wrong = int(np.count_nonzero((counts != self._counts) | (sums != self._sums)))
        if wrong:
            raise Bug(f"{wrong:,} of {wanted:,} answers are wrong")


def _slid(panes: Ints, span: int) -> Ints:
    """Row i: panes i - span + 1 to i."""
    total = np.zeros((len(panes) + 2 * span - 1, FLOW_KEYS), np.int64)
    total[span : span + len(panes)] = panes
    np.cumsum(total, axis=0, out=total)
    return total[span:] - total[:-span]


class ExpectedPairs:
    """W3's pairs of ids."""

    def __init__(self, left: pa.RecordBatch, right: pa.RecordBatch) -> None:
        a_id, a_key, a_ts = (column.to_numpy().astype(np.int64) for column in left.columns)
        b_id, b_key, b_ts = (column.to_numpy().astype(np.int64) for column in right.columns)
        earliest = int(min(a_ts.min(), b_ts.min())) - BAND_MS
        span = int(max(a_ts.max(), b_ts.max())) + BAND_MS + 1 - earliest
        order = np.lexsort((b_ts, b_key))
        places = b_key[order] * span + b_ts[order] - earliest
        at = a_key * span + a_ts - earliest
        begin = np.searchsorted(places, at - BAND_MS)
        found = np.searchsorted(places, at + BAND_MS, side="right") - begin
        pair = np.repeat(np.arange(len(at)), found)
        before = np.cumsum(found) - found
        partner = order[np.arange(len(pair)) - before[pair] + begin[pair]]
        self._pairs = np.sort(_pairs(a_id[pair], b_id[partner]))

    def check(self, frames: Sequence[Frame]) -> None:
        """Raises `Bug` unless the frames are these pairs, each once."""
        payloads = [frame.payload for frame in frames]
        got = [_pairs(p.column("id").to_numpy(), p.column("id_right").to_numpy()) for p in payloads]
        pairs = np.sort(np.concatenate(got)) if got else np.empty(0, np.int64)
        if not np.array_equal(pairs, self._pairs):
            raise Bug(f"{len(pairs):,} pairs are not the {len(self._pairs):,} that are right")


def _pairs(a: Ints, b: Ints) -> Ints:
    """Two ids as one number: they are below 2^31."""
    return (a << 32) | b


def check_same(found: Mapping[str, Sequence[Frame]]) -> None:
    """Raises `Bug` unless several runs gave the same table; all are inserts."""
    tables = {}
    for name, frames in found.items():
        batches = [frame.batch for frame in frames]
        table = pa.Table.from_batches(batches)
        tables[name] = table.sort_by([(column, "ascending") for column in table.column_names])
    first, *others = tables
    for name in others:
        if not tables[name].equals(tables[first]):
            raise Bug(f"{name} and {first} give different answers to one query")
