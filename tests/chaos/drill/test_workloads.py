"""Workloads of real jobs: plans that a job takes beside each other; rows, due as time goes by."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gapless.chaos.drill.workloads import DISORDER_MS, REAL_WORKLOADS, RealWorkload
from gapless.failover.job.whole_file import is_name
from gapless.failover.supervisor.equivalence import check_equivalent

RATE = 500
every = pytest.mark.parametrize("workload", REAL_WORKLOADS.values(), ids=REAL_WORKLOADS.keys())


@every
def test_a_job_takes_all_plans_beside_each_other(workload: RealWorkload) -> None:
    first, *others = workload.plans.values()
    assert all(is_name(name) for name in workload.plans), "files have these names"
    assert others, "replicas are to run different plans"
    for other in others:
        check_equivalent(first, other, assumed=True)


@every
def test_rows_are_the_same_whenever_they_are_made(workload: RealWorkload) -> None:
    for source in workload.sources.values():
        whole = pa.Table.from_batches([source.rows(0, 1_000, RATE)])
        parts = [source.rows(first, 100, RATE) for first in range(0, 1_000, 100)]
        assert pa.Table.from_batches(parts).equals(whole)
        assert whole.column_names == list(source.layout.schema.names)


@every
def test_a_row_has_the_time_that_it_is_due_at_less_some_disorder(workload: RealWorkload) -> None:
    for source in workload.sources.values():
        assert source.layout.time is not None
        times = source.rows(1_000, 5_000, RATE).column(source.layout.time).cast("int64")
        late = [(1_000 + n) * 1_000 // RATE - time for n, time in enumerate(times.to_pylist())]
        assert 0 <= min(late) < max(late) <= DISORDER_MS
        assert source.layout.lateness > DISORDER_MS, "so no row is late"
