"""Rows of files that are ahead of all others: judged over all rows of a job, before any is written.

    day          rows   least        largest
    2024-05-01   7,000  00:00:00.1   23:59:59.8
    2024-05-02   6,000  00:00:00.2   11:05:17.3      the newest that is believed
    2262-04-11       1  23:47:16.8   23:47:16.8      ahead

The rule is that of the journal (journal/plausible.py), which needs only runs of times. So
one pass over the column of times counts them in buckets as wide as the reach.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use

from gapless.journal.judge import ahead_of
from gapless.journal.plausible import TIME_MAX, Run, believed, newest_of, runs_of_buckets
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.spark_sources.arrival import rejecting, time_of
from gapless.spark_sources.job import Job
from gapless.spark_sources.rows import FILE, Rows, clean, file_name

BUCKETS_MAX = 1 << 18
"""Of a job: 700 years of days. The driver has them in memory, some hundred bytes each."""


def believed_top(spark: SparkSession, job: Job, watermark: int) -> int:
    """The largest time of the job's rows that is believed, at a journal's watermark; `TIME_MAX`
    where all are.
    """
    reach = job.reach
    if reach is None:
        return TIME_MAX
    t = F.col("_t")
    times = clean(spark, job).frame.select(time_of(job).alias("_t"))
    times = times.where((t > BEGIN) & (t <= TIME_MAX))
    width = F.lit(reach).cast("bigint")
    bucket = F.try_subtract(t, F.pmod(t, width))
    counted = times.groupBy(bucket).agg(F.min(t), F.max(t), F.count(F.lit(1)))
    found = counted.limit(BUCKETS_MAX + 1).collect()
    if len(found) > BUCKETS_MAX:
        raise Misuse(
            f"the times of these rows span more than {BUCKETS_MAX:,} times --ahead: give a longer "
            "one, or --ahead none"
        )
    runs = runs_of_buckets([Run(least, largest, rows) for _, least, largest, rows in found], reach)
    top = believed(runs, newest_of(job.layout, watermark), reach)
    return TIME_MAX if not runs or runs[-1].largest <= top else top


def with_ahead(rows: Rows, job: Job, top: int) -> Rows:
    """The rows, which have `FILE`; those beyond the largest that is believed are rejected."""
    if job.reach is None or top == TIME_MAX:
        return rows
    kind = job.layout.schema.payload.field(job.layout.time or "").type
    said = F.lit(ahead_of(top, job.reach, kind))
    return rejecting(rows, job, time_of(job) > F.lit(top), said, file_name(F.col(FILE)))
