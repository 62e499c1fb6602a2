"""Sub-aggregates of many ranges at once, against adding each range's rows."""

import random

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.ranges import over_ranges

ROWS = pa.schema({"n": pa.int64(), "x": pa.float64(), "s": pa.string()})
FUNCTIONS: list[AggregateFunction] = [
    calls.count(),
    calls.sum_("n"),
    calls.max_("n"),
    calls.last("n"),
    calls.min_("s"),
    calls.count_distinct("s"),
    calls.count_distinct("n", method="hll"),
    calls.sum_("x", scale=8),
    calls.mean("x"),
]


def made(n: int, rng: random.Random) -> pa.RecordBatch:
    columns = [
        [rng.choice([None, 1, 5, -3, 2**62]) for _ in range(n)],
        [rng.choice([None, 0.5, 1.25, -8.0]) for _ in range(n)],
        [rng.choice([None, "a", "b", "cd"]) for _ in range(n)],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def accumulators() -> list[Accumulator]:
    return [function.accumulator(ROWS) for function in FUNCTIONS]


@pytest.mark.parametrize("seed", range(12))
def test_each_range_has_what_adding_its_rows_gives(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.choice([0, 1, 7, 40])
    rows, times = made(n, rng), np.array([rng.randint(0, 9) for _ in range(n)], np.int64)
    cells = accumulators()
    for state in cells:
        state.fit(n)
        state.add(np.arange(n), rows, times)
    partials = [state.take(np.arange(n)) for state in cells]
    bounds = sorted([rng.randint(0, n), rng.randint(0, n)] for _ in range(rng.choice([1, 30])))
    low, high = (np.array([f(b) for b in bounds], np.int64) for f in (min, max))
    for i, (state, partial) in enumerate(zip(accumulators(), partials, strict=True)):
        scratch = FUNCTIONS[i].accumulator(ROWS)
        over_ranges([state], [scratch], [partial], low, high)
        wanted = FUNCTIONS[i].accumulator(ROWS)
        wanted.fit(len(low))
        for id_, (first, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            part = rows.slice(first, end - first)
            wanted.add(np.full(end - first, id_), part, times[first:end])
        ids = np.arange(len(low))
        assert state.results(ids).equals(wanted.results(ids)), FUNCTIONS[i]
