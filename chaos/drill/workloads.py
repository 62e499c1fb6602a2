"""Workloads of a real job: a query with several plans, and rows that come as fast as time goes by.

    rows(first, count, rate)      the same whenever they are made, each with the time it is due at

Row number n of a source is due n / rate seconds after its first, and has that time in its `ts`
column, less some disorder: so a stable of the stream and a moment of the run can be compared, and
lag in one is lag in the other. Rows of users have the times that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.engine.plan import Plan
from gapless.engine.source import source
from gapless.journal.layout import Layout
from gapless.operators.aggregates import count, max_, sum_
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema

TIME = "ts"
DISORDER_MS = 150
"""Rows are as late as this, some."""
LATENESS_MS = 200
KEYS = 20
SOURCE = "flows"
OF_A_USER = "given"
"""What the workload is called that a user gives (chaos/drill/user_drill.py): no scenario can
name it.
"""
COLUMNS = {TIME: "timestamp[ms]", "src": "int32", "len": "int32"}


@dataclass(frozen=True, slots=True)
class RealSource:
    """One source, and its rows."""

    layout: Layout
    """Of its journal."""
    rows: Callable[[int, int, int], pa.RecordBatch]
    """Of (first, count, rate): so many rows from that number on; fewer where there are no more."""
    ends_after: int | None = None
    """So many rows; None: for ever."""
    share: float = 1.0
    """Of the scenario's rate."""


@dataclass(frozen=True, slots=True)
class RealWorkload:
    """One query and its sources."""

    name: str
    about: str
    plans: Mapping[str, Plan]
    """All have the same answer."""
    sources: Mapping[str, RealSource]


def flows(first: int, count: int, rate: int) -> pa.RecordBatch:
    """Packets: who has sent them, and how long they are. Numbers that look drawn, and are not."""
    n = np.arange(first, first + count, dtype=np.int64)
    late = n * 2_654_435_761 % (DISORDER_MS + 1)
    ts = np.maximum(n * 1_000 // rate - late, 0)
    src, length = (n * 7_919 % KEYS).astype(np.int32), (n * 104_729 % 1_400 + 40).astype(np.int32)
    return pa.record_batch(
        {TIME: pa.array(ts.astype("datetime64[ms]")), "src": pa.array(src), "len": pa.array(length)}
    )


FLOWS = {SOURCE: RealSource(Layout(StreamSchema(COLUMNS), TIME, ("src",), 2, LATENESS_MS), flows)}

_flows = source(SOURCE, COLUMNS, time=TIME, lateness=f"{LATENESS_MS}ms")

_talkers = (
    _flows.window(range="1s", slide="200ms")
    .group_by("src")
    .aggregate(packets=count(), bytes=sum_("len"))
)
TALKERS = RealWorkload(
    "talkers",
    "packets and bytes of each source over the last second, five times a second",
    {"paned": Plan(_talkers), "wid": Plan(_talkers, "wid")},
    FLOWS,
)

_filter = _flows.where(col("len") > 700).select("src", "len")
_filter_too = _flows.select("len", "src").where(col("len") >= 701).select("src", "len")
FILTER = RealWorkload(
    "filter",
    "the long packets, each as it comes: many answers, little state",
    {"filter": Plan(_filter), "select-first": Plan(_filter_too)},
    FLOWS,
)

_longest = (
    _flows.window(range="10s", slide="500ms")
    .group_by("src")
    .aggregate(longest=max_("len"), packets=count())
)
LONGEST = RealWorkload(
    "longest",
    "the longest packet of each source over ten seconds: answers overlap, and state is kept long",
    {"paned": Plan(_longest), "wid": Plan(_longest, "wid")},
    FLOWS,
)

REAL_WORKLOADS: Mapping[str, RealWorkload] = {w.name: w for w in (TALKERS, FILTER, LONGEST)}
