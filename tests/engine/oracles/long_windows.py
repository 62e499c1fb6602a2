"""Windows that are long beside their slide: hundreds of thousands of answers of a few rows.

    range 86,400, slide 1, rows at 5 and 40 of one key

    as of 6 to 40 answers are about the first, to 86,405 about both, to 86,440 about the second

Between two of the times at which a row enters or leaves, all answers of a group are the same: so
few are computed, in Python's integers, and all are compared, by column. Beside the answers it
counts what they took: calls of functions, and bytes that were allocated at once. Neither may grow
with the answers except for the frames in which they come.
"""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.engine.intake import Intake
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aside import Aside
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event
from gapless.protocol.values import to_values
from tests.engine.oracles.aggregate_oracle import aggregate
from tests.engine.oracles.random_streams import VALUES, Row
from tests.engine.oracles.running import batch_of

RATIOS = (1_000, 3_600, 3_600, 86_400)
"""Ranges over slides."""
ANSWERS_MAX = 400_000
"""That one case has at most: rows times ratio."""
CALLS_PER_FRAME, CALLS_PER_WINDOW = 4_000, 100
"""Calls of functions for one frame that goes in or comes out, and for one window with all of its
groups: what is done once, for all columns and functions of a query."""
TOUCHED_PER_ANSWER = 60
"""Sub-aggregates that are touched for one answer or row, each of three functions in up to five
parts. Putting a window together from its panes touches as many as it has."""
TOUCHING = frozenset(("add", "merge", "unmerge", "take", "results"))
"""Methods of accumulators that touch the sub-aggregates of `ids`."""
BYTES_PER_ROW = 40 * 64
"""At once, for each row of the largest frame that comes out and of what is held: eight columns,
laid out forty times over on the way."""
BYTES_LEAST = 4 << 20
"""What a run takes whatever it is asked for."""

COLUMNS = {"ts": "int64", "k": "int64", "x": "int64", "f": "double"}
EXACT: Sequence[Callable[[str], AggregateFunction]] = (
    *(calls.sum_, calls.min_, calls.max_, calls.first, calls.last, calls.count_distinct),
)


@dataclass(frozen=True)
class Long:
    """One long window over a few rows."""

    query: Query
    covers: int
    slide: int
    functions: tuple[tuple[str, AggregateFunction], ...]
    rows: list[Row]

    @staticmethod
    def draw(seed: int) -> Long:
        """The case of a seed."""
        rng = random.Random(f"long {seed}")
        ratio, slide = rng.choice(RATIOS), rng.choice((1, 1, 7))
        covers = ratio * slide + rng.choice((0, 0, slide // 2))
        drawn = [each(rng.choice(("x", "f"))) for each in rng.sample(EXACT[1:], 2)]
        drawn += [calls.count(), calls.sum_("x")]
        functions = tuple(zip("abcd", drawn[rng.randint(0, 2) :], strict=False))
        rows = _rows(rng, rng.randint(1, min(40, ANSWERS_MAX // ratio)), covers, slide)
        flows = source("a", COLUMNS, time="ts", lateness=rng.choice((0, slide, None)))
        grouped = flows.window(covers, slide).group_by("k")
        return Long(
            grouped.aggregate(early=None, **dict(functions)), covers, slide, functions, rows
        )

    def expected(self) -> Iterator[tuple[int, int, int, list[Any]]]:
        """Of a key from one time up to before another: the answers at each slide."""
        schema = StreamSchema(pa.schema(list(COLUMNS.items())))
        groups: dict[int, list[Row]] = defaultdict(list)
        for row in self.rows:
            groups[row[1]].append(row)
        for key, members in groups.items():
            lives = [
                (_after(row[0], self.slide), _after(row[0] + self.covers, self.slide), row)
                for row in members
            ]
            bounds = sorted({t for vs, ve, _ in lives for t in (vs, ve)})
            for start, end in pairwise(bounds):
                there = [Event(row, row[0], INF) for vs, ve, row in lives if vs <= start < ve]
                if there:
                    values = [aggregate(f, schema, there) for _, f in self.functions]
                    yield key, start, end, values


def _after(t: int, slide: int) -> int:
    return t - t % slide + slide


def _rows(rng: random.Random, count: int, covers: int, slide: int) -> list[Row]:
    """In order of time: some close together, some after a lull that no window spans."""
    keys = rng.choice(("one", "few", "all"))
    t, rows = rng.choice((0, -37, 2**40)), []
    for i in range(count):
        t += rng.choice((0, 1, slide, covers // 3, covers, 1_000 * slide + covers))
        key = {"one": 0, "few": rng.randrange(3), "all": i}[keys]
        rows.append((t, key, rng.choice(VALUES["int64"]), rng.choice(VALUES["double"])))
    return rows


@dataclass
class Taken:
    """What a run took."""

    frames: list[Frame]
    calls: int = 0
    touched: int = 0
    """Sub-aggregates that were added to, put together or read: each part of each counts."""
    peak_bytes: int = 0
    pushed: int = 0


_POOLS: list[pa.MemoryPool] = []
"""All that were used: what was allocated of one may be held for as long as the process is there."""


def run_counted(query: Query, batches: Sequence[tuple[str, pa.RecordBatch]]) -> Taken:
    """Runs a query to the end of its inputs, and counts."""
    aside = Aside("aside")
    graph = Plan(query).compile(aside)
    intakes = {n: Intake(s, aside, graph.grids[n]) for n, s in query.sources.items()}
    pushes = [(n, *each) for n, batch in batches for each in intakes[n].take(batch)]
    pushes += [(n, intake.finish(), ()) for n, intake in intakes.items()]
    taken = Taken([], pushed=len(pushes))

    def count(frame: Any, event: str, _arg: Any) -> None:
        if event in ("call", "c_call"):
            taken.calls += 1
        if event == "call" and frame.f_code.co_name in TOUCHING:
            ids = frame.f_locals.get("ids")
            taken.touched += 0 if ids is None else len(ids)

    default, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    sys.setprofile(count)
    try:
        for name, frame, marks in pushes:
            for part in graph.parts(name, frame, marks):
                sys.setprofile(None)
                taken.frames.append(part)
                sys.setprofile(count)
        sys.setprofile(None)
        kept = sum(frame.batch.nbytes for frame in taken.frames)
        taken.peak_bytes = tracemalloc.get_traced_memory()[1] + pool.max_memory() - kept
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
        pa.set_memory_pool(default)
    assert graph.stable == INF
    return taken


def check_long_windows(seed: int) -> int:
    """All answers are right, and neither calls nor bytes grew with them; how many they were."""
    case = Long.draw(seed)
    taken = run_counted(case.query, [("a", batch_of(case.query.sources["a"].schema, case.rows))])
    answers = _check_answers(seed, case, [f for f in taken.frames if len(f)])
    check_taken(f"seed {seed}, {answers:,} answers", taken, len(case.rows))
    return answers


def check_taken(what: str, taken: Taken, held: int) -> None:
    """Raises where a run took more than its frames, and the rows that it held, can explain."""
    largest = max(len(frame) for frame in taken.frames)
    frames = taken.pushed + len(taken.frames)
    windows = len({t for frame in taken.frames for t in frame.vs.tolist()})
    calls = CALLS_PER_FRAME * frames + CALLS_PER_WINDOW * windows
    assert taken.calls <= calls, f"{what}: {taken.calls:,} calls, not {calls:,}"
    touched = TOUCHED_PER_ANSWER * (held + sum(map(len, taken.frames)))
    assert taken.touched <= touched, f"{what}: {taken.touched:,} touched, not {touched:,}"
    allowed = BYTES_LEAST + BYTES_PER_ROW * (largest + held)
    assert taken.peak_bytes <= allowed, f"{what}: {taken.peak_bytes:,} bytes, not {allowed:,}"


def _check_answers(seed: int, case: Long, frames: list[Frame]) -> int:
    got = pa.Table.from_batches([f.payload for f in frames]).combine_chunks()
    vs = np.concatenate([f.vs for f in frames])
    keys = got.column("k").to_numpy()
    assert (np.concatenate([f.ve for f in frames]) == vs + case.slide).all(), f"seed {seed}"
    order = np.lexsort((vs, keys))
    vs, keys, got = vs[order], keys[order], got.take(pa.array(order))
    wanted = sorted(case.expected(), key=lambda each: each[:2])
    at = 0
    for key, start, end, values in wanted:
        times = np.arange(start, end, case.slide)
        here = slice(at, at + len(times))
        assert np.array_equal(vs[here], times), f"seed {seed}: {key} from {start} to {end}"
        assert (keys[here] == key).all(), f"seed {seed}: {key} from {start} to {end}"
        for (name, function), value in zip(case.functions, values, strict=True):
            found = to_values(got.column(name).slice(at, len(times)).unique())
            assert found == [value], f"seed {seed}: {function} of {key} as of {start}: {found}"
        at += len(times)
    assert at == len(vs), f"seed {seed}: {len(vs) - at} answers too many"
    return at
