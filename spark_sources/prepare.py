"""`prepare`: files into a journal, as one Spark job; or a directory that grows, as a stream.

    files -> read, cast, cleaned -> by partition -> sorted by time -> segments -> one commit
                    |                                                    |
                    +-- bad rows, with reason and origin ----------------+-> rejects/

    from gapless.spark_sources.prepare import prepare
    prepare(spark, "flows.parquet", "data/netflow",
            time="ts", key="src", lateness="5s", partitions=8)

The batch job is one commit: all its rows are there, or none. It names itself by its files and
options, so that running it again changes nothing, whether or not it came to its end before.

With `follow` each micro-batch is a commit, known by Spark's query and number: a stream that dies
and starts again from its checkpoint has each row in once.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use
from pyspark.sql.streaming.query import StreamingQuery

from gapless.journal import rejects
from gapless.journal.commit import Commits, Head
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import layout_of
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.spark_sources.arrival import (
    PROMISE,
    SPLIT,
    in_arrival_order,
    with_late,
)
from gapless.spark_sources.casting import quoted
from gapless.spark_sources.failures import understood
from gapless.spark_sources.job import CHECKPOINT, Inputs, Job, planned
from gapless.spark_sources.partition import partition_id
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

TRIGGER_MS = 1_000
"""From one micro-batch to the next, if nobody says otherwise: each is a commit and some files."""
POLL_S = 0.2
"""How often a stream is asked for its progress; it keeps the last hundred batches' of it."""
TASKS_END_S = 10.0
"""How long tasks of a job that has failed are waited for."""

_DROPPED, _LATE, _REJECTED = "dropped", "late", "rejected"
_ORIGIN = "_origin"
Watch = Callable[["Prepared"], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a preparation has done."""

    journal: str
    rows_in: int
    """Rows that were read: the sum of the next three."""
    written: int
    rejected: int
    """Late ones included: they are in the reject files."""
    dropped: int
    """Left out by a rule."""
    late: int
    seconds: float
    partitions: int
    files: int
    """Of a directory that is followed: those that were there at the start."""
    rejects: tuple[str, ...] = ()
    """The reject files that are new."""
    already: bool = False
    """The journal had this job already, and nothing was done."""

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "rejects": list(self.rejects)}


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
    there at the start; `watch` is told of each batch. Nothing is in the journal where it raises,
    but for batches that a stream has finished before.
    """
    job = planned(input, out, **options)
    if not job.follow:
        return run(spark, job, again=again)
    return follow(spark, job, checkpoint=checkpoint, trigger_ms=trigger_ms, once=once, watch=watch)


# -- a batch --------------------------------------------------------------------------------------


def run(spark: SparkSession, job: Job, *, again: bool = False) -> Prepared:
    """Prepares the files of a job in one commit."""
    if not again and (had := already_in(job)) is not None:
        return had
    began, before = time.monotonic(), job.head()
    batch = before.queries.get(job.query, -1) + 1
    files = _reject_files(job)
    watched = Observation()
    with understood(job), private(spark) as own, _group(own, job):
        check_with(own, job.rules, job.layout.schema.payload)
        frame, counts = _ordered(own, job, before.stable)
        if counts:
            frame = frame.observe(watched, *counts)
        rows = _by_partition(frame, job)
        options = {
            **job.write_options(),
            "token": uuid.uuid4().hex,
            "query": job.query,
            "batch": str(batch),
            "ends": str(job.ends).lower(),
            "by_partition": PROMISE if PROMISE in rows.columns else "sorted",
        }
        if REJECT in rows.columns:
            options["reject_column"] = REJECT
        rows.write.format("gapless").mode("append").options(**options).save()
    seen = watched.get if counts else {}
    return _summary(job, before, job.head(), seen, began, files=files)


def already_in(job: Job) -> Prepared | None:
    """What there is to say where the journal has this job; None where it has not."""
    head = job.head()
    if job.query not in head.queries:
        return None
    return _summary(job, head, head, {}, time.monotonic(), already=True)


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
    may_be_late = job.keep_order or watermark > BEGIN
    if job.keep_order:
        rows = clean(spark, job, [FILE, BLOCK, ARRIVAL])
        frame = in_arrival_order(spark, rows, job, watermark)
    elif may_be_late:
        rows = clean(spark, job, [FILE])
        frame = with_late(rows, job, F.lit(watermark).cast("bigint"), file_name(F.col(FILE)))
    else:
        rows = clean(spark, job)
        frame = rows.frame
    counts = []
    if may_be_late:
        counts.append(F.count_if(F.col(WHY).startswith("late: ")).alias(_LATE))
    if rows.may_drop and job.files.rows is None:
        counts.append(F.count_if(F.col(DROPPED)).alias(_DROPPED))
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


# -- a stream -------------------------------------------------------------------------------------


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
    began, before, files = time.monotonic(), job.head(), _reject_files(job)
    seen: dict[str, int] = {}
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
                told = _progress(query, told, seen)
                if stop is not None and stop.is_set():
                    break
                if watch is not None:
                    watch(_summary(job, before, job.head(), seen, began, files=files))
        except KeyboardInterrupt:
            pass  # how a stream is asked to end: what is committed is in
        finally:
            query.stop()
        _progress(query, told, seen)
    if job.ends:
        _end(job)
    return _summary(job, before, job.head(), seen, began, files=files)


def _stream(spark: SparkSession, job: Job) -> Any:
    rows = clean(spark, job, [FILE])
    frame = rows.frame.withColumn(_ORIGIN, file_name(F.col(FILE)))
    counts = []
    if rows.may_drop:
        counts.append(F.count_if(F.col(DROPPED)).alias(_DROPPED))
    if rows.may_reject:
        counts.append(F.count_if(F.col(WHY).isNotNull()).alias(_REJECTED))
    if counts:
        frame = frame.observe("gapless", *counts)
    if rows.may_drop:
        frame = frame.where(~F.col(DROPPED))
    beside = [REJECT, _ORIGIN] if rows.may_reject else [_ORIGIN]
    options = {**job.write_options(), "by_partition": "false", "origin_column": _ORIGIN}
    if rows.may_reject:
        options["reject_column"] = REJECT
    frame = frame.select(*data_columns(job), *beside)
    return frame.writeStream.format("gapless").outputMode("append").options(**options)


def _progress(query: StreamingQuery, told: int, seen: dict[str, int]) -> int:
    """Adds up what the batches after number `told` have counted; returns the last one's number."""
    for progress in query.recentProgress:
        if progress.batchId <= told:
            continue
        told = progress.batchId
        for row in progress.observedMetrics.values():
            for name, count in row.asDict().items():
                seen[name] = seen.get(name, 0) + count
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


# -- what was done --------------------------------------------------------------------------------


def _reject_files(job: Job) -> frozenset[str]:
    return frozenset(LocalDisk(job.out).list(rejects.FOLDER))


def _summary(
    job: Job,
    before: Head,
    after: Head,
    seen: dict[str, int],
    began: float,
    *,
    files: frozenset[str] = frozenset(),
    already: bool = False,
) -> Prepared:
    written = sum(after.rows) - sum(before.rows)
    rejected = after.rejected - before.rejected
    dropped = seen.get(_DROPPED, 0)
    if job.files.rows is not None and not already:
        dropped = job.files.rows - written - rejected
    late = seen.get(_LATE, 0) if not job.follow else rejected - seen.get(_REJECTED, 0)
    fresh = () if already else sorted(_reject_files(job) - files)
    return Prepared(
        journal=job.out,
        rows_in=written + rejected + dropped,
        written=written,
        rejected=rejected,
        dropped=dropped,
        late=max(0, late),
        seconds=round(time.monotonic() - began, 3),
        partitions=job.layout.partitions,
        files=len(job.files.paths),
        rejects=tuple(f"{job.out}/{rejects.FOLDER}/{name}" for name in fresh),
        already=already,
    )
