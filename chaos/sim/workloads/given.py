"""A workload of a user's: a query and the rows that it is to be tried with.

    the rows, by time        7   9  12  12  15  21 ...       their times are what they are
    on their way             delayed, each by up to the lateness; not in every run
    as they come             9   7  12 | 15  12 | 21 ...     cut into batches at any places

A run takes a few virtual seconds, however much time the rows span: a batch comes at each of the
run's paces.

The table is what one evaluation of the query gives, of all rows at once, in order of time. Or it is
what the user expects: only that finds a query which gives the same wrong answer everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gapless.chaos.sim.user_memory import Memories
from gapless.chaos.sim.workloads.given_answer import agreed
from gapless.chaos.sim.workloads.given_rows import (
    Events,
    Expected,
    arrival_of,
    layout_of,
    rows_of,
    times_of,
)
from gapless.chaos.sim.workloads.workload import Batches, Workload
from gapless.engine.documents import functions_of
from gapless.engine.plan import Plan
from gapless.failover.supervisor.equivalence import check_equivalent, merge_case
from gapless.journal.layout import Layout
from gapless.protocol.tdb import Tdb

ROWS_MAX = 2_000
"""Of all sources. Every event is held in plain Python by seven programs and as many checkers."""
EVENTS_MAX = 20_000
"""Of the table, for the same reason: a row is in many windows where slides are short."""
BATCHES_MAX = 48
"""Each of three replicas reads them, tells two mergers, and these two subscribers: as many frames
as a run of the other workloads has."""
DELAYED_SHARES = (0.0, 0.3, 1.0)
"""Of rows, in one run."""
NAME = "given"


def given_workload(
    plans: Mapping[str, Plan], events: Events, *, expected: Expected | None = None
) -> Workload:
    """A workload of plans with one table; raises `Misuse` where that cannot be, and `WrongAnswer`
    where they have another one without any fault.

    `expected`: as `given_rows.expected_rows` takes it; without it the first plan's answer is right.
    """
    first = next(iter(plans.values()))
    for plan in plans.values():
        check_equivalent(first, plan, assumed=True)  # `agreed` looks whether they do
    rows = rows_of(first, events, ROWS_MAX)
    layouts = {name: layout_of(source, rows[name]) for name, source in first.query.sources.items()}
    memories = Memories(call for p in plans.values() for call in functions_of(p.query).values())
    answer = agreed(plans, rows, memories, expected, events, EVENTS_MAX)
    table = Tdb(first.query.schema)
    table.fold(answer)
    is_r4 = any(merge_case(plan) == "r4" for plan in plans.values())
    return Workload(
        name=NAME,
        plans=plans,
        layouts=layouts,
        batches=lambda rng: _batches(rng, rows, layouts),
        expected=lambda _: table,
        case="r4" if is_r4 else "r3",
        insert_only=all(plan.insert_only for plan in plans.values()),
        key=not is_r4,
        whole=True,
        executor=memories.executor,
    )


# -- how they come --------------------------------------------------------------------------------


def _batches(
    rng: random.Random, rows: Mapping[str, pa.RecordBatch], layouts: Mapping[str, Layout]
) -> Batches:
    """All rows in the order in which they arrive, cut at random places."""
    draw = np.random.default_rng(rng.getrandbits(64))
    share = rng.choice(DELAYED_SHARES)
    arrivals, sources, places = [], [], []
    for number, (name, batch) in enumerate(rows.items()):
        times = times_of(batch, layouts[name].time)
        arrivals.append(arrival_of(draw, times, layouts[name].lateness, share))
        sources.append(np.full(batch.num_rows, number))
        places.append(np.arange(batch.num_rows))
    arrival = np.concatenate(arrivals)
    order = np.lexsort((draw.random(len(arrival)), arrival))
    source, place = np.concatenate(sources)[order], np.concatenate(places)[order]
    cuts = sorted(rng.sample(range(1, len(order)), min(BATCHES_MAX, len(order)) - 1))
    names = list(rows)
    return [
        (names[number], rows[names[number]].take(pa.array(place[a:b][source[a:b] == number])))
        for a, b in pairwise((0, *cuts, len(order)))
        for number in np.unique(source[a:b]).tolist()
    ]
