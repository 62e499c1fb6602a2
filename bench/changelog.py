"""Changelogs to frames and back: a million changes in batches of 1,000.

A table with a key: every batch updates rows drawn at random from all, in order of time, with a
watermark behind it; what is timed begins with the Arrow batch. The sessions open and close once
each, out of order. Times are those of the CPU: one thread does it all, and what else the machine
does must not show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gapless.bench.harness import Context, Row, best_of
from gapless.operators.changelog import (
    ChangelogReader,
    FinalChanges,
    OpenClose,
    Retractions,
    Revisions,
    Upserts,
)
from gapless.protocol.changelog import Changes
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SUMMARY = "changelogs of other engines to frames and back, with a key, without one, out of order"

SCHEMA = StreamSchema({"k": "int64", "v": "int64"})
BATCH = 1_000
KEYS = 100_000
CHANGES = 1_000_000
LATE = 2 * BATCH
"""In the log out of order, how much later than its place a change may come."""
REPEAT = 3
BAR = 1e6
SEED = 7

Log = list[tuple[pa.RecordBatch, int]]
"""Batches, each with its watermark."""


def run(context: Context) -> Iterator[Row]:
    """Measures each reader, and the writer, on logs that are made already."""
    keys, changes = (KEYS // 20, CHANGES // 20) if context.quick else (KEYS, CHANGES)
    repeat = 1 if context.quick else REPEAT

    def reads(name: str, make: type[ChangelogReader], log: Log, *key: list[str]) -> Row:
        rate = best_of(lambda: _reading(make(SCHEMA, *key), log), repeat)
        return Row(name, rate, "changes/s", bar=BAR, op=">=")

    retracted, upserted = _updates(keys, changes, retract=True), _updates(keys, changes)
    yield reads("retract stream, without a key", Retractions, retracted)
    yield reads("retract stream, by key", Upserts, retracted, ["k"])
    yield reads("upsert stream, by key", Upserts, upserted, ["k"])
    late = _updates(keys, changes, late=LATE)
    yield reads("upsert stream, by key, out of order", Upserts, late, ["k"])
    sessions = _sessions(changes)
    yield reads("open and close, counted", Retractions, sessions)
    yield reads("open and close, revisable", OpenClose, sessions)
    frames = _frames(Retractions(SCHEMA), sessions)
    rate = best_of(lambda: _revising(frames), repeat)
    yield Row("lifetimes, written and read", rate, "changes/s", bar=BAR, op=">=")
    frames = _frames(Upserts(SCHEMA, ["k"]), upserted)
    rate = best_of(lambda: _writing(FinalChanges(SCHEMA, ["k"]), frames), repeat)
    yield Row("what is final, by key", rate, "changes/s", bar=BAR, op=">=")
    rate = best_of(lambda: _writing(FinalChanges(SCHEMA), frames), repeat)
    yield Row("what is final, without a key", rate, "changes/s", bar=BAR, op=">=")


def _updates(keys: int, changes: int, *, retract: bool = False, late: int = 0) -> Log:
    """The table, then updates of it. With `retract` each has its -U before it."""
    rng = np.random.default_rng(SEED)
    values, t = np.zeros(keys, np.int64), 0
    log = [(_batch(["+I"] * keys, np.zeros(keys, np.int64), np.arange(keys), values), 1)]
    rows = BATCH // 2 if retract else BATCH
    for _ in range(changes // BATCH):
        k = rng.choice(keys, rows, replace=False)
        times = t + 1 + np.arange(rows)
        if late:
            times = np.maximum(1, times - rng.integers(0, late, rows))
        old, t = values[k], t + rows
        values[k] += 1
        if retract:
            said = np.stack([old, values[k]], 1).ravel()
            batch = _batch(["-U", "+U"] * rows, np.repeat(times, 2), np.repeat(k, 2), said)
        else:
            batch = _batch(["+U"] * rows, times, k, values[k])
        log.append((batch, max(1, t + 1 - late)))
    return log


def _sessions(changes: int) -> Log:
    """Sessions that open, and close a while after; each close stands behind its open."""
    rng = np.random.default_rng(SEED)
    rows, log = BATCH // 2, []
    for start in range(0, changes // 2, rows):
        number = start + np.arange(rows)
        times = np.stack([number, number + rng.integers(1, rows, rows)], 1).ravel()
        who = np.repeat(number, 2)
        log.append((_batch(["open", "close"] * rows, times, who, who), start + rows))
    return log


def _batch(
    ops: list[str],
    times: np.typing.NDArray[np.int64],
    k: np.typing.NDArray[np.int64],
    v: np.typing.NDArray[np.int64],
) -> pa.RecordBatch:
    """A batch with memory of its own: the arrays go on to change."""
    return pa.record_batch(
        {
            "op": pa.array(ops),
            "ts": pa.array(times.copy()),
            "k": pa.array(k),
            "v": pa.array(v.copy()),
        }
    )


def _frames(reader: ChangelogReader, log: Log) -> list[Frame]:
    return [reader.push(Changes.of(batch, SCHEMA), watermark) for batch, watermark in log]


def _reading(reader: ChangelogReader, log: Log) -> float:
    """Changes a second, the first batch (the table) filled in before the clock starts."""
    (first, watermark), rest = log[0], log[1:]
    told = len(reader.push(Changes.of(first, SCHEMA), watermark))
    start = time.process_time()
    for batch, watermark in rest:
        told += len(reader.push(Changes.of(batch, SCHEMA), watermark))
    seconds: float = time.process_time() - start
    if not told:
        raise Bug("a reader made nothing of its changes")
    changes: int = sum(batch.num_rows for batch, _ in rest)
    return changes / seconds


def _revising(frames: list[Frame]) -> float:
    reader, changes = Revisions(SCHEMA), 0
    start = time.process_time()
    for frame in frames:
        said = Changes.of_frame(frame)
        changes += len(said)
        reader.push(said, frame.stable)
    return changes / (time.process_time() - start)


def _writing(writer: FinalChanges, frames: list[Frame]) -> float:
    writer.push(frames[0])
    start = time.process_time()
    changes = sum(len(writer.push(frame).changes) for frame in frames[1:])
    return changes / (time.process_time() - start)
