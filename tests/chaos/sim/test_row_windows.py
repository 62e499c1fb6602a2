"""Jobs whose windows count rows lose nothing under faults: ranks are one for all replicas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.testing import simulate

FLOWS = gl.source("flows", {"ts": "int64", "src": "int64", "len": "int64"}, time="ts", lateness=8)
EVENTS = pa.table(
    {
        "ts": [i // 2 for i in range(150)],
        "src": [i * 7 % 3 for i in range(150)],
        "len": [i * 13 % 10 for i in range(150)],
    }
)


@pytest.mark.parametrize(
    ("span", "slide"),
    [(gl.rows(4), gl.rows(2)), (9, gl.rows(1)), (gl.rows(3), 5), ("all", gl.rows(3))],
    ids=["rows", "slide by tuple", "last rows", "landmark"],
)
def test_a_job_of_counted_rows_gives_its_answer_under_faults(span: Any, slide: Any) -> None:
    window = FLOWS.window(range=span, slide=slide, partition_by="src")
    query = window.group_by("src").aggregate(n=gl.count(), most=gl.max("len"))
    assert simulate(query, EVENTS, seeds=2).faults > 0
