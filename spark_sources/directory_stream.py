"""`prepare --follow`: a directory that grows, into a journal, one micro-batch after another.

    in/a.parquet            -> micro-batch 0 -> commit: batch 0 of this query is in
    in/b.parquet  c.parquet -> micro-batch 1 -> commit: batch 1 of this query is in
                            (dies before Spark has noted that; starts again)
    in/b.parquet  c.parquet -> micro-batch 1 -> nothing: it is in

Spark notes in its checkpoint which files a micro-batch has, before it begins; the journal's commit
says which micro-batches are in. So a stream that goes on from its checkpoint has each row in once.
Without the checkpoint it is another query, and begins anew.

Spark sorts no stream. Each task puts the rows of its files in the order of their time, as many at
once as it gathers for a record (65,536); with `--keep-order` it writes them as they come. A row is
late by the watermark before its micro-batch, never by a row that came with it.
"""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use
from pyspark.sql.streaming.query import StreamingQuery

from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.head import Head
from gapless.journal.writer import Writer
from gapless.protocol.errors import Misuse
from gapless.spark_sources.failures import understood
from gapless.spark_sources.job import CHECKPOINT, Job
from gapless.spark_sources.prepared import (
    DROPPED_ROWS,
    REJECTED_ROWS,
    Before,
    Prepared,
    Watch,
)
from gapless.spark_sources.rows import FILE, REJECT, clean, data_columns, file_name
from gapless.spark_sources.rules import DROPPED, WHY, check_with
from gapless.spark_sources.session import private

TRIGGER_MS = 1_000
"""From one micro-batch to the next, if nobody says otherwise: each is a commit and some files."""
POLL_S = 0.2
"""How often a stream is asked for its progress; it keeps the last hundred batches' of it. A caller
that watches costs one listing of the commits each time, and what is new of them."""

_ORIGIN = "_origin"


class _Growing:
    """A journal's head, asked for again and again: its commits are opened once and read on."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._commits: Commits | None = None

    def head(self) -> Head:
        """What the journal holds now; nothing before it is made."""
        if self._commits is None:
            self._commits = self._job.commits()
            return self._job.empty if self._commits is None else self._commits.head
        self._commits.catch_up()
        return self._commits.head


def follow(
    spark: SparkSession,
    job: Job,
    *,
    checkpoint: str | Path | None = None,
    trigger_ms: int = TRIGGER_MS,
    once: bool = False,
    watch: Watch | None = None,
    stop: threading.Event | None = None,
) -> Prepared:
    """Prepares what a place has and gets, until `stop` is set, or Ctrl-C; with `once`, until it is
    all in that is there at the start.
    """
    if job.ends and not once:
        raise Misuse("--end promises that nothing follows, and --follow waits for more: add --once")
    if trigger_ms < 1:
        raise Misuse(f"trigger {trigger_ms} ms: 1 at least")
    journal, counted = _Growing(job), dict[str, int]()
    before = Before.of(job, journal.head())
    with understood(job), private(spark) as own:
        check_with(own, job.rules, job.layout.schema.payload)
        place = str(checkpoint or Path(job.out) / CHECKPOINT)
        writer = _stream(own, job).option("checkpointLocation", place)
        trigger: dict[str, Any] = (
            {"availableNow": True} if once else {"processingTime": f"{trigger_ms} milliseconds"}
        )
        query = writer.trigger(**trigger).start()
        told = -1
        try:
            while not query.awaitTermination(POLL_S):
                told = _progress(query, told, counted)
                if stop is not None and stop.is_set():
                    break
                if watch is not None:
                    watch(before.so_far(journal.head(), counted))
        except KeyboardInterrupt:
            pass  # how a stream is asked to end: what is committed is in
        finally:
            query.stop()
        _progress(query, told, counted)
    if job.ends:
        _end(job)
    return before.done(journal.head(), counted)


def _stream(spark: SparkSession, job: Job) -> Any:
    rows = clean(spark, job, [FILE])
    frame = rows.frame.withColumn(_ORIGIN, file_name(F.col(FILE)))
    counts = []
    if rows.may_drop:
        counts.append(F.count_if(F.col(DROPPED)).alias(DROPPED_ROWS))
    if rows.may_reject:
        counts.append(F.count_if(F.col(WHY).isNotNull()).alias(REJECTED_ROWS))
    if counts:
        frame = frame.observe("gapless", *counts)
    if rows.may_drop:
        frame = frame.where(~F.col(DROPPED))
    beside = [REJECT, _ORIGIN] if rows.may_reject else [_ORIGIN]
    options = {
        **job.write_options(),
        "sort": str(not job.keep_order).lower(),
        "origin_column": _ORIGIN,
    }
    if rows.may_reject:
        options["reject_column"] = REJECT
    frame = frame.select(*data_columns(job), *beside)
    return frame.writeStream.format("gapless").outputMode("append").options(**options)


def _progress(query: StreamingQuery, told: int, counted: dict[str, int]) -> int:
    """Adds up what the batches after number `told` have counted; returns the last one's number."""
    for progress in query.recentProgress:
        if progress.batchId <= told:
            continue
        told = progress.batchId
        for row in progress.observedMetrics.values():
            for name, count in row.asDict().items():
                counted[name] = counted.get(name, 0) + count
    return told


def _end(job: Job) -> None:
    """Promises that nothing follows."""
    writer = Writer(
        LocalDisk(job.out),
        job.layout,
        who="gapless prepare --end",
        token=uuid.uuid4().hex,
        now_ms=lambda: time.time_ns() // 1_000_000,
        durability=job.durability,
    )
    writer.end()
