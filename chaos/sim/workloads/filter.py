"""The cheapest query: a condition and a choice of columns. Each answer is a row, and lives a tick.

Rows are numbered, so no two answers are the same. The changed query asks for more.
"""

from __future__ import annotations

import random
from itertools import count

from gapless.chaos.sim.workloads.rows import SourcePace, below, draw, fronts, rows
from gapless.chaos.sim.workloads.workload import Batches, Workload
from gapless.engine.plan import Plan
from gapless.engine.source import source
from gapless.journal.layout import Layout
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

PACE = SourcePace(batches=120, rows=(2, 5), advance=(1, 9), lateness=8)
LEAST, LEAST_SWITCHED = 3, 6
SCHEMA = StreamSchema({"ts": "int64", "src": "int32", "len": "int32", "id": "int32"})

_flows = source("flows", SCHEMA.payload, time="ts")
_query = _flows.where(col("len") >= LEAST).select("src", "id")
_spare = _flows.select("len", "src", "id").where(col("len") > LEAST - 1).select("src", "id")
_switched = _flows.where(col("len") >= LEAST_SWITCHED).select("src", "id")


def batches(rng: random.Random) -> Batches:
    """Rows in disorder, with values of 0 to 9."""
    number = count()
    value = {"src": below(4), "len": below(10), "id": lambda _: next(number)}
    return [("flows", batch) for batch in draw(rng, SCHEMA, PACE, fronts(rng, PACE), value)]


def expected(batches: Batches) -> Tdb:
    """The rows with enough."""
    return Tdb(_query.schema, _answers(batches, LEAST))


def expected_at(batches: Batches, t: int) -> Tdb:
    """The rows with enough; from t on that is more."""
    before = [e for e in _answers(batches, LEAST) if e.vs < t]
    after = [e for e in _answers(batches, LEAST_SWITCHED) if e.vs >= t]
    return Tdb(_query.schema, before + after)


def _answers(batches: Batches, least: int) -> list[Event]:
    return [
        Event((src, number), ts, ts + 1)
        for ts, src, length, number in rows(batches, "flows")
        if length >= least
    ]


FILTER = Workload(
    name="filter",
    plans={"plan": Plan(_query)},
    layouts={"flows": Layout(SCHEMA, "ts", ("src",), 1, PACE.lateness)},
    batches=batches,
    expected=expected,
    case="r4",  # that ids tell rows apart is known of the data, and not of the query
    spare_plan=Plan(_spare),
    switched=Plan(_switched),
    expected_at=expected_at,
)
