"""One table, two ways to it: replicas that run different plans race each other.

    panes     where -> each slide is counted once, windows are put together of slides
    windows   two conditions -> union -> each window is counted for itself

They hold other state and say their answers in other orders. Neither can start from a snapshot of
the other.
"""

from __future__ import annotations

from dataclasses import replace

from gapless.chaos.sim.workloads.w1 import COVERS, LEAST, SCHEMA, SLIDE, W1, talkers
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import count, sum_
from gapless.protocol.expr import col

BIG = 8
"""Where the second plan parts packets."""


def _in_two_parts() -> Query:
    windowed = source("flows", SCHEMA.payload, time="ts").window(range=COVERS, slide=SLIDE)
    size = col("len")
    big, others = windowed.where(size >= BIG), windowed.where((size >= LEAST) & (size < BIG))
    return big.union(others).group_by("src").aggregate(packets=count(), bytes=sum_("len"))


TWO_PLANS = replace(
    W1,
    name="two plans",
    plans={"panes": Plan(talkers(LEAST), "paned"), "windows": Plan(_in_two_parts(), "wid")},
    spare_plan=Plan(talkers(LEAST), "wid"),
    switched=None,
    expected_at=None,
)
