"""The rates of windows stand for right answers: those of a loop over rows; others are refused."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from gapless.bench.engine_runs import made, watched
from gapless.bench.netflow import flows, generator
from gapless.bench.windows_rates import (
    CASES,
    GAP_MS,
    Ordered,
    Told,
    check,
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


@pytest.mark.parametrize("name", CASES)
def test_the_engine_answers_what_is_expected_and_anything_else_is_refused(
    name: str, few: pa.RecordBatch
) -> None:
    case = CASES[name]
    plan = Plan(case.query())
    outputs = watched(plan.compile(), made(plan, {"flows": few}, 500)).outputs
    wanted = case.expected(Ordered(few))
    check(name, outputs, wanted)
    with pytest.raises(Bug, match="are right"):
        check(name, outputs, Told(*(column[1:] for column in wanted)))
    with pytest.raises(Bug, match="are right"):
        check(name, outputs, wanted._replace(n=wanted.n + 1))
