"""Small journals for tests: what is written, by the plainest rules, and what is read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.partition import partitions_of
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"ts": "int64", "src": "string", "n": "int32"})
LATENESS = 5

Row = tuple[int | None, str | None, int]


def layout(partitions: int = 3, lateness: int = LATENESS) -> Layout:
    return Layout(SCHEMA, "ts", ("src",), partitions, lateness)


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns: list[Any] = [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], []]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA.payload, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.payload)


def random_batches(rng: random.Random, batches: int, rows: int = 12) -> list[list[Row]]:
    """Rows that are on the whole in order, each with a number of its own; a few are late."""
    at, number, made = 100, 0, []
    for _ in range(batches):
        got: list[Row] = []
        for _ in range(rng.choice((0, 1, 3, rows))):
            ts = None if rng.random() < 0.03 else at - rng.choice((0, 0, 1, 2, 5, 6, 20))
            got.append((ts, rng.choice(("a", "b", "c", "dd", None)), number))
            at += rng.choice((0, 1, 1, 2))
            number += 1
        made.append(got)
    return made


class Expected(NamedTuple):
    """What the rules give, row by row."""

    kept: list[list[Row]]
    """By batch."""
    late: list[list[Row]]
    stables: list[int]
    """After each batch."""


def expected(batches: Sequence[Sequence[Row]], lateness: int = LATENESS) -> Expected:
    kept, late, stables, stable = [], [], [], BEGIN
    for rows in batches:
        ok = [r for r in rows if r[0] is not None and r[0] >= stable]
        kept.append(ok)
        late.append([r for r in rows if r not in ok])
        times = [r[0] for r in ok if r[0] is not None]
        stable = max([stable, *(t - lateness for t in times)])
        stables.append(stable)
    return Expected(kept, late, stables)


def by_partition(rows: Sequence[Row], partitions: int) -> dict[int, list[Row]]:
    places = partitions_of([batch(rows).column("src")], partitions).tolist()
    found: dict[int, list[Row]] = {p: [] for p in range(partitions)}
    for row, place in zip(rows, places, strict=True):
        found[place].append(row)
    return found


def writer(disk: Disk, token: str = "w1", **options: Any) -> Writer:
    options.setdefault("segment_bytes", 2_000)
    options.setdefault("headroom_bytes", 0)  # of those that look at bytes, most do not want zeros
    shape = options.pop("shape", layout())
    return Writer(disk, shape, who=f"writer {token}", token=token, now_ms=lambda: 7, **options)


def rows_of(frame: Frame) -> list[Row]:
    columns = [c.to_pylist() for c in frame.payload.columns]
    rows: list[Row] = list(zip(*columns, strict=True))
    assert frame.vs.tolist() == [r[0] for r in rows]
    assert frame.ve.tolist() == [t + 1 for t in frame.vs.tolist()]
    return rows


def drain(reader: Reader) -> list[Row]:
    """What there is now; no row is below what was promised before its frame."""
    rows: list[Row] = []
    promised = reader.stable
    while (frame := reader.read()) is not None:
        assert len(frame) or frame.stable is not None
        assert not len(frame) or int(frame.vs.min()) >= promised
        rows += rows_of(frame)
        if frame.stable is not None:
            assert frame.stable > promised
            promised = frame.stable
        assert reader.stable == promised
    return rows


def read_all(disk: Disk, **options: Any) -> list[Row]:
    return drain(Reader(disk, **options))


def memory() -> SimulatedDisk:
    return SimulatedDisk()
