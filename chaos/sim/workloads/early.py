"""Provisional answers, revised: counts that are told before all rows can be there.

    stable 17    windows that end up to 57 are answered from what is there: (a, 2) at 40
    a row at 35  the answer (a, 2) is taken back, and (a, 3) put in

So replicas say different things on the way to the same table, as each answers when it reads, and
the output is full of removals.
"""

from __future__ import annotations

import random

from gapless.chaos.sim.workloads.rows import SourcePace, below, draw, fronts, rows
from gapless.chaos.sim.workloads.windows import counts_and_sums
from gapless.chaos.sim.workloads.workload import Batches, Workload
from gapless.engine.plan import Plan
from gapless.engine.source import source
from gapless.journal.layout import Layout
from gapless.operators.aggregates import count
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

COVERS, SLIDE, EARLY = 30, 20, 40
LEAST = 2
PACE = SourcePace(
    batches=110,
    rows=(2, 4),
    advance=(SLIDE, SLIDE + 2),
    lateness=20,
    loud=(3, 3),
    quiet=(7, 9),
)
"""Short bursts of rows that come up to a window late: what was answered early is often revised, and
between bursts, where nothing is, a push costs a tenth."""
QUIET = {"len": 0}
SCHEMA = StreamSchema({"ts": "int64", "src": "int32", "len": "int32"})

_flows = source("flows", SCHEMA.payload, time="ts").where(col("len") >= LEAST)
_query = (
    _flows.window(range=COVERS, slide=SLIDE).group_by("src").aggregate(packets=count(), early=EARLY)
)


def batches(rng: random.Random) -> Batches:
    """Rows in disorder, most of one group, with values of 0 to 9."""
    value = {"src": lambda rng: int(rng.random() * 1.1), "len": below(10)}
    return [("flows", batch) for batch in draw(rng, SCHEMA, PACE, fronts(rng, PACE), value, QUIET)]


def expected(batches: Batches) -> Tdb:
    """The last answers of all windows: how early others were given leaves no trace."""
    counted = (row for row in rows(batches, "flows") if row[2] >= LEAST)
    last = counts_and_sums(counted, COVERS, SLIDE)
    return Tdb(_query.schema, [Event(e.payload[:2], e.vs, e.ve) for e in last])


EARLY_ANSWERS = Workload(
    name="early",
    plans={"plan": Plan(_query, "wid")},
    layouts={"flows": Layout(SCHEMA, "ts", ("src",), 1, PACE.lateness)},
    batches=batches,
    expected=expected,
    insert_only=False,
    spare_plan=Plan(_query, "paned"),
)
