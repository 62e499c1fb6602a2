"""Counts by id and value keep up with a table that grows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.tally import Tally


def test_values_that_make_the_table_grow_are_counted_too() -> None:
    tally, merged = Tally(pa.int64()), Tally(pa.int64())
    ids = np.zeros(1, np.int64)
    for each in (tally, merged):
        each.fit(1)
    for values in (range(3), range(1_000)):
        tally.add(np.zeros(len(values), np.int64), pa.array(values))
    merged.add(ids, pa.array([0]))
    merged.merge(ids, tally.take(ids))
    for each, more in ((tally, 0), (merged, 1)):
        each.validate()
        _, values, counts = each.entries(ids)
        counted = dict(zip(values.to_pylist(), counts.tolist(), strict=True))
        assert counted == {v: 1 + (v < 3) + more * (v == 0) for v in range(1_000)}
