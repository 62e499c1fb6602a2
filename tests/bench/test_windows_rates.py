"""The rates of windows stand for right answers: those of a loop over rows; others are refused."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from gapless.bench import windows_peers
from gapless.bench.engine_runs import made, watched
from gapless.bench.netflow import RANGE_MS, START_MS, flows, generator
from gapless.bench.windows_rates import (
    CASES,
    GAP_MS,
    RANGE_ROWS,
    SLIDE_ROWS,
    Ordered,
    Told,
    check,
    expected_last_rows,
    expected_last_time,
    expected_sessions,
)
from gapless.engine.plan import Plan
from gapless.protocol.errors import Bug

Answers = set[tuple[int, int, int, int]]


@pytest.fixture(scope="module")
def few() -> pa.RecordBatch:
    return flows(3_000, generator())


def by_source(given: pa.RecordBatch) -> dict[int, list[tuple[int, int]]]:
    """Times and lengths of each source, in order."""
    found = defaultdict(list)
    for row in given.to_pylist():
        found[row["src"]].append((row["ts"], row["len"]))
    return {src: sorted(rows) for src, rows in found.items()}


def answers(told: Told) -> Answers:
    return set(zip(*(column.tolist() for column in told), strict=True))


def test_differential_sessions_are_those_of_a_loop_over_rows(few: pa.RecordBatch) -> None:
    wanted: Answers = set()
    for src, rows in by_source(few).items():
        session = [rows[0]]
        for row in [*rows[1:], (1 << 62, 0)]:
            if row[0] - session[-1][0] > GAP_MS:
                total = sum(length for _, length in session)
                wanted.add((src, session[-1][0] + GAP_MS, len(session), total))
                session = []
            session.append(row)
    assert answers(expected_sessions(Ordered(few))) == wanted


def test_differential_last_rows_are_those_of_a_loop_over_rows(few: pa.RecordBatch) -> None:
    wanted: dict[tuple[int, int], tuple[int, int]] = {}
    for src, rows in by_source(few).items():
        for end in range(SLIDE_ROWS, len(rows) + 1, SLIDE_ROWS):
            mine = [length for _, length in rows[max(0, end - RANGE_ROWS) : end]]
            wanted[src, rows[end - 1][0]] = len(mine), sum(mine)
    found = answers(expected_last_rows(Ordered(few)))
    assert found == {(*key, *value) for key, value in wanted.items()}


@pytest.mark.parametrize("of_all", [False, True])
def test_differential_the_last_time_is_that_of_a_loop_over_rows(
    few: pa.RecordBatch, of_all: bool
) -> None:
    apart = pa.array((few.column("ts").to_numpy() - START_MS) * 20 + START_MS)
    given = few.set_column(0, "ts", apart).slice(0, 400)  # over many times the range
    sources = by_source(given)
    if of_all:
        sources = {0: sorted(row for rows in sources.values() for row in rows)}
    wanted: Answers = set()
    for src, rows in sources.items():
        for w in {ts for ts, _ in rows}:
            mine = [length for ts, length in rows if w - RANGE_MS < ts <= w]
            wanted.add((src, w, len(mine), sum(mine)))
    assert answers(expected_last_time(Ordered(given, by_source=not of_all))) == wanted


@pytest.mark.parametrize("name", CASES)
def test_the_engine_answers_what_is_expected_and_anything_else_is_refused(
    name: str, few: pa.RecordBatch
) -> None:
    case = CASES[name]
    plan = Plan(case.query())
    outputs = watched(plan.compile(), made(plan, {"flows": few}, 500)).outputs
    wanted = case.expected(Ordered(few, by_source=case.by_source))
    check(name, outputs, wanted)
    with pytest.raises(Bug, match="are right"):
        check(name, outputs, Told(*(column[1:] for column in wanted)))
    with pytest.raises(Bug, match="are right"):
        check(name, outputs, wanted._replace(n=wanted.n + 1))


# -- beside DuckDB --------------------------------------------------------------------------------


def test_duckdb_answers_as_we_do() -> None:
    given = flows(6_000, generator())
    database = windows_peers.connected(given)
    for name, peer in windows_peers.PEERS.items():
        plan = Plan(peer.query())
        outputs = watched(plan.compile(), made(plan, {"flows": given}, 1_000)).outputs
        windows_peers.check(name, outputs, database, peer.checked)
        with pytest.raises(Bug, match=name):
            windows_peers.check(name, outputs[1:], database, peer.checked)
