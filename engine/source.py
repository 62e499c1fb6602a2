"""Where every query begins: a named source of rows.

source("netflow", {"ts": "timestamp[ms]", "src": "int32"}, time="ts", lateness="5s")
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from gapless.engine import nodes
from gapless.engine.column_progress import bounds_of
from gapless.engine.durations import Duration
from gapless.engine.lateness import Lateness, lateness_of
from gapless.engine.names import check_column
from gapless.engine.query import Query
from gapless.protocol.schema import StreamSchema


def source(
    name: str,
    schema: pa.Schema | Mapping[str, pa.DataType | str],
    *,
    time: str,
    lateness: Duration | Lateness | None = None,
    time_unit: str | None = None,
    progress: Mapping[str, Duration] | None = None,
) -> Query:
    """A named source of rows: an input of the embedded engine, or a journal.

    `time` is the column with each row's time: a timestamp, or an int64 in `time_unit` (ms by
    default). `lateness` is how late rows may be; None: the input itself gives watermarks.
    `progress` names other columns of times that windows may read with `on=`, and how far before a
    row's time each may be; a row of which one is further before goes aside.
    """
    payload = StreamSchema(schema).payload
    check_column(f"source {name}: time", time, payload.names)
    if time_unit is None:
        t = payload.field(time).type
        time_unit = t.unit if pa.types.is_timestamp(t) else "ms"
    typed = StreamSchema(payload, time_unit)
    bounds = bounds_of(progress, time_unit, f"source {name}: progress")
    return Query(nodes.Source(name, typed, time, lateness_of(lateness, time_unit), bounds))
