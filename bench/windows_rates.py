"""How fast windows of other kinds are beside W1: counts and bytes by source, over the same flows.

    W1               the last 10 s, every second
    two_level        the same, by partials in 20,000 slots: two for each source
    session          a source's rows that lie 1 s apart at most; and by length in them, about as
                     many groups as rows, which nothing is held against
    rows 1000/10     a source's last 1,000 rows, at every tenth
    slide-by-tuple   the last 10 s, at every row; and a source's, which nothing is held against

Rates are rows in a second, in frames of 16,000 that are made before the clock starts, the best of
several runs in turn. Before that the answers are compared with those that numpy computes from all
rows in order (`expected_*`): a wrong answer ends the bench.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.bench.engine_expected import ExpectedWindows
from gapless.bench.engine_queries import w1
from gapless.bench.engine_runs import made, rows_in, seconds, watched
from gapless.bench.harness import Row
from gapless.bench.netflow import (
    FLOW_KEYS,
    FLOW_LATENESS_MS,
    FLOWS,
    RANGE_MS,
    SLIDE_MS,
    Ints,
    flows,
    generator,
)
from gapless.bench.windows_scale import Scale
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.row_counts import rows
from gapless.engine.source import source
from gapless.operators.aggregates import count, sum_
from gapless.operators.two_level import two_level
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Mask

FRAME_ROWS = 16_000
GAP_MS = 1_000
RANGE_ROWS, SLIDE_ROWS = 1_000, 10


TWO_LEVEL_MIN = 0.5


class Told(NamedTuple):
    """Answers: whose, from when on, how many rows, how many bytes."""

    src: Ints
    vs: Ints
    n: Ints
    total: Ints


# -- the queries ----------------------------------------------------------------------------------


def _flows() -> Query:
    return source("flows", FLOWS, time="ts", lateness=FLOW_LATENESS_MS)


def _counted(windowed: Query) -> Query:
    return windowed.group_by("src").aggregate(n=count(), bytes=sum_("len"))


def sessions() -> Query:
    """A source's rows that lie 1 s apart at most."""
    return _counted(_flows().window(session=GAP_MS, partition_by="src"))


def sessions_by_length() -> Query:
    """The same sessions, by the lengths of their rows: as many groups as rows, about."""
    windowed = _flows().window(session=GAP_MS, partition_by="src")
    return windowed.group_by("src", "len").aggregate(n=count(), bytes=sum_("len"))


def last_rows() -> Query:
    """A source's last 1,000 rows, at every tenth."""
    return _counted(
        _flows().window(range=rows(RANGE_ROWS), slide=rows(SLIDE_ROWS), partition_by="src")
    )


def last_time() -> Query:
    """The last 10 s, at every row."""
    windowed = _flows().window(range=RANGE_MS, slide=rows(1))
    return windowed.aggregate(n=count(), bytes=sum_("len"))


def last_time_by_source() -> Query:
    """A source's last 10 s, at every row of it."""
    return _counted(_flows().window(range=RANGE_MS, slide=rows(1), partition_by="src"))


# -- what they must answer ------------------------------------------------------------------------


class Ordered:
    """Flows by source and time, then length: as ranks go. Or as if all were of source 0."""

    def __init__(self, given: pa.RecordBatch, *, by_source: bool = True) -> None:
        ts, src, length = (given.column(i).to_numpy().astype(np.int64) for i in range(3))
        src = src if by_source else np.zeros_like(src)
        order = np.lexsort((length, ts, src))
        self.ts, self.src, self.length = ts[order], src[order], length[order]
        self.before = np.concatenate([[0], np.cumsum(self.length)])
        """Bytes before each row."""
        self.begins = np.r_[True, self.src[1:] != self.src[:-1]]
        """Where the rows of a source begin."""

    def told(self, last: Ints, first: Ints, vs: Ints) -> Told:
        """Answers over the rows `first` to `last`."""
        total = self.before[last + 1] - self.before[first]
        return Told(self.src[last], vs, last - first + 1, total)


def expected_sessions(given: Ordered) -> Told:
    """An answer lives from the end of its session, a gap behind its last row."""
    first, last = _ends_of_sessions(given)
    return given.told(last, first, given.ts[last] + GAP_MS)


def expected_sessions_by_length(given: Ordered) -> Told:
    """One for each length in a session."""
    first, last = _ends_of_sessions(given)
    session = np.repeat(np.arange(len(first)), last - first + 1)
    lengths = int(given.length.max()) + 1
    groups, n = np.unique(session * lengths + given.length, return_counts=True)
    of = last[groups // lengths]
    return Told(given.src[of], given.ts[of] + GAP_MS, n, n * (groups % lengths))


def _ends_of_sessions(given: Ordered) -> tuple[Ints, Ints]:
    """The first rows of sessions, and the last ones."""
    apart = np.r_[True, np.diff(given.ts) > GAP_MS]
    first = np.flatnonzero(given.begins | apart)
    return first, np.r_[first[1:], len(given.ts)] - 1


def expected_last_rows(given: Ordered) -> Told:
    """Of windows that end at one time only the last is answered."""
    begin = np.maximum.accumulate(np.where(given.begins, np.arange(len(given.ts)), 0))
    rank = np.arange(len(given.ts)) - begin
    last = np.flatnonzero(rank % SLIDE_ROWS == SLIDE_ROWS - 1)
    last = last[_last_at_a_time(given.src[last], given.ts[last])]
    first = np.maximum(begin[last], last + 1 - RANGE_ROWS)
    return given.told(last, first, given.ts[last])


def expected_last_time(given: Ordered) -> Told:
    """A window ends with each time of a source, and begins behind the one 10 s before it."""
    last = np.flatnonzero(_last_at_a_time(given.src, given.ts))
    earliest, span = int(given.ts.min()) - RANGE_MS, int(np.ptp(given.ts)) + RANGE_MS + 1
    place = given.src * span + given.ts - earliest
    first = np.searchsorted(place, place[last] - RANGE_MS, side="right")
    return given.told(last, first, given.ts[last])


def _last_at_a_time(src: Ints, ts: Ints) -> Mask:
    """The last row of each time of a source."""
    last: Mask = np.r_[(src[1:] != src[:-1]) | (ts[1:] != ts[:-1]), True]
    return last


def check(name: str, frames: Sequence[Frame], wanted: Told) -> None:
    """Raises `Bug` unless the inserts of these frames are the answers. Ends are not looked at."""
    inserts = [frame if frame.insert_only else frame.inserts for frame in frames]
    parts = [(_sources(f), f.vs, *(f.payload.column(c) for c in ("n", "bytes"))) for f in inserts]
    got = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    for mine, right in zip(_sorted(got), _sorted(wanted), strict=True):
        if not np.array_equal(mine, right):
            raise Bug(f"{name}: {len(mine):,} answers are not the {len(right):,} that are right")


def _sources(frame: Frame) -> Ints:
    """0 where answers have no source."""
    if "src" not in frame.schema.names:
        return np.zeros(len(frame), np.int64)
    found: Ints = frame.payload.column("src").to_numpy()
    return found


def _sorted(columns: Sequence[Ints]) -> list[Ints]:
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


# -- rates ----------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One kind of window, and the least of its rate over W1's."""

    query: Callable[[], Query]
    expected: Callable[[Ordered], Told]
    least: float | None
    by_source: bool = True


CASES: Mapping[str, Case] = MappingProxyType(
    {
        "session": Case(sessions, expected_sessions, 0.2),
        "session by length": Case(sessions_by_length, expected_sessions_by_length, None),
        "rows 1000/10": Case(last_rows, expected_last_rows, 0.25),
        "slide-by-tuple": Case(last_time, expected_last_time, 0.15, by_source=False),
        "slide-by-tuple by source": Case(last_time_by_source, expected_last_time, None),
    }
)


def rates(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Of each, over W1's."""
    del plot_dir  # some figures make no curve
    given = flows(scale.flows, generator())
    slots = two_level(slots=2 * FLOW_KEYS)
    plans = {"W1": Plan(w1()), "two_level": Plan(w1(), implementation=slots)}
    plans |= {name: Plan(case.query()) for name, case in CASES.items()}
    pushes = {name: made(plan, {"flows": given}, FRAME_ROWS) for name, plan in plans.items()}
    outputs = watched(plans["two_level"].compile(), pushes["two_level"]).outputs
    ExpectedWindows(given, RANGE_MS, SLIDE_MS).check(outputs)
    for name, case in CASES.items():
        outputs = watched(plans[name].compile(), pushes[name]).outputs
        check(name, outputs, case.expected(Ordered(given, by_source=case.by_source)))
    best = dict.fromkeys(plans, float("inf"))
    for _ in range(scale.repeat_curve):
        for name, plan in plans.items():
            best[name] = min(best[name], seconds(plan.compile(), pushes[name]))
    for name, took in best.items():
        yield Row(f"rate: {name}", rows_in(pushes[name]) / took, "rows/s")
    share = best["W1"] / best["two_level"]
    yield Row("rate: two_level / W1", share, "x", TWO_LEVEL_MIN, ">=")
    for name, case in CASES.items():
        found = f"rate: {name} / W1", best["W1"] / best[name], "x"
        yield Row(*found) if case.least is None else Row(*found, case.least, ">=")
