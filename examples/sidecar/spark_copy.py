"""One copy of a stream from Spark structured streaming, pushed to a sidecar batch by batch.

    python examples/sidecar/spark_copy.py FOLDER [--sidecar HOST:PORT] [--name spark]

FOLDER has JSON lines with `ts` (milliseconds) and `key`; files may be added while it runs. How
often each key comes in each second goes to the stream `counts`. `two_engines.py` runs it beside
another engine: of such copies any may die. A window is pushed once Spark's watermark has passed it,
so what was pushed is final, and the newest window's end is the stable time. It keeps no checkpoint:
one that is started again tells all again, and the sidecar leaves out what it has. Needs Java 17, as
Spark does.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it that

from gapless.client import Producer

COLUMNS = {"key": "string", "count": "int64"}
STREAM = "counts"


def pushing(producer: Producer) -> Any:
    """What Spark calls with each batch of its answers, one after the other."""
    said = 0

    def push(batch: Any, _: int) -> None:
        nonlocal said
        newest = said
        for row in batch.orderBy("start", "key").collect():
            if row.start < said:
                continue  # a batch that Spark does again: it was pushed
            producer.insert(row.start, row.start + 1000, key=row.key, count=row["count"])
            newest = max(newest, row.start + 1000)
        if newest > said:
            said = newest
            producer.stable(said)

    return push


def main() -> None:
    """Runs until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--sidecar", default="127.0.0.1:7470")
    parser.add_argument("--name", default="spark")
    parser.add_argument("--ready", type=Path, help="a file to make once Spark has started")
    parser.add_argument("--once", action="store_true", help="end with what is there now")
    asked = parser.parse_args()
    builder = SparkSession.builder.master("local[2]").appName("copy")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    if asked.ready is not None:
        asked.ready.touch()
    events = spark.readStream.schema("ts bigint, key string").json(asked.folder)
    counts = (
        events.withColumn("at", F.timestamp_millis("ts"))
        .withWatermark("at", "1 second")
        .groupBy(F.window("at", "1 second"), "key")
        .count()
        .select((F.unix_millis("window.start")).alias("start"), "key", "count")
    )
    with Producer(asked.sidecar, STREAM, asked.name, COLUMNS) as producer:
        writer = counts.writeStream.outputMode("append").foreachBatch(pushing(producer))
        if asked.once:
            writer = writer.trigger(availableNow=True)
        writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
