"""Batches of Spark, with Spark: rows of all types, tasks and commits that die, errors that show."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gapless.journal.disk import LocalDisk
from gapless.journal.reader import Reader
from gapless.spark_sources.conform import conformed
from gapless.spark_sources.spark_types import columns_text, spark_fields
from tests.spark_sources.by_hand import commits_of, rejects_of, segments_of
from tests.spark_sources.test_data_source_columns import clean, spark_form, values_of
from tests.spark_sources.test_data_source_options import TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NEW = {"time": "ts", "key": "src", "partitions": "3", "lateness": "5s"}


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    from tests.spark_sources import dying_sources
    from tests.spark_sources.sparks import session_of

    with session_of(shared_spark) as session:
        for source in (
            dying_sources.DyingTasks,
            dying_sources.DyingBeforeCommit,
            dying_sources.DyingAfterCommit,
        ):
            session.dataSource.register(source)
        yield session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j"


def rows(spark: SparkSession, start: int, end: int, tasks: int = 2) -> DataFrame:
    return spark.range(start, end, 1, tasks).selectExpr(
        "timestamp_millis(id) AS ts", "id % 7 AS src", "'row ' || id AS text"
    )


def write(rows: DataFrame, path: Path, source: str = "gapless", **options: object) -> None:
    texts = {name: str(value) for name, value in options.items()}
    rows.write.format(source).mode("append").options(**texts).save(str(path))


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("gapless").load(str(path))


def same(one: DataFrame, other: DataFrame) -> bool:
    from tests.spark_sources.sparks import is_same

    return is_same(one, other)


def nullable(t: pa.DataType) -> pa.DataType:
    """The type with fields that may be null: Spark takes no struct that is, and has others."""
    if not pa.types.is_struct(t):
        return t
    return pa.struct([pa.field(f.name, nullable(f.type)) for f in t])


def test_rows_of_all_types_come_back_once(spark: SparkSession, path: Path) -> None:
    rng = random.Random(1)
    columns = {f"c{i}": values_of(t, rng) for i, t in enumerate(TYPES)}
    count = len(columns["c0"])
    columns = {"ts": pa.array(range(count)), **columns}
    payload = pa.schema([pa.field(name, column.type) for name, column in columns.items()])
    as_sent = [conformed(c, nullable(spark_form(c.type))).column for c in columns.values()]
    schema = spark_fields(pa.field(f.name, nullable(f.type)) for f in payload)
    given = spark.createDataFrame(pa.table(as_sent, [*columns]), schema).repartition(3)

    write(given, path, time="ts", key="c15,c3", partitions=2, columns=columns_text(payload))

    assert same(read(spark, path), given)
    frame = Reader(LocalDisk(path)).read()
    assert frame is not None
    assert frame.payload.schema == payload
    for name, column in columns.items():
        got = frame.payload.column(name)
        shuffled = dict(zip(frame.vs.tolist(), clean(got), strict=True))
        assert [shuffled[i] for i in range(count)] == clean(column)


def test_a_batch_comes_again_and_an_empty_one_comes(spark: SparkSession, path: Path) -> None:
    from pyspark.sql.types import StructType

    given = rows(spark, 0, 30_000, tasks=3)
    for _ in range(2):
        write(given, path, query="q", batch=0, **NEW)
    write(given.where("false"), path)
    write(spark.createDataFrame([], StructType(given.schema.fields)), path)
    assert same(read(spark, path), given)
    assert len(segments_of(path)) == 3


def test_tasks_that_are_killed_are_tried_again_and_every_row_is_there_once(
    spark: SparkSession, path: Path
) -> None:
    given = rows(spark, 0, 240_000)
    write(given, path, "gapless_dying_tasks", **NEW)
    named = set(commits_of(path).facts.column("segment").to_pylist())
    assert len(set(segments_of(path))) > len(named), "nobody died in the middle"
    assert same(read(spark, path), given)
    write(rows(spark, 240_000, 240_001), path)
    assert len(segments_of(path)) == len(named) + 1, "the next writer takes away what was left"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_that_is_killed_and_comes_again_has_every_row_once(
    when: str, spark: SparkSession, path: Path
) -> None:
    given = rows(spark, 0, 20_000)
    with pytest.raises(Exception, match="Python"):
        write(given, path, f"gapless_dying_{when}_commit", query="q", batch=7, **NEW)
    assert bool(sum(commits_of(path).head.rows)) == (when == "after")
    assert bool(segments_of(path)) == (when == "after")
    write(given, path, query="q", batch=7)
    assert same(read(spark, path), given)


def test_what_is_wrong_is_in_what_spark_says(spark: SparkSession, path: Path) -> None:
    given = rows(spark, 0, 1_000)
    write(given, path, **NEW)
    wrong: list[tuple[DataFrame, dict[str, Any], str]] = [
        (given, {"lateness": "6s"}, "Misuse: .*lateness 5000000, not 6000000"),
        (given.drop("text"), {}, "SchemaError: column 'text' of the journal is missing"),
        (given.withColumn("why", given["text"]), {"reject_column": "why"}, "Misuse: the reject"),
        (given.orderBy("text"), {"by_partition": "sorted"}, "Misuse: the rows of partition"),
    ]
    for frame, options, said in wrong:
        with pytest.raises(Exception, match=said):
            write(frame, path, **options)
    with pytest.raises(Exception, match=r"Misuse: .*give another path"):
        given.write.format("gapless").mode("overwrite").save(str(path))
    with pytest.raises(Exception, match=r"Misuse: .* is not a journal"):
        read(spark, path / "other")
    assert len(set(segments_of(path))) == 2, "nothing is left of what was refused"
    assert same(read(spark, path), given)


def test_spark_reads_what_it_asks_for_and_sees_damage(spark: SparkSession, path: Path) -> None:
    given = rows(spark, 0, 40_000)
    extra = given.selectExpr(
        "*",
        "if(text = 'row 17', to_json(named_struct('reason', 'odd', 'origin', 'me', 'row', 1)), "
        "null) AS why",
    )
    write(extra, path, reject_column="why", **NEW)
    assert [r["reason"] for r in rejects_of(path)] == ["odd"]
    asked = spark.read.format("gapless").schema("text string, ts timestamp")
    asked = asked.option("since", "1970-01-01T00:00:30Z").option("partitions", "0,1,2")
    assert same(
        asked.load(str(path)), given.where("ts >= timestamp_millis(30000)").select("text", "ts")
    )
    with_offsets = spark.read.format("gapless").option("with_offsets", "true").load(str(path))
    ends = with_offsets.groupBy("_partition").agg({"_offset": "max", "*": "count"}).collect()
    assert sum(row["count(1)"] for row in ends) == 39_999
    assert all(row["count(1)"] == row["max(_offset)"] + 1 for row in ends)

    (path / "segments" / segments_of(path)[0]).unlink()
    with pytest.raises(Exception, match=r"JournalError: .*segment segments/"):
        read(spark, path).count()
