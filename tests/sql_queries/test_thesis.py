"""The thesis's queries as text are those by hand, and their answers are right."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import gapless as gl
from gapless.engine.plan import Plan
from gapless.operators import adaptive
from gapless.operators.hopping_aggregate import NAMES, HoppingAggregate, Implementation
from gapless.operators.lazy_rows import LazyRows
from gapless.protocol.elements import INF
from gapless.protocol.tdb import Tdb
from tests.engine.oracles.duckdb_oracle import DuckdbOracle
from tests.engine.oracles.row_oracle import RowOracle, TooLarge
from tests.engine.oracles.sql_text import CannotSay
from tests.sql_queries.thesis import CASES, SOURCES, Case
from tests.sql_queries.thesis import packets as packets_of

SEED = 7
PACKETS = {"5-2": 60}
"""Of each link: enough for every tenth of each host."""
ASKED = frozenset(("1-1", "1-2", "2-1", "3-1", "5-1", "5-7", "5-8", "6-1", "6-2", "6-4", "8-1"))
"""Some of those that DuckDB is sure to be asked about."""
WAYS: tuple[Implementation, ...] = (
    *(name for name in NAMES if name != "two_level"),
    gl.two_level(slots=2),  # hosts collide
)
HOPPING = 15
"""Queries that have windows of time with a slide, for which there is a choice."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_text_is_the_query_by_hand(case: Case) -> None:
    made, by_hand = gl.sql(case.text, SOURCES), case.by_hand()
    assert made.same_as(by_hand), f"{made.explain()}\n{by_hand.explain()}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_right(case: Case) -> None:
    query = gl.sql(case.text, SOURCES)
    rows = _rows(case, query)
    tdb = _table(Plan(query), rows)
    assert tdb.events, "the rows are such that there is an answer"
    with suppress(TooLarge):
        right = RowOracle(rows).table(query.root)
        assert sorted(tdb.events, key=repr) == sorted(right, key=repr)
    assert _asked_duckdb(query, rows, tdb) or case.name not in ASKED


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups turn eager with their third row or so."""
    monkeypatch.setattr(adaptive, "LOOK_ROWS_MIN", 1)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_implementation_gives_one_table(case: Case) -> None:
    query = case.by_hand()
    rows = _rows(case, query)
    tables = [sorted(_table(Plan(query, way), rows).events, key=repr) for way in WAYS]
    for way, table in zip(WAYS, tables, strict=True):
        assert table == tables[0], way


def test_most_queries_have_a_choice() -> None:
    assert len([case for case in CASES if _has_choice(case)]) == HOPPING


@pytest.mark.usefixtures("_small")
def test_rows_that_expire_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LazyRows.forget_below
    monkeypatch.setattr(LazyRows, "forget_below", lambda self, low: right(self, low + 1))
    case = next(case for case in CASES if case.name == "1-1")
    rows = _rows(case, case.by_hand())
    wrong, table = (_table(Plan(case.by_hand(), way), rows).events for way in ("adaptive", "wid"))
    assert wrong != table


def _has_choice(case: Case) -> bool:
    steps = Plan(case.by_hand()).compile().steps
    return any(isinstance(step.operator, HoppingAggregate) for step in steps)


def _rows(case: Case, query: gl.Query) -> dict[str, list[tuple[object, ...]]]:
    rng = random.Random(f"{SEED} {case.name}")
    return {name: packets_of(rng, PACKETS.get(case.name, 25)) for name in query.sources}


def _table(plan: Plan, rows: dict[str, list[tuple[object, ...]]]) -> Tdb:
    """The answers, by frames of few rows: windows close one after the other."""
    tdb, sources = Tdb(plan.query.schema), plan.query.sources
    inputs = {name: gl_table(sources[name].schema, given) for name, given in rows.items()}
    for frame in gl.execute(plan, inputs, frame_rows=3):
        tdb.fold(frame)
    return tdb


def _asked_duckdb(query: gl.Query, rows: dict[str, list[tuple[object, ...]]], tdb: Tdb) -> bool:
    """Whether DuckDB can be asked; it then says the same."""
    schemas = {name: source.schema for name, source in query.sources.items()}
    times = sorted({t for e in tdb.events for t in (e.vs, e.vs - 1, e.ve - 1) if t < INF - 1})
    with suppress(CannotSay), DuckdbOracle(schemas, rows) as duckdb:
        for at in times[:: max(1, len(times) // 3)]:
            assert tdb.snapshot(at) == duckdb.snapshot(query.root, at)
        return True
    return False


def gl_table(schema: gl.StreamSchema, rows: list[tuple[object, ...]]) -> object:
    """Rows in the order of time, as a table."""
    import pyarrow as pa

    names = schema.names
    ordered = sorted(rows, key=lambda row: str(row[0]).zfill(6))
    columns = {name: [row[i] for row in ordered] for i, name in enumerate(names)}
    return pa.table(columns, schema=schema.payload)
