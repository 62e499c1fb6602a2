"""The thesis's queries as text are those by hand, and their answers are right."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import gapless as gl
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_text_is_the_query_by_hand(case: Case) -> None:
    made, by_hand = gl.sql(case.text, SOURCES), case.by_hand()
    assert made.same_as(by_hand), f"{made.explain()}\n{by_hand.explain()}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_right(case: Case) -> None:
    query = gl.sql(case.text, SOURCES)
    rng = random.Random(f"{SEED} {case.name}")
    rows = {name: packets_of(rng, PACKETS.get(case.name, 25)) for name in query.sources}
    tdb = Tdb(query.schema)
    inputs = {name: gl_table(query.sources[name].schema, given) for name, given in rows.items()}
    for frame in gl.execute(query, inputs):
        tdb.fold(frame)
    assert tdb.events, "the rows are such that there is an answer"
    with suppress(TooLarge):
        right = RowOracle(rows).table(query.root)
        assert sorted(tdb.events, key=repr) == sorted(right, key=repr)
    assert _asked_duckdb(query, rows, tdb) or case.name not in ASKED


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
