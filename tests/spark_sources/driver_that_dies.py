"""A program that streams into a journal, and is killed between a batch's writing and its commit:
INPUT JOURNAL CHECKPOINT.
"""

from __future__ import annotations

import sys

from tests.spark_sources.dying_sources import DyingDriver
from tests.spark_sources.sparks import running_spark, session_of, stream


def main(given: str, journal: str, checkpoint: str) -> None:
    """Ends with an error, as its JVM is killed."""
    with running_spark() as shared, session_of(shared) as spark:
        spark.dataSource.register(DyingDriver)
        stream(spark, given, journal, checkpoint, DyingDriver.name()).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
