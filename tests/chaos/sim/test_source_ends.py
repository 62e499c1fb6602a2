"""What is there of a source, and what of it lies between two places."""

from __future__ import annotations

import pyarrow as pa

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.chaos.sim.source_ends import SourceEnds
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"ts": "int64", "n": "int32"})


def world() -> tuple[SourceEnds, Writer]:
    disk = View(SimulatedDisk(), "flows")
    layout = Layout(SCHEMA, "ts", ("n",), 2, 0)
    writer = Writer(disk, layout, who="test", token="w", now_ms=lambda: 0)
    return SourceEnds(["flows"], lambda _: disk, None), writer


def append(writer: Writer, first: int, rows: int) -> None:
    times = range(first, first + rows)
    columns = [pa.array(times, pa.int64()), pa.array(times, pa.int32())]
    writer.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.payload))


def test_rows_between_two_positions_are_counted_however_many_there_are_behind() -> None:
    ends, writer = world()
    append(writer, 0, 5)
    first = ends.now()["flows"]
    append(writer, 5, 7)
    there = ends.now()["flows"]
    append(writer, 12, 9)
    assert sum(there.values()) == 12
    assert ends.rows("flows", first, there, BEGIN) == 7
    assert ends.rows("flows", there, there, BEGIN) == 0
    assert ends.rows("flows", there, first, BEGIN) == 0, "it is further than that"


def test_rows_that_end_by_a_time_do_not_count() -> None:
    ends, writer = world()
    append(writer, 0, 10)
    nothing = dict.fromkeys(ends.now()["flows"], 0)
    assert ends.rows("flows", nothing, ends.now()["flows"], 6) == 4
