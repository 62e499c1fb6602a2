"""The daemon that Spark forks its tasks' Pythons from, which has imported what they need.

PySpark's own forks first, so that each of the dozens of workers that tests have imports PyArrow,
pandas and Gapless again: a third of a second of CPU before its first row. Nothing of that may start
a thread but Arrow's allocator, which knows of forks.
"""

from __future__ import annotations

import os
from importlib import import_module

NEEDED = ("pandas", "pyarrow.parquet", "pyspark.worker", "gapless.spark_sources.prepare")


def main() -> None:
    """Is PySpark's daemon, after the imports."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads start as it is imported
    for name in NEEDED:
        import_module(name)
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
