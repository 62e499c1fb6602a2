"""Rows in the order of their arrival, judged one by one, however Spark cuts the files.

    lateness 5       split 0 of a.csv      split 1 of a.csv     b.csv
    ts               7   9  12   8         5   13               9   20
    largest before   -   7   9  12        12   12              13   13
    late?                                 yes                   no            ts < largest - 5
    promise          2   4   7   7              8               8   15        largest so far - 5

Arrival is: files by name, splits of a file as they lie in it, rows of a split as they are read. A
row's place in its split is Spark's `monotonically_increasing_id`: it grows along a split, which one
task reads from its start to its end. Between splits it means nothing, as Spark packs them by size.

So there are two passes. The first finds the largest time of each split; over those few numbers the
driver finds the largest before each. The second has a window over each split, never over all rows.
The rule is `OutOfBound` of the engine's verdicts, for good rows: a bad one neither is late nor
makes others late.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use

from gapless.protocol.elements import BEGIN
from gapless.spark_sources.casts import MICROS, NANOS_PER_MICRO, quoted, ticks
from gapless.spark_sources.job import Job
from gapless.spark_sources.rows import (
    ARRIVAL,
    BLOCK,
    FILE,
    REJECT,
    Rows,
    file_name,
    reject_text,
    shown_row,
)
from gapless.spark_sources.rules import DROPPED, WHY

PROMISE = "_promise"
"""What may be promised of a partition behind a row."""
SPLIT = "_split"
"""The number of a row's split, in the order of arrival."""

_LARGEST, _BEFORE, _TICKS = "_largest", "_before", "_ticks"


def is_good(rows: Rows) -> Column:
    """Whether a row is neither rejected nor dropped."""
    good = F.lit(True)
    if rows.may_reject:
        good &= F.col(WHY).isNull()
    if rows.may_drop:
        good &= ~F.col(DROPPED)
    return good


def time_of(job: Job) -> Column:
    """The time of a row, in ticks of the journal."""
    name = job.layout.time or ""
    return ticks(F.col(quoted(name)), job.layout.schema.payload.field(name).type)


def with_late(rows: Rows, job: Job, watermark: Column, origin: Column) -> Rows:
    """The rows; those below their watermark (null: there is none) have `WHY` and `REJECT`."""
    t = job.layout.schema.payload.field(job.layout.time or "").type
    said = F.concat(F.lit("late: below the watermark "), _shown(watermark, t))
    return rejecting(rows, job, time_of(job) < watermark, said, origin)


def rejecting(rows: Rows, job: Job, is_bad: Column, said: Column, origin: Column) -> Rows:
    """The rows; good ones of which something is bad have `WHY` and `REJECT` now."""
    why = F.when(is_good(rows) & is_bad, said)
    text = reject_text(F.col(WHY), origin, shown_row(job.layout.schema.payload))
    if not rows.may_reject:
        frame = rows.frame.withColumn(WHY, why).withColumn(REJECT, text)
    else:
        frame = rows.frame.withColumn(WHY, F.coalesce(WHY, why))
        frame = frame.withColumn(REJECT, F.coalesce(REJECT, text))
    return Rows(frame, may_reject=True, may_drop=rows.may_drop)


def in_arrival_order(spark: SparkSession, rows: Rows, job: Job, watermark: int) -> DataFrame:
    """The rows with `SPLIT` and `ARRIVAL`, by which they are to be sorted, and `PROMISE`; late ones
    have `WHY` and `REJECT`.

    `watermark` is the journal's, before all these rows.
    """
    good = F.when(is_good(rows), time_of(job))
    largest = rows.frame.groupBy(FILE, BLOCK).agg(F.max(good).alias(_LARGEST)).collect()
    splits = _before_each([(row[FILE], row[BLOCK], row[_LARGEST]) for row in largest])
    table = spark.createDataFrame(
        splits, f"{FILE} string, {BLOCK} bigint, {SPLIT} int, {_LARGEST} bigint"
    )
    frame = rows.frame.withColumn(_TICKS, good).join(F.broadcast(table), [FILE, BLOCK], "left")
    found = F.coalesce(SPLIT, F.raise_error(F.lit("a file has changed while it was prepared")))
    frame = frame.withColumn(SPLIT, found.cast("int")).drop(FILE, BLOCK)
    so_far = Window.partitionBy(SPLIT).orderBy(ARRIVAL).rowsBetween(Window.unboundedPreceding, -1)
    before = F.greatest(F.max(_TICKS).over(so_far), F.col(_LARGEST))
    frame = frame.withColumn(_BEFORE, _behind(before, job, watermark)).drop(_LARGEST)
    promise = F.greatest(F.col(_BEFORE), _behind(F.col(_TICKS), job, watermark))
    frame = frame.withColumn(PROMISE, promise)
    files = table.select(F.col(SPLIT).alias("_late_in"), FILE)
    is_late = F.when(F.col(_TICKS) < F.col(_BEFORE), F.col(SPLIT))
    frame = frame.join(F.broadcast(files), is_late == F.col("_late_in"), "left").drop("_late_in")
    judged = Rows(frame, rows.may_reject, rows.may_drop)
    late = with_late(judged, job, F.col(_BEFORE), file_name(F.col(FILE)))
    return late.frame.drop(FILE, _BEFORE, _TICKS)


def _before_each(
    largest: Sequence[tuple[str, int, int | None]],
) -> list[tuple[str, int, int, int | None]]:
    """The splits in the order of arrival: file, start, number, the largest time before it."""
    in_order = sorted(largest, key=lambda split: (unquote(split[0]), split[1]))
    found: list[tuple[str, int, int, int | None]] = []
    before: int | None = None
    for number, (file, block, most) in enumerate(in_order):
        found.append((file, block, number, before))
        if most is not None:
            before = most if before is None else max(before, most)
    return found


def _behind(largest: Column, job: Job, watermark: int) -> Column:
    """The largest time less the lateness, and no less than the journal's watermark; never null."""
    bound = F.try_subtract(largest, F.lit(job.layout.lateness).cast("bigint"))
    return F.greatest(bound, F.lit(max(watermark, BEGIN)).cast("bigint"))


def _shown(count: Column, t: pa.DataType) -> Column:
    """Ticks as people read them."""
    if not pa.types.is_timestamp(t):
        return count.cast("string")
    if t.unit == "ns":
        micros = F.call_function("div", count, F.lit(NANOS_PER_MICRO))
    else:
        micros = F.try_multiply(count, F.lit(MICROS[t.unit]))
    return F.coalesce(F.timestamp_micros(micros).cast("string"), count.cast("string"))
