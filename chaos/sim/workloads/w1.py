"""Traffic by source: how many packets, and how many bytes, in the last two slides.

What Gapless is for (design, section 8), in small. Some batches have nothing that counts: then only
time goes on, as it does in a quiet network; such a push costs a tenth.
"""

from __future__ import annotations

import random

from gapless.chaos.sim.workloads.rows import SourcePace, below, draw, fronts, rows
from gapless.chaos.sim.workloads.windows import counts_and_sums
from gapless.chaos.sim.workloads.workload import Batches, Workload
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.journal.layout import Layout
from gapless.operators.aggregates import count, sum_
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

COVERS, SLIDE = 20, 10
PACE = SourcePace(
    batches=120,
    rows=(1, 4),
    advance=(SLIDE, SLIDE + 4),
    lateness=8,
    loud=(2, 6),
    quiet=(2, 6),
)
"""Each batch moves the watermark by a slide at least, so each lets some window be answered."""
LEAST, LEAST_SWITCHED = 4, 7
"""Of what is drawn from 0 to 9."""
QUIET = {"len": 0}
SCHEMA = StreamSchema({"ts": "int64", "src": "int32", "len": "int32"})
LAYOUT = Layout(SCHEMA, "ts", ("src",), 1, PACE.lateness)


def talkers(least: int) -> Query:
    """The query: packets that are long enough count."""
    flows = source("flows", SCHEMA.payload, time="ts")
    windowed = flows.where(col("len") >= least).window(range=COVERS, slide=SLIDE)
    return windowed.group_by("src").aggregate(packets=count(), bytes=sum_("len"))


def flows(rng: random.Random, pace: SourcePace = PACE, groups: int = 3) -> Batches:
    """Rows in disorder, of some groups, with values of 0 to 9."""
    value = {"src": below(groups), "len": below(10)}
    return [("flows", batch) for batch in draw(rng, SCHEMA, pace, fronts(rng, pace), value, QUIET)]


def expected(batches: Batches) -> Tdb:
    """The answers of all windows."""
    return Tdb(_schema, _answers(batches, LEAST))


def expected_at(batches: Batches, t: int) -> Tdb:
    """The answers of all windows; of those that end at t or later other rows count."""
    before = [e for e in _answers(batches, LEAST) if e.vs < t]
    after = [e for e in _answers(batches, LEAST_SWITCHED) if e.vs >= t]
    return Tdb(_schema, before + after)


def _answers(batches: Batches, least: int) -> list[Event]:
    counted = (row for row in rows(batches, "flows") if row[2] >= least)
    return list(counts_and_sums(counted, COVERS, SLIDE))


_query = talkers(LEAST)
_schema = _query.schema

W1 = Workload(
    name="w1",
    plans={"plan": Plan(_query, "wid")},
    layouts={"flows": LAYOUT},
    batches=flows,
    expected=expected,
    spare_plan=Plan(_query, "paned"),
    switched=Plan(talkers(LEAST_SWITCHED), "wid"),
    expected_at=expected_at,
    grid=SLIDE,
)
