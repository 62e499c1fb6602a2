"""A table of more live rows than any bound has, under a kill: none is lost, doubled or wrong."""

from __future__ import annotations

import os

import psutil
import pytest

from gapless.bench.harness import Context
from gapless.bench.runtime_large import measure_large

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

BYTES_PER_ROW = 2_500
"""Of all processes of the job together, while one comes back."""
BEARABLE = psutil.virtual_memory().available // 2 // BYTES_PER_ROW
ROWS = int(os.environ.get("GAPLESS_TEST_LIVE_ROWS", max(1_300_000, min(5_000_000, BEARABLE))))
"""More than a replica may have on its way to a merger, and five million where memory allows."""


def test_a_job_of_many_live_rows_loses_none_when_a_replica_is_killed_and_is_whole_again() -> None:
    found = {
        row.name.partition(": ")[2]: row.value
        for row in measure_large(Context(quick=True, plot_dir=None, rows=ROWS))
    }
    assert [found[f"rows {what}"] for what in ("lost", "doubled", "contradicting")] == [0, 0, 0]
    assert found["replica killed, full redundancy"] > 0
