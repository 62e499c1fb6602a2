"""Starts a local Spark, counts rows in it, and ends it: `python -m gapless.doctor.start_spark DIR`.

The rows pass through a Python worker as Arrow, as those of our data source and sink do: a Spark
whose workers run another Python than this one, or one without pyarrow, is found out here.
"""

from __future__ import annotations

import os
import sys

ROWS = 1000


def main(directory: str) -> None:
    """Raises whatever Spark raises; returns once Spark has ended."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("gapless doctor")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", directory)
        .config("spark.sql.warehouse.dir", directory)
        .getOrCreate()
    )
    try:
        counted = spark.range(ROWS).mapInArrow(lambda batches: batches, "id long").count()
        if counted != ROWS:
            raise RuntimeError(f"{ROWS} rows were counted as {counted}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
