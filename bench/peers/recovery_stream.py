"""The events of a recovery run, twice: as SQL over a counter, and in numpy.

Flink's generator counts, and SQL makes a hundred events of each number, so nothing is read and a
restart goes on from the counter in the checkpoint. Its answers are held against the same formulas:

    number ──SQL────> Flink, with its worker killed ──> answers ─┐
       └────numpy───> `answers`, over panes of 1 s ──────────────┴─> lost, duplicated, or wrong

The stream is like the flows of `../netflow.py`: 10,000 a second of event time, a fifth late by up
to 5 s, 10,000 sources of which the first sends 16 %. Integers only: both sides round alike.

A hundred of each number, because that generator keeps all numbers that it has still to give in its
state: with one number an event, 8 bytes each, they would be most of every checkpoint. That would be
ours to answer for, not Flink's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.bench.netflow import (
    FLOW_KEYS,
    FLOW_LATENESS_MS,
    FLOW_RATE,
    FLOWS,
    RANGE_MS,
    SLIDE_MS,
    START_MS,
)

Ints = npt.NDArray[np.int64]

EVENTS_MAX = 20_000_000
"""`answers` holds a few columns of all events: 1 GB at this size."""

BATCH = 100
"""Events of one number; they have one time."""
_BATCH_MS = BATCH * 1_000 // FLOW_RATE

# -- the formulas, in SQL ... ---------------------------------------------------------------------
# MOD has the type of what it divides by, which for a small literal is 32 bits: hence the casts.

TS_SQL = (
    f"{START_MS} + batch * {_BATCH_MS}"
    f" - CASE WHEN MOD(batch, 5) = 0 THEN MOD(batch * 7919, {FLOW_LATENESS_MS - 1}) + 1 ELSE 0 END"
)
IDS_SQL = f"ARRAY[{', '.join(f'batch * {BATCH} + {place}' for place in range(BATCH))}]"
MIXED_SQL = "CAST(MOD(id * 48271, 2147483647) AS BIGINT)"
DRAW_SQL = "CAST(MOD(mixed * (mixed / 65536 + 1), 1000003) AS BIGINT)"
SRC_SQL = f"CAST({'draw' + ' * draw / 1000003' * 4} * {FLOW_KEYS} / 1000003 AS INT)"
LEN_SQL = "CAST(40 + MOD(id * 1103, 1461) AS BIGINT)"

# -- ... and in numpy -----------------------------------------------------------------------------


def events(count: int) -> pa.RecordBatch:
    """The first so many events, in the order of their numbers."""
    id = np.arange(count, dtype=np.int64)
    batch = id // BATCH
    late = np.where(batch % 5 == 0, batch * 7919 % (FLOW_LATENESS_MS - 1) + 1, 0)
    mixed = id * 48271 % 2147483647
    draw = mixed * (mixed // 65536 + 1) % 1000003
    src = draw
    for _ in range(4):  # the fifth power: small numbers are drawn far more often
        src = src * draw // 1000003
    src = src * FLOW_KEYS // 1000003
    length = 40 + id * 1103 % 1461
    ts = START_MS + batch * _BATCH_MS - late
    columns = [ts, src.astype(np.int32), length.astype(np.int32)]
    return pa.record_batch(columns, schema=FLOWS)


# -- W1 over them ---------------------------------------------------------------------------------


def statements(count: int, rate: int, out: str) -> list[str]:
    """What Flink is told: the source, W1, and files below the address `out`.

    They are there for a reader when the checkpoint that they belong to commits them.
    """
    s = 1_000
    return [
        f"""CREATE TABLE numbers (batch BIGINT, ids AS {IDS_SQL},
            rt AS TO_TIMESTAMP_LTZ({TS_SQL}, 3),
            WATERMARK FOR rt AS rt - INTERVAL '{FLOW_LATENESS_MS // s}' SECOND)
            WITH ('connector' = 'datagen', 'rows-per-second' = '{rate // BATCH}',
            'fields.batch.kind' = 'sequence',
            'fields.batch.start' = '0', 'fields.batch.end' = '{count // BATCH - 1}')""",
        # An array without a column in it would become a join, behind which no time is left.
        "CREATE VIEW ids AS SELECT rt, id FROM numbers CROSS JOIN UNNEST(ids) AS each_id (id)",
        f"CREATE VIEW ids_mixed AS SELECT rt, id, {MIXED_SQL} AS mixed FROM ids",
        f"CREATE VIEW draws AS SELECT rt, id, {DRAW_SQL} AS draw FROM ids_mixed",
        f"CREATE VIEW flows AS SELECT rt, {SRC_SQL} AS src, {LEN_SQL} AS len FROM draws",
        f"""CREATE TABLE answers (w BIGINT, src INT, cnt BIGINT, slen BIGINT)
            WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv',
            'sink.rolling-policy.rollover-interval' = '200 ms',
            'sink.rolling-policy.check-interval' = '100 ms')""",
        f"""INSERT INTO answers
            SELECT CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start)
            AS BIGINT) * {s}, src, COUNT(*), SUM(len)
            FROM TABLE(HOP(TABLE flows, DESCRIPTOR(rt), INTERVAL '{SLIDE_MS // s}' SECOND,
            INTERVAL '{RANGE_MS // s}' SECOND)) GROUP BY window_start, window_end, src""",
    ]


@dataclass(frozen=True)
class Answers:
    """Rows of W1, as columns."""

    key: Ints
    """Window and source in one number, see `keys`."""
    count: Ints
    bytes: Ints


def keys(window_ms: Ints, src: Ints) -> Ints:
    """One number for a window, by where it begins, and a source."""
    found: Ints = window_ms // SLIDE_MS * FLOW_KEYS + src
    return found


def answers(flows: pa.RecordBatch) -> Answers:
    """W1 over these events, by key: sums over panes of a slide, ten of which are a window."""
    ts, src, length = (flows[name].to_numpy().astype(np.int64) for name in ("ts", "src", "len"))
    panes_in_window = RANGE_MS // SLIDE_MS
    pane = ts // SLIDE_MS
    first = int(pane.min()) - panes_in_window + 1  # the first window that has an event
    panes = int(pane.max()) - first + panes_in_window
    cell = (pane - first) * FLOW_KEYS + src

    def summed(weights: Ints | None) -> Ints:
        flat = np.bincount(cell, weights, minlength=panes * FLOW_KEYS)
        by_pane = flat.astype(np.int64).reshape(panes, FLOW_KEYS)
        until = np.concatenate([np.zeros((1, FLOW_KEYS), np.int64), by_pane.cumsum(axis=0)])
        windows: Ints = (until[panes_in_window:] - until[:-panes_in_window]).ravel()
        return windows

    count = summed(None)
    there = np.flatnonzero(count)
    return Answers(there + first * FLOW_KEYS, count[there], summed(length)[there])
