"""The journal against its bars: appending, reading, following, and preparing on Spark.

journal_files.py   one process and this disk: appends, reading back, from a time on, following
journal_spark.py   `prepare` beside Spark itself; memory of preparing and of reading
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import appending, following, reading
from gapless.bench.journal_spark import preparing

SUMMARY = "The journal: appends, reading, following, and prepare beside Spark writing Parquet"


def run(context: Context) -> Iterator[Row]:
    """What needs no Spark first."""
    for part in (appending, reading, following, preparing):
        yield from part(context)
