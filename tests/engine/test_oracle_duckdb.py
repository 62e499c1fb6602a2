"""Oracle: what a query says at an instant is what DuckDB says of the whole input."""

from __future__ import annotations

import random

from gapless.engine import nodes
from gapless.protocol.tdb import Tdb
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.duckdb_oracle import DuckdbOracle
from tests.engine.oracles.running import run
from tests.engine.oracles.sql_text import CannotSay

INSTANTS = 3
"""Of each table."""
ASKED_LEAST = 0.6
"""Of the queries drawn, the share that SQL can say at least: else this tests little."""


def test_snapshots_are_what_duckdb_says() -> None:
    asked, kinds = 0, set[type]()
    drawn = seeds(120, start=60_000)
    for seed in drawn:
        case = Case.draw(seed)
        try:
            assert wrong_snapshot(case) == ""
        except CannotSay:
            continue
        asked += 1
        kinds |= {type(node) for node in nodes.walk(case.query.root)}
    assert asked > ASKED_LEAST * len(drawn)
    assert kinds >= {
        *(nodes.Source, nodes.Where, nodes.Select, nodes.Window, nodes.Lifetime, nodes.LatestBy),
        *(nodes.Aggregate, nodes.Join, nodes.Union, nodes.Difference, nodes.Distinct),
        *(nodes.TopK, nodes.Race, nodes.Normalise),
    }


def wrong_snapshot(case: Case) -> str:
    """The first instant at which table and DuckDB differ, with both; nothing, mostly."""
    tdb = run(case.plan(), case.told()).tdb
    schemas = {name: source.schema for name, source in case.query.sources.items()}
    with DuckdbOracle(schemas, case.rows) as duckdb:
        for at in instants(case, tdb):
            got, wanted = tdb.snapshot(at), duckdb.snapshot(case.query.root, at)
            if got != wanted:
                return (
                    f"seed {case.seed} at {at}: too much {got - wanted}, "
                    f"missing {wanted - got}{case.outline()}"
                )
    return ""


def instants(case: Case, tdb: Tdb) -> list[int]:
    """Some near the times of rows, some where events start or end; none that is past the end of
    what landmark windows say.
    """
    rng = random.Random(f"instants {case.seed}")
    times = [row[0] + d for rows in case.rows.values() for row in rows for d in (0, 1, 5)]
    times += [t for e in tdb.events for t in (e.vs, e.vs - 1, e.ve, e.ve - 1)]
    within = [t for t in times or [0] if t < case.oracle.horizon]
    return rng.choices(within, k=INSTANTS) if within else []
