"""Windows of aggregates that add up: running sums say what chains of cells say."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aggregates import count, max_, mean, sum_
from gapless.operators.answers import Grouping
from gapless.operators.aside import Aside
from gapless.operators.row_window import RowWindowAggregate
from gapless.operators.row_windows import LastRows, RowHopping, RowWindow, SlideByTuple
from gapless.operators.summed_cells import SummedCells
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.effort import cases

S = StreamSchema(pa.schema([("k", pa.int64()), ("x", pa.int64())]))
ADDING = [("n", count()), ("some", count("x")), ("x", sum_("x")), ("mean", mean("x"))]
WINDOWS = [RowHopping(6, 2), RowHopping(3, 5), LastRows(4, 5), SlideByTuple(7, 1)]
HUGE = 2**62


def frames(seed: int) -> Iterator[Frame]:
    """Rows of three keys, most of them small; from some time on also nulls, then huge ones."""
    rng = random.Random(f"summed {seed}")
    ready, steps = 0, 14
    nulls, huge = (rng.randrange(2 * steps) for _ in range(2))
    for step in range(steps):
        values: list[int | None] = [1, -5, 9]
        if step >= nulls:
            values.append(None)
        if step >= huge:
            values += [HUGE, -HUGE]
        n = rng.randint(0, 9)
        times = [ready + rng.randrange(12) for _ in range(n)]
        rows = pa.record_batch(
            [
                pa.array([rng.randrange(3) for _ in times], pa.int64()),
                pa.array([rng.choice(values) for _ in times], pa.int64()),
            ],
            schema=S.payload,
        )
        ready += rng.randrange(8)
        vs = np.array(times, np.int64)
        yield Frame.from_columns(S, vs, vs + 1, rows, stable=INF if step == steps - 1 else ready)


def operator(window: RowWindow, by: list[str]) -> RowWindowAggregate:
    return RowWindowAggregate(S, window, by, by, ADDING, Aside("aside"))


def answers(window: RowWindow, by: list[str], seed: int, moved_at: int = -1) -> Tdb:
    """The table of all answers, with a move to another operator by snapshot on the way."""
    running = operator(window, by)
    tdb = Tdb(running.schema)
    for step, frame in enumerate(frames(seed)):
        tdb.fold(running.push(0, frame).frame)
        running.validate()
        if step == moved_at:
            state, running = running.snapshot(), operator(window, by)
            running.restore(state)
            running.validate()
    return tdb


@pytest.mark.parametrize("by", [["k"], []], ids=["by key", "all"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_they_say_what_chains_say_with_nulls_and_sums_beyond_int64(
    window: RowWindow, by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = range(cases(8))
    found = [answers(window, by, seed, moved_at=seed % 14) for seed in seeds]
    monkeypatch.setattr(SummedCells, "of", lambda grouping: None)
    for seed, tdb in zip(seeds, found, strict=True):
        assert tdb == answers(window, by, seed), seed


def test_they_are_for_aggregates_that_add_up() -> None:
    rows = pa.schema([*S.payload])
    for others, adds_up in (([], True), ([max_("x")], False)):
        functions = [*(function for _, function in ADDING), *others]
        assert (SummedCells.of(Grouping(rows, ["k"], functions, Aside())) is not None) == adds_up
