"""Gapless as a user runs it, on one core: WORKLOAD FORMAT DATA OUT CORES.

FORMAT parquet: Parquet to Parquet. FORMAT csv: from CSV files to one, which is what Flink does.
CORES is not asked for: the process keeps to one, its threads for reading and writing included.
"""

import json
import os
import sys
import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset  # with what reads and writes: imports are no part of a run
import pyarrow.parquet

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
pa.set_cpu_count(1)

import gapless as gl  # noqa: E402  # nothing of it starts before

workload, form, data, out, _cores = sys.argv[1:]
FLOWS = pa.schema([("ts", pa.int64()), ("src", pa.int32()), ("len", pa.int32())])
SIDE = pa.schema([("id", pa.int64()), ("key", pa.int32()), ("ts", pa.int64())])


def windows(length: str) -> gl.Query:
    """W1 and W2."""
    flows = gl.source("flows", FLOWS, time="ts", lateness="5s")
    grouped = flows.window(range=length, slide="1s").group_by("src")
    return grouped.aggregate(cnt=gl.count(), slen=gl.sum("len"))


def sessions() -> gl.Query:
    """A source's rows whose neighbours are 1 s apart at most."""
    flows = gl.source("flows", FLOWS, time="ts", lateness="5s")
    grouped = flows.window(session="1s", partition_by="src").group_by("src")
    return grouped.aggregate(w=gl.window_start(), cnt=gl.count(), slen=gl.sum("len"))


def pairs() -> gl.Query:
    """W3: within 2 s of each other."""
    left, right = (
        gl.source(name, SIDE, time="ts", lateness="1s").window(range="2001ms") for name in "ab"
    )
    joined = left.join(right, on="key")
    return joined.select(aid=gl.col("id"), bid=gl.col("id_right"))


def csv_to_csv(inputs: Mapping[str, pa.Schema]) -> None:
    """Answers as lines: when they start to hold, and what they say."""
    readers = {
        name: pc.open_csv(
            f"{data}/{name}.csv",
            convert_options=pc.ConvertOptions(column_types={f.name: f.type for f in schema}),
        )
        for name, schema in inputs.items()
    }
    columns = ["_vs", *query.schema.names]
    schema = pa.schema([query.schema.arrow.field(name) for name in columns])
    with pc.CSVWriter(f"{out}/result.csv", schema) as writer:
        for frame in execute(query, readers):
            if len(frame):
                writer.write_batch(frame.batch.select(columns))


QUERIES = {
    "w1": lambda: windows("10s"),
    "w2": lambda: windows("1s"),
    "w3": pairs,
    "session": sessions,
}
query = QUERIES[workload]()
inputs = {"a": SIDE, "b": SIDE} if workload == "w3" else {"flows": FLOWS}
execute = gl.execute  # what is behind a name is imported as it is first asked for
start = time.perf_counter()
if form == "csv":
    csv_to_csv(inputs)
else:
    execution = execute(query, {name: f"{data}/{name}.parquet" for name in inputs})
    execution.to_parquet(f"{out}/result.parquet")
seconds = time.perf_counter() - start
sys.stdout.write(json.dumps({"seconds": seconds, "version": gl.__version__}) + "\n")
