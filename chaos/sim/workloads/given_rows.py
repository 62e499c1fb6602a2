"""What users give to be tried: rows of their sources, and maybe the answer, in any form of Arrow's.

    rows_of(plan, events)                 by source, with its columns, in order of time
    layout_of(source, rows)               of the journal that they go to
    arrival_of(draw, times, lateness)     when each arrives: its time, and up to the lateness more
    expected_rows(schema, expected)       the answer as inserts

Where rows come at their own time and each is delayed by the lateness at most, none of them is late,
wherever batches are cut. Whatever no journal would take is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.engine.conform import Conform
from gapless.engine.execute import by_source
from gapless.engine.judged import check_source
from gapless.engine.lateness import KLate, TimeLate
from gapless.engine.nodes import Source
from gapless.engine.plan import Plan
from gapless.journal.layout import Layout
from gapless.journal.plausible import TIME_MAX
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import VE, VS, StreamSchema
from gapless.protocol.tdb import Tdb

LATENESS_SHARE = 8
"""The journal's lateness is that part of the time that rows span, or less: with more nothing would
be final, and nothing put out, before the end."""

Events = Mapping[str, Any] | Any
"""By source, or those alone of a query that has one source: a table, a batch, a data frame."""
Expected = Tdb | Callable[[Any], Any] | Any
"""The table, or what makes it of the events as they were given."""


# -- rows -----------------------------------------------------------------------------------------


def rows_of(plan: Plan, events: Events, rows_max: int) -> dict[str, pa.RecordBatch]:
    """The rows of each source, with its columns, by time. Raises `Misuse` where there are none,
    more than `rows_max`, or one that no journal would take.
    """
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
    if count > rows_max:
        raise Misuse(
            f"{count:,} events: {rows_max:,} are the most here; give a part of them, "
            f"events.slice(0, {rows_max // len(rows)}) say"
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


def layout_of(source: Source, rows: pa.RecordBatch) -> Layout:
    """Of the journal: its rows come as late as the source says, and no later."""
    times = times_of(rows, source.time)
    lateness = int(times[-1] - times[0]) // LATENESS_SHARE if len(times) else 0
    if isinstance(source.lateness, TimeLate):
        lateness = min(lateness, source.lateness.bound)
    layout = Layout(source.schema, source.time, (), 1, lateness)
    if isinstance(source.lateness, KLate) or source.lateness == TimeLate(0):
        check_source(source, layout, "a job's journal")
    return layout


def times_of(rows: pa.RecordBatch, time: str | None) -> Any:
    """The times of rows, as numbers."""
    return rows.column(time).view(pa.int64()).to_numpy()


def arrival_of(
    draw: np.random.Generator, times: npt.NDArray[np.int64], lateness: int, share: float
) -> npt.NDArray[np.int64]:
    """When rows arrive; `share` of them are late, by the lateness at most."""
    delays = draw.integers(0, lateness, len(times), endpoint=True)
    delays[draw.random(len(times)) >= share] = 0
    return times + delays


# -- the answer -----------------------------------------------------------------------------------


def expected_rows(schema: StreamSchema, expected: Expected, events: Events) -> Frame:
    """The table that a user expects, as inserts. Raises `SchemaError` where it is none of these."""
    if callable(expected):
        expected = expected(events)
    if isinstance(expected, Tdb):
        if expected.schema != schema:
            raise SchemaError(f"what is expected holds {expected.schema}, the answer {schema}")
        return expected.to_frame().inserts
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
    return Frame.from_columns(schema, vs, ve, columns)


def _ticks(name: str, column: pa.Array, unit: str) -> Any:
    """Times as numbers; no end is an end at INF."""
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp(unit, column.type.tz)).view(pa.int64())
        ticks = column.cast(pa.int64())
    except pa.ArrowException as e:
        raise SchemaError(f"what is expected: {name}: {e}; times are in {unit}") from None
    return ticks.fill_null(INF).to_numpy()
