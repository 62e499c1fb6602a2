"""`prepare`: files into a journal, as one Spark job.

    files -> read, cast, cleaned -> by partition -> sorted by time -> segments -> one commit
                    |                                                    |
                    +-- bad rows, with reason and origin ----------------+-> rejects/

    from gapless.spark_sources.prepare import prepare
    prepare(spark, "flows.parquet", "data/netflow",
            time="ts", key="src", lateness="5s", partitions=8)

The batch job is one commit: all its rows are there, or none. It names itself by its files and
options, so that running it again changes nothing, whether or not it came to its end before.

With `follow` it is a stream, from a directory that grows: `directory_stream.py`.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use

from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import layout_of
from gapless.journal.plausible import TIME_MAX
from gapless.protocol.elements import BEGIN
from gapless.spark_sources.ahead import believed_top, with_ahead
from gapless.spark_sources.arrival import (
    PROMISE,
    SPLIT,
    in_arrival_order,
    with_late,
)
from gapless.spark_sources.casts import quoted
from gapless.spark_sources.directory_stream import TRIGGER_MS, follow
from gapless.spark_sources.failures import understood
from gapless.spark_sources.job import Inputs, Job, planned
from gapless.spark_sources.options import NO_BOUND
from gapless.spark_sources.partition import partition_id
from gapless.spark_sources.prepared import (
    DROPPED_ROWS,
    LATE_ROWS,
    Before,
    Prepared,
    Watch,
    nothing_done,
)
from gapless.spark_sources.rows import (
    ARRIVAL,
    BLOCK,
    FILE,
    REJECT,
    clean,
    data_columns,
    file_name,
)
from gapless.spark_sources.rules import DROPPED, WHY, check_with
from gapless.spark_sources.session import private

TASKS_END_S = 10.0
"""How long tasks of a job that has failed are waited for."""
POLL_S = 0.2
"""How often it is looked whether they have ended."""


def prepare(
    spark: SparkSession,
    input: Inputs,
    out: str | Path,
    *,
    again: bool = False,
    checkpoint: str | Path | None = None,
    trigger_ms: int = TRIGGER_MS,
    once: bool = False,
    watch: Watch | None = None,
    **options: Any,
) -> Prepared:
    """Prepares files into a journal, which is made where there is none; `options` are those of
    `planned` (time, key, lateness, partitions, schema, rules, ...).

    With `follow=True` it goes on until the stream is stopped, with `once` until all is in that is
    there at the start; `watch` gets each batch. Nothing is in the journal where it raises,
    except for batches that a stream has finished before.
    """
    job = planned(input, out, **options)
    if not job.follow:
        return run(spark, job, again=again)
    return follow(spark, job, checkpoint=checkpoint, trigger_ms=trigger_ms, once=once, watch=watch)


def run(spark: SparkSession, job: Job, *, again: bool = False) -> Prepared:
    """Prepares the files of a job in one commit."""
    if not again and (had := already_in(job)) is not None:
        return had
    before = Before.of(job, job.head())
    batch = before.head.queries.get(job.query, -1) + 1
    watched = Observation()
    with understood(job), private(spark) as own, _group(own, job):
        check_with(own, job.rules, job.layout.schema.payload)
        frame, counts = _ordered(own, job, before.head.stable)
        if counts:
            frame = frame.observe(watched, *counts)
        rows = _by_partition(frame, job)
        options = {
            **job.write_options(),
            "token": uuid.uuid4().hex,
            "query": job.query,
            "batch": str(batch),
            "ends": str(job.ends).lower(),
            "ahead": NO_BOUND,  # all rows were looked at, before any is written
            "by_partition": PROMISE if PROMISE in rows.columns else "sorted",
        }
        if REJECT in rows.columns:
            options["reject_column"] = REJECT
        rows.write.format("gapless").mode("append").options(**options).save()
    return before.done(job.head(), watched.get if counts else {})


def already_in(job: Job) -> Prepared | None:
    """What there is to say where the journal has this job; None where it has not."""
    return nothing_done(job) if job.query in job.head().queries else None


@contextmanager
def _group(spark: SparkSession, job: Job) -> Iterator[None]:
    """Spark's jobs inside are of the group `job.query`, by which they can be watched and cancelled.
    Where they fail, or are cancelled, the job is undone.
    """
    context = spark.sparkContext
    context.setJobGroup(job.query, f"prepare {job.out}")
    try:
        yield
    except BaseException:
        context.cancelJobGroup(job.query)
        _wait_for_tasks(spark)
        undo(job)
        raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", cast("str", None))


def _wait_for_tasks(spark: SparkSession) -> None:
    """A task that Spark gave up may still write for a moment, into a place that is to be gone."""
    tracker = cast("Any", spark.sparkContext)._jsc.sc().statusTracker()
    until = time.monotonic() + TASKS_END_S
    while time.monotonic() < until:
        if not any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
            return
        time.sleep(POLL_S)


def _ordered(spark: SparkSession, job: Job, watermark: int) -> tuple[DataFrame, list[Column]]:
    """The rows, judged, with what sorts them; and what is to be counted of them."""
    top = believed_top(spark, job, watermark)
    may_be_late = job.keep_order or watermark > BEGIN or top < TIME_MAX
    if job.keep_order:
        rows = with_ahead(clean(spark, job, [FILE, BLOCK, ARRIVAL]), job, top)
        frame = in_arrival_order(spark, rows, job, watermark)
    elif may_be_late:
        rows = with_ahead(clean(spark, job, [FILE]), job, top)
        frame = with_late(rows, job, F.lit(watermark).cast("bigint"), file_name(F.col(FILE))).frame
    else:
        rows = clean(spark, job)
        frame = rows.frame
    counts = []
    if may_be_late:
        counts.append(F.count_if(F.col(WHY).startswith("late: ")).alias(LATE_ROWS))
    if rows.may_drop and job.files.rows is None:
        counts.append(F.count_if(F.col(DROPPED)).alias(DROPPED_ROWS))
    return frame, counts


def _by_partition(frame: DataFrame, job: Job) -> DataFrame:
    """Each of Spark's partitions is one of the journal's, in its order."""
    if DROPPED in frame.columns:
        frame = frame.where(~F.col(DROPPED))
    order = [SPLIT, ARRIVAL] if job.keep_order else [quoted(job.layout.time or "")]
    beside = [name for name in (REJECT, PROMISE) if name in frame.columns]
    columns = [*data_columns(job), *map(F.col, beside)]
    needed = columns + ([F.col(name) for name in order] if job.keep_order else [])
    place = _place(job, REJECT in beside)
    frame = frame.select(*needed).repartitionById(job.layout.partitions, place)
    return frame.sortWithinPartitions(*order).select(*columns)


def _place(job: Job, has_rejects: bool) -> Column:
    """The partition of a row; rejected ones, which have none, are spread."""
    layout = job.layout
    if layout.partitions == 1:
        return F.lit(0)
    types = {name: layout.schema.payload.field(name).type for name in layout.key}
    place = partition_id(types, layout.partitions)
    if not has_rejects:
        return place
    anywhere = F.pmod(F.hash(REJECT), F.lit(layout.partitions))
    return F.when(F.col(REJECT).isNull(), place).otherwise(anywhere)


def undo(job: Job) -> None:
    """Removes a journal that a preparation of this job has made, and then has failed.

    Nothing happens where the journal was there before, where it has a row or a reject, or where
    another writer has taken it over. No task of the job may be running any more.
    """
    if not job.is_new:
        return
    disk = LocalDisk(job.out)
    found = layout_of(disk)
    if found != job.layout:
        return
    head = Commits(disk, job.layout).head
    if head.epoch > 1 or any(head.rows) or head.rejected or head.queries:
        return
    shutil.rmtree(job.out)
