"""The answers of random jobs are those of one run without any fault: whoever judges is judged."""

from __future__ import annotations

import pyarrow as pa
import pytest

import gapless as gl
from tests.actors.random_jobs import SCHEMA, changes, drawn


def rows_of(table: pa.Table) -> list[tuple[tuple[object, ...], int, int]]:
    names = [name for name in table.column_names if name not in ("_vs", "_ve")]
    columns = [table.column(name).to_pylist() for name in (*names, "_vs", "_ve")]
    return [(tuple(row[:-2]), row[-2], row[-1]) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("seed", range(24))
def test_a_random_jobs_answer_is_that_of_a_run_without_faults(seed: int) -> None:
    job = drawn(seed)
    columns = [list(column) for column in zip(*job.rows, strict=True)]
    rows = pa.table(
        {name: pa.array(c, SCHEMA[name]) for name, c in zip(SCHEMA, columns, strict=True)}
    )
    held = gl.execute(job.query, rows.sort_by("ts")).to_arrow()
    assert changes(rows_of(held)) == job.answer(job.rows)
    fewer = [row for row in job.rows if row[2] < 9]
    assert job.answer(job.rows) != job.answer(fewer), "it depends on the rows"
