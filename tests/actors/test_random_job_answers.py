"""The answers of random jobs are those of one run without any fault: the judge is judged."""

from __future__ import annotations

import pyarrow as pa
import pytest

import gapless as gl
from tests.actors.plain_answers import FOREVER, Event, Row, changes, spliced
from tests.actors.random_jobs import (
    ACTIONS,
    BATCH_ROWS,
    KINDS,
    SCHEMA,
    SIZES,
    RandomJob,
    Rows,
    Way,
    drawn,
)


def rows_of(table: pa.Table) -> list[Event]:
    names = [name for name in table.column_names if name not in ("_vs", "_ve")]
    columns = [table.column(name).to_pylist() for name in (*names, "_vs", "_ve")]
    return [(tuple(row[:-2]), row[-2], row[-1]) for row in zip(*columns, strict=True)]


def executed(way: Way, rows: Rows) -> list[Event]:
    inputs = {}
    for name, of in rows.items():
        columns = [list(column) for column in zip(*of, strict=True)]
        made = {n: pa.array(c, SCHEMA[n]) for n, c in zip(SCHEMA, columns, strict=True)}
        inputs[name] = pa.table(made).sort_by("ts")
    only = next(iter(inputs.values()))
    return rows_of(gl.execute(way.query, inputs if len(inputs) > 1 else only).to_arrow())


def some(job: RandomJob) -> dict[str, list[Row]]:
    """A part of its rows."""
    return {name: rows[: 10 * BATCH_ROWS] for name, rows in job.rows.items()}


@pytest.mark.parametrize("seed", range(4 * len(KINDS)))
def test_a_random_jobs_answer_is_that_of_a_run_without_faults(seed: int) -> None:
    job = drawn(seed)
    rows = some(job)
    assert changes(executed(job.way, rows)) == job.way.answer(rows), job.told
    fewer = {**rows, "flows": [row for row in rows["flows"] if row[2] < SIZES - 1]}
    assert job.way.answer(rows) != job.way.answer(fewer), "it depends on the rows"


@pytest.mark.parametrize("at", [0, 517, FOREVER - 1])
def test_the_answer_of_a_cutover_is_that_of_the_one_query_and_then_of_the_other(at: int) -> None:
    for seed in range(len(KINDS)):
        job = drawn(seed)
        rows = some(job)
        held = [(p, b, min(e, at)) for p, b, e in executed(job.way, rows)]
        held += [(p, max(b, at), e) for p, b, e in executed(job.changed, rows)]
        wanted = spliced(job.way.answer(rows), job.changed.answer(rows), at)
        assert changes(held) == wanted, job.told


def test_random_jobs_have_every_kind_of_query_and_meet_every_action() -> None:
    jobs = [drawn(seed) for seed in range(len(KINDS))]
    assert len({str(job.told.split()[1]) for job in jobs}) == len(KINDS)
    assert {action for job in jobs for action in job.actions} == {*ACTIONS, "cutover"}
