"""A Spark session for tests of the data source, and what they ask of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from gapless.spark_sources.data_source import register

ROOT = Path(__file__).parents[2]
ZONE = "America/New_York"
"""The session's: no answer may depend on it."""
ATTEMPTS = 2
"""Of a task. Locally Spark would try once."""


SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": ZONE,
    "spark.sql.timeType.enabled": "true",
}
"""Of every session, unless a file of tests asks for another."""


@contextmanager
def running_spark() -> Iterator[SparkSession]:
    """Spark, once for all files of this folder: its workers run this Python and import these tests.

    A JVM takes ten seconds of CPU until it is warm, a session none.
    """
    builder = (
        SparkSession.builder.master(f"local[2,{ATTEMPTS}]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", os.fspath(ROOT))
        .config("spark.python.daemon.module", "tests.spark_sources.worker_daemon")
    )
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    _end_jvm()


@contextmanager
def session_of(spark: SparkSession, **settings: str) -> Iterator[SparkSession]:
    """A session with settings, tables and data sources of its own, active while it is used.

    The settings are also those of the sessions that `prepare` makes beside it, as they are Spark's.
    """
    shared = spark.sparkContext._jsc.sc().conf()
    was = {name: shared.get(name) for name in settings if shared.contains(name)}
    for name, value in settings.items():
        shared.set(name, value)
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)  # it begins with those that Spark was started with
    before = SparkSession._instantiatedSession
    SparkSession._instantiatedSession = SparkSession._activeSession = session
    of_jvm: Any = session._jvm
    of_jvm.SparkSession.setActiveSession(session._jsparkSession)
    of_jvm.SparkSession.setDefaultSession(session._jsparkSession)
    register(session)  # Spark looks in the active one whether there is such a source
    try:
        yield session
    finally:
        for query in session.streams.active:
            query.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = before
        for name in settings:
            if name in was:
                shared.set(name, was[name])
            else:
                shared.remove(name)


def _end_jvm() -> None:
    """Ends the JVM, and the thread of py4j that would sleep on while unit tests run."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def is_same(one: DataFrame, other: DataFrame) -> bool:
    """Whether two data frames have the same rows, each as often."""
    return one.exceptAll(other).isEmpty() and other.exceptAll(one).isEmpty()


def put(folder: Path, start: int, end: int) -> None:
    """One file more of a directory that grows: rows of a millisecond each.

    Spark takes files in the order of their times, so each is a second later than the one before.
    """
    numbers = np.arange(start, end)
    times = pa.array(numbers * 1_000).view(pa.timestamp("us", "UTC"))
    folder.mkdir(exist_ok=True)
    rows = pa.table({"ts": times, "src": numbers % 7, "n": numbers})
    draft = folder.with_name(f"{folder.name}.parquet")
    pq.write_table(rows, draft)
    os.utime(draft, (start, start))
    draft.rename(folder / f"{start:06}.parquet")


def stream(
    spark: SparkSession,
    folder: Path | str,
    journal: Path | str,
    checkpoint: Path | str,
    source: str = "gapless",
    **options: str,
) -> StreamingQuery:
    """A query that takes one file a micro-batch, in order, and ends with the last."""
    given = spark.readStream.schema("ts timestamp, src long, n long")
    files = given.option("maxFilesPerTrigger", 1).parquet(os.fspath(folder))
    sink = files.repartition(2).writeStream.format(source).trigger(availableNow=True)
    new = {"time": "ts", "key": "src", "partitions": "3", "lateness": "5ms"}
    sink = sink.options(**{**new, **options}).option("checkpointLocation", os.fspath(checkpoint))
    return sink.start(os.fspath(journal))
