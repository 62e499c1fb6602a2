"""Small journals of every kind, and what may come of reading them when they are damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal.batch import TaskWriter, commit_batch, writing_epoch
from gapless.journal.commit import Commits, live_segment
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout, establish
from gapless.journal.reader import Reader
from gapless.journal.verify import Verifier
from gapless.protocol.envelope import peek_header
from gapless.protocol.errors import JournalError, Misuse
from gapless.protocol.frame import Frame
from tests.journal.journals import (
    SCHEMA,
    Row,
    batch,
    by_partition,
    expected,
    layout,
    memory,
    random_batches,
    rows_of,
    writer,
)

PARTITIONS = 3


class Sample(NamedTuple):
    """A journal, and what each reader of it gets."""

    disk: SimulatedDisk
    shape: Layout
    rows: dict[int, list[Row]]
    middle: dict[int, int]
    """A position in it."""
    name: str = ""

    def copy(self) -> SimulatedDisk:
        copy = SimulatedDisk()
        for name in names_of(self.disk):
            copy.append(name, self.disk.read(name, 0, self.disk.size(name)))
        return copy


def names_of(disk: Disk) -> list[str]:
    folders = ("commits", "epochs", "live", "segments", "bases", "rejects", "readers")
    return ["layout", *(f"{folder}/{name}" for folder in folders for name in disk.list(folder))]


def written(plus: int = 0) -> Sample:
    """By a program: sealed segments, a live one, two epochs."""
    drawn = random_batches(random.Random(4), 10)
    made = [[(t, src, n + plus) for t, src, n in rows] for rows in drawn]
    disk = memory()
    out = writer(disk, segment_bytes=1_200)
    for rows in made[:5]:
        out.append(batch(rows))
    out = writer(disk, "w2", segment_bytes=1 << 20)
    for rows in made[5:]:
        out.append(batch(rows))
    kept = by_partition(list(chain(*expected(made).kept)), PARTITIONS)
    return Sample(disk, layout(), kept, {p: len(kept[p]) * 2 // 3 for p in kept})


def prepared(plus: int = 0, *, by_partition_: bool) -> Sample:
    """By tasks: three batches, each of several segments."""
    disk, shape = memory(), layout(lateness=0)
    establish(disk, shape, "x")
    commits = Commits(disk, shape)
    epoch = writing_epoch(commits, "spark", "run", 1, durable=True)
    kept: list[Row] = []
    for b in range(2):
        results = []
        numbers = range(100 * b, 100 * b + 60)
        rows: list[Row] = [(100 + n, "abcde"[n % 5], n + plus) for n in numbers]
        kept += rows
        for task in range(1 if by_partition_ else 2):
            mine = rows if by_partition_ else rows[task * 30 : task * 30 + 30]
            out = TaskWriter(
                disk,
                shape,
                epoch,
                f"q.{b}.{task}.x",
                commits.head.stable,
                batch=b,
                durable=True,
                by_partition=by_partition_,
                segment_bytes=900,
            )
            for at in range(0, len(mine), 10):
                part = mine[at : at + 10]
                promises = np.array([r[0] for r in part], np.int64)
                out.add(batch(part), promises if by_partition_ else None)
                out._write()
            results.append(out.finish())
        commit_batch(
            commits, epoch, "run", results, query="q", batch=b, now_ms=1, durable=True, ends=b == 1
        )
        commits.catch_up()
    rows_by = by_partition(kept, PARTITIONS)
    return Sample(disk, shape, rows_by, {p: len(rows_by[p]) * 2 // 3 for p in rows_by})


def delivered(plus: int = 0) -> Sample:
    """Frames of a merger, with two bases and frames behind them."""
    disk, shape = memory(), Layout(SCHEMA)
    out = writer(disk, shape=shape, segment_bytes=700)
    rows: list[Row] = []
    for i in range(8):
        part = [(10 * i + j, "a", 10 * i + j + plus) for j in range(10)]
        rows += part
        vs = np.array([r[0] for r in part], np.int64)
        frame = Frame.from_columns(SCHEMA, vs, vs + 1, batch(part), stable=10 * i + 9)
        out.append(frame)
        if i in (2, 5):
            out.seal(frame.take(np.flatnonzero(frame.ve >= 10 * i + 9)).with_stable(10 * i + 9))
    return Sample(disk, shape, {0: rows}, {0: 50})


SAMPLES: dict[str, Callable[[int], Sample]] = {
    "written": written,
    "prepared by partition": lambda plus: prepared(plus, by_partition_=True),
    "prepared": lambda plus: prepared(plus, by_partition_=False),
    "delivered": delivered,
}


# -- reading what is damaged ----------------------------------------------------------------------


class Seen(NamedTuple):
    """What came of reading a damaged journal in one way."""

    rows: dict[int, list[Row]]
    error: JournalError | Misuse | None


def read_so(disk: Disk, **options: Any) -> Seen:
    rows: list[Row] = []
    error = None
    try:
        reader = Reader(disk, frame_rows=4, **options)
        while (frame := reader.read()) is not None:
            rows += rows_of(frame)
    except (JournalError, Misuse) as e:
        error = e
    return Seen(by_partition(rows, PARTITIONS), error)


def ways(sample: Sample) -> list[tuple[dict[str, Any], dict[int, list[Row]]]]:
    """How it is read, and which rows are right."""
    rows = sample.rows
    if len(rows) == 1:
        after = {0: rows[0][50:]}
        return [({}, rows), ({"start": {0: 50}}, after)]
    found: list[tuple[dict[str, Any], dict[int, list[Row]]]] = [({}, rows)]
    found.append(({"partitions": [2]}, {p: rows[p] if p == 2 else [] for p in rows}))
    found.append(({"start": sample.middle}, {p: rows[p][sample.middle[p] :] for p in rows}))
    return found


def check(sample: Sample, disk: Disk, names: set[str], *, may_delay: bool = False) -> bool:
    """Reads it in all ways; whether one raised. `names`: one of them is in each error.

    `may_delay`: the rows that come last may not be seen.
    """
    raised = False
    for options, rows in ways(sample):
        seen = read_so(disk, **options)
        got = seen.rows if len(rows) > 1 else {0: sorted(chain(*seen.rows.values()))}
        for p, right in rows.items():
            assert got[p] == right[: len(got[p])], (options, seen.error)
        if seen.error is None and not may_delay:
            assert got == rows, options
        if seen.error is not None:
            raised = True
            assert isinstance(seen.error, JournalError)
            assert any(name in str(seen.error) for name in names), (names, seen.error)
    return raised


def damaged(sample: Sample, name: str, data: bytes) -> SimulatedDisk:
    disk = sample.copy()
    disk.truncate(name, 0)
    disk.append(name, data)
    return disk


def found_by_verify(disk: Disk) -> list[Any]:
    return [f for f in Verifier(disk).findings() if f.severity != "note"]


FIELDS = (0, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 56, 60)
"""Where the fields of a header are (protocol/envelope.py)."""
READ_ALL_THE_SAME = ("epochs/", "rejects/", "commits/", "live/", "bases/")
"""Where damage may change nothing: what is for people, before the last full commit or the last
base, or says only that there may be more.
"""


def positions(data: bytes, rng: random.Random) -> list[int]:
    """Some of the bytes: of a record's header one of a few fields each, and of its body."""
    if not data.startswith(b"GAPL"):
        return rng.choices(range(len(data)), k=4)
    start, end = rng.choice(list(pairwise(borders(data))))
    fields = [start + at + rng.randrange(2) for at in rng.sample(FIELDS, 6)]
    return [*fields, *rng.choices(range(start, end), k=2)]


def borders(data: bytes) -> list[int]:
    """Where records begin, and where the last one ends."""
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + peek_header(data, found[-1]).envelope_bytes)
    return found


def live_of(sample: Sample) -> tuple[str, bytes]:
    name = live_segment(Commits(sample.disk, sample.shape).head)
    return name, sample.disk.read(name, 0, sample.disk.size(name))
