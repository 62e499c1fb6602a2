"""Flink SQL in one process, event time, a bounded run: WORKLOAD FORMAT DATA OUT CORES.

FORMAT csv: its file source over two ordered files, which both of its tasks read at the same time.
FORMAT arrow: the columns of a pandas frame, handed over as Arrow; the frame is read before the
clock starts. Out goes CSV: its Python package brings no Parquet.
"""

import json
import sys
import time

import pyflink.version
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import EnvironmentSettings, Schema, StreamTableEnvironment

workload, source, data, out, cores = sys.argv[1:]
CONFIGURATION = {
    "parallelism.default": cores,
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "taskmanager.numberOfTaskSlots": cores,
    "taskmanager.memory.network.max": "256m",
}
configuration = Configuration()
for key, value in CONFIGURATION.items():
    configuration.set_string(key, value)
environment = StreamExecutionEnvironment.get_execution_environment(configuration)
tables = StreamTableEnvironment.create(environment, EnvironmentSettings.in_streaming_mode())

WINDOW = {
    "w1": "HOP(TABLE flows, DESCRIPTOR(rt), INTERVAL '1' SECOND, INTERVAL '10' SECOND)",
    "w2": "TUMBLE(TABLE flows, DESCRIPTOR(rt), INTERVAL '1' SECOND)",
    "session": "SESSION(TABLE flows PARTITION BY src, DESCRIPTOR(rt), INTERVAL '1' SECOND)",
}


def csv_source(name: str, columns: str, lateness_s: int) -> None:
    """A table over the CSV files of this name, late by so much."""
    tables.execute_sql(f"""
        CREATE TABLE {name} ({columns}, rt AS TO_TIMESTAMP_LTZ(ts, 3),
        WATERMARK FOR rt AS rt - INTERVAL '{lateness_s}' SECOND)
        WITH ('connector'='filesystem', 'path'='{data}/{name}_csv', 'format'='csv')""")


def join() -> tuple[str, str]:
    """W3."""
    for side in "ab":
        csv_source(side, "id BIGINT, `key` INT, ts BIGINT", 1)
    return (
        "aid BIGINT, bid BIGINT",
        """
        SELECT a.id, b.id FROM a, b WHERE a.`key` = b.`key`
        AND a.rt BETWEEN b.rt - INTERVAL '2' SECOND AND b.rt + INTERVAL '2' SECOND""",
    )


def windows() -> tuple[str, str]:
    """W1, W2 and sessions; the table `flows` is there already."""
    return (
        "w BIGINT, src INT, cnt BIGINT, slen BIGINT",
        f"""
        SELECT CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) AS BIGINT)
               * 1000 + EXTRACT(MILLISECOND FROM window_start),
               src, COUNT(*), SUM(CAST(len AS BIGINT))
        FROM TABLE({WINDOW[workload]}) GROUP BY window_start, window_end, src""",
    )


def read_frame() -> object:
    """The flows as a pandas frame."""
    import pyarrow as pa

    with pa.memory_map(f"{data}/flows.arrow") as file:
        return pa.ipc.open_file(file).read_all().to_pandas()


def arrow_source(frame: object) -> None:
    """The table `flows` over a pandas frame."""
    stream = tables.to_data_stream(tables.from_pandas(frame, splits_num=1))
    schema = (
        Schema.new_builder()
        .column_by_expression("rt", "TO_TIMESTAMP_LTZ(`ts`, 3)")
        .watermark("rt", "rt - INTERVAL '5' SECOND")
        .build()
    )
    tables.create_temporary_view("flows", tables.from_data_stream(stream, schema))


frame = read_frame() if source == "arrow" else None
if source == "csv" and workload != "w3":
    csv_source("flows", "ts BIGINT, src INT, len INT", 5)
start = time.perf_counter()
if frame is not None:
    arrow_source(frame)
columns, query = join() if workload == "w3" else windows()
tables.execute_sql(f"""
    CREATE TABLE answers ({columns})
    WITH ('connector'='filesystem', 'path'='{out}/result', 'format'='csv')""")
tables.execute_sql(f"INSERT INTO answers {query}").wait()
seconds = time.perf_counter() - start
report = {"seconds": seconds, "version": pyflink.version.__version__}
sys.stdout.write(json.dumps(report) + "\n")
