"""A workload of a user's: a query and the rows that it is to be tried with.

    the rows, by time        7   9  12  12  15  21 ...       their times are what they are
    on their way             delayed, each by up to the lateness; not in every run
    as they come             9   7  12 | 15  12 | 21 ...     cut into batches at any places

Where rows come at their own time and each is delayed by the lateness at most, none of them is late,
wherever batches are cut. A run takes a few virtual seconds, however much time the rows span: a
batch comes at each of the run's paces.

The table is what one evaluation of the query gives, of all rows at once, in order of time. Or it is
what the user expects: only that finds a query which gives the same wrong answer everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.chaos.failed import WrongAnswer
from gapless.chaos.memories import Memories
from gapless.chaos.workloads.workload import Batches, Workload
from gapless.engine.conform import Conform
from gapless.engine.documents import functions_of
from gapless.engine.execute import Execution, by_source
from gapless.engine.judged import check_source
from gapless.engine.lateness import KLate, TimeLate
from gapless.engine.nodes import Source
from gapless.engine.plan import Plan, plan_of
from gapless.engine.query import Query
from gapless.failover.equivalent import check_equivalent, merge_case
from gapless.journal.judge import TIME_MAX
from gapless.journal.layout import Layout
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import VE, VS, StreamSchema
from gapless.protocol.tdb import Tdb

ROWS_MAX = 2_000
"""Of all sources. Every event is held in plain Python by seven programs and as many checkers."""
EVENTS_MAX = 20_000
"""Of the table, for the same reason: a row is in many windows where slides are short."""
BATCHES_MAX = 48
"""Each of three replicas reads them, tells two mergers, and these two subscribers: as many frames
as a run of the other workloads has."""
LATENESS_SHARE = 8
"""The journal's lateness is that part of the time that rows span, or less: with more nothing would
be final, and nothing put out, before the end."""
DELAYED_SHARES = (0.0, 0.3, 1.0)
"""Of rows, in one run."""
NAME = "given"

Events = Mapping[str, Any] | Any
"""By source, or those alone of a query that has one source: a table, a batch, a data frame."""
Expected = Tdb | Callable[[Any], Any] | Any
"""The table, or what makes it of the events as they were given."""


def given_workload(
    query: Query | Plan | Mapping[str, Query | Plan],
    events: Events,
    *,
    expected: Expected | None = None,
) -> Workload:
    """A workload of one query, or of plans with one table; raises `Misuse` where that cannot be.

    `expected`: a `Tdb`, or anything tabular with the columns `_vs`, `_ve` and those of the answer;
    or a function that makes it of the events.
    """
    named = query if isinstance(query, Mapping) else {"plan": query}
    plans = {name: plan_of(plan) for name, plan in named.items()}
    if not plans:
        raise Misuse("plans: one is the least")
    first = next(iter(plans.values()))
    for plan in plans.values():
        check_equivalent(first, plan)
    rows = _rows_of(first, events)
    layouts = {name: _layout(source, rows[name]) for name, source in first.query.sources.items()}
    memories = Memories(call for p in plans.values() for call in functions_of(p.query).values())
    wanted = None if expected is None else _wanted(first.query.schema, expected, events)
    table = _agreed(plans, rows, memories, wanted)
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


# -- rows -----------------------------------------------------------------------------------------


def _rows_of(plan: Plan, events: Events) -> dict[str, pa.RecordBatch]:
    """The rows of each source, with its columns, by time."""
    sources = plan.query.sources
    given = by_source(plan.query, events)
    if missing := [name for name in sources if name not in given]:
        raise Misuse(f"no events for source {missing[0]!r}: the query reads {', '.join(sources)}")
    if unknown := [name for name in given if name not in sources]:
        raise Misuse(f"events for {unknown[0]!r}: the query reads {', '.join(sources)}")
    rows = {name: _by_time(source, _batch(name, given[name])) for name, source in sources.items()}
    count = sum(batch.num_rows for batch in rows.values())
    if not count:
        raise Misuse("the events have no rows: there is nothing to try the query with")
    if count > ROWS_MAX:
        raise Misuse(
            f"{count:,} events: {ROWS_MAX:,} are the most, as each schedule plays all of them in "
            "plain Python; give a part of them, events.slice(0, 500) say"
        )
    return rows


def _batch(name: str, given: Any) -> pa.RecordBatch:
    if isinstance(given, pa.RecordBatch):
        return given
    if not isinstance(given, pa.Table):
        if not hasattr(given, "__arrow_c_stream__"):
            raise Misuse(
                f"source {name}: its events are a {type(given).__name__}: give a pyarrow table, a "
                "record batch, or a data frame; of several sources a mapping from their names"
            )
        given = pa.RecordBatchReader.from_stream(given).read_all()
    batches = given.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=given.schema)


def _by_time(source: Source, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as the source has them; raises where one cannot be a row of it."""
    where = f"source {source.name}"
    columns, problems = Conform(source.schema.payload, where)(batch)
    payload = source.schema.payload
    for field, column in zip(payload, columns, strict=True):
        if column.null_count and (field.name == source.time or not field.nullable):
            bad = column.is_null().to_numpy(zero_copy_only=False)
            problems.append((f"{field.name} is null", bad))
    times = columns[payload.get_field_index(source.time)].view(pa.int64())
    if not problems:
        ticks = times.to_numpy()
        out = (ticks <= BEGIN) | (ticks > TIME_MAX)
        problems += [(f"{source.time} is beyond the times of rows", out)] if out.any() else []
    if problems:
        reason, bad = problems[0]
        raise Misuse(
            f"{where}: row {int(np.argmax(bad))} of its events: {reason}; no journal takes such a "
            "row, so leave it out"
        )
    whole = pa.RecordBatch.from_arrays(columns, schema=payload)
    return whole.take(pa.array(np.argsort(times.to_numpy(), kind="stable")))


def _layout(source: Source, rows: pa.RecordBatch) -> Layout:
    """Of the journal: its rows come as late as the source says, and no later."""
    times = _times(rows, source.time)
    lateness = int(times[-1] - times[0]) // LATENESS_SHARE if len(times) else 0
    if isinstance(source.lateness, TimeLate):
        lateness = min(lateness, source.lateness.bound)
    layout = Layout(source.schema, source.time, (), 1, lateness)
    if isinstance(source.lateness, KLate) or source.lateness == TimeLate(0):
        check_source(source, layout, "a job's journal")
    return layout


def _times(rows: pa.RecordBatch, time: str | None) -> Any:
    return rows.column(time).view(pa.int64()).to_numpy()


# -- how they come --------------------------------------------------------------------------------


def _batches(
    rng: random.Random, rows: Mapping[str, pa.RecordBatch], layouts: Mapping[str, Layout]
) -> Batches:
    """All rows in the order in which they arrive, cut at random places."""
    draw = np.random.default_rng(rng.getrandbits(64))
    share = rng.choice(DELAYED_SHARES)
    arrivals, sources, places = [], [], []
    for number, (name, batch) in enumerate(rows.items()):
        delays = draw.integers(0, layouts[name].lateness, batch.num_rows, endpoint=True)
        delays[draw.random(batch.num_rows) >= share] = 0
        arrivals.append(_times(batch, layouts[name].time) + delays)
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


# -- the table ------------------------------------------------------------------------------------


def _agreed(
    plans: Mapping[str, Plan],
    rows: Mapping[str, pa.RecordBatch],
    memories: Memories,
    wanted: Tdb | None,
) -> Tdb:
    """The one table that is expected, and that each plan gives when it is run once, in one go."""
    table, whose = wanted, "what is expected"
    for name, plan in plans.items():
        with memories.fresh():
            answer = _evaluated(plan, rows)
        if table is None:
            table, whose = answer, f"the answer of {name}"
        elif answer != table:
            raise WrongAnswer(
                f"plan {name}, run once over all events in one go, does not give {whose} (left: "
                f"what it gives, right: {whose}):\n{answer.difference(table)}"
            )
    if table is None or len(table) > EVENTS_MAX:
        raise Misuse(
            f"the answer has more than {EVENTS_MAX:,} events: give fewer rows, or slide further"
        )
    return table


def _evaluated(plan: Plan, rows: Mapping[str, pa.RecordBatch]) -> Tdb:
    table = Tdb(plan.query.schema)
    for frame in Execution(plan, rows):
        table.fold(frame)
        if len(table) > EVENTS_MAX:
            break
    return table


def _wanted(schema: StreamSchema, expected: Expected, events: Events) -> Tdb:
    """The table that a user expects."""
    if callable(expected):
        expected = expected(events)
    if isinstance(expected, Tdb):
        if expected.schema != schema:
            raise SchemaError(f"what is expected holds {expected.schema}, the answer {schema}")
        return expected
    what = "what is expected"
    rows = _batch(what, expected)
    if missing := [name for name in (VS, VE) if name not in rows.schema.names]:
        raise SchemaError(
            f"{what}: column {missing[0]!r} is not there: an event lives from {VS} up to {VE}, and "
            f"has the columns {', '.join(schema.names)}; gl.execute(...).to_parquet(path) writes "
            "such a table"
        )
    columns, problems = Conform(schema.payload, what)(rows)
    if problems:
        raise SchemaError(f"{what}: {problems[0][0]}")
    vs, ve = (_ticks(name, rows.column(name), schema.time_unit) for name in (VS, VE))
    table = Tdb(schema)
    table.fold(Frame.from_columns(schema, vs, ve, columns))
    return table


def _ticks(name: str, column: pa.Array, unit: str) -> Any:
    """Times as numbers; no end is an end at INF."""
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp(unit, column.type.tz)).view(pa.int64())
        ticks = column.cast(pa.int64())
    except pa.ArrowException as e:
        raise SchemaError(f"what is expected: {name}: {e}; times are in {unit}") from None
    return ticks.fill_null(INF).to_numpy()
