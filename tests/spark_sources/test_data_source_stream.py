"""Streams of Spark into a journal, with Spark: followed, restarted, killed, and taken over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless.journal.disk import LocalDisk
from gapless.journal.reader import Reader
from tests.spark_sources.by_hand import commits_of, rejects_of, segments_of
from tests.spark_sources.by_hand import write as write_by_hand
from tests.spark_sources.test_data_source_writers import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    from tests.spark_sources.sparks import session_of

    with session_of(shared_spark) as session:
        yield session


@dataclass
class Stream:
    """A directory of files that grows, a query over it, and the journal that it writes."""

    spark: SparkSession
    root: Path
    rows: int = 0

    @property
    def path(self) -> Path:
        return self.root / "j"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"  # where `start` has it

    def put(self, *counts: int) -> None:
        """More files, of so many rows."""
        from tests.spark_sources import sparks

        for count in counts:
            sparks.put(self.root / "in", self.rows, self.rows + count)
            self.rows += count

    def start(self, checkpoint: str = "checkpoint", **options: str) -> StreamingQuery:
        from tests.spark_sources import sparks

        where = self.root / checkpoint
        return sparks.stream(self.spark, self.root / "in", self.path, where, **options)

    def run(self, **options: str) -> None:
        """The query, until it has taken all files."""
        self.start(**options).awaitTermination()

    @property
    def given(self) -> DataFrame:
        return self.spark.read.parquet(str(self.root / "in"))

    @property
    def written(self) -> DataFrame:
        return self.spark.read.format("gapless").load(str(self.path))

    def check_once(self) -> None:
        from tests.spark_sources.sparks import is_same

        assert not rejects_of(self.path), "files are to be taken in order"
        assert is_same(self.written, self.given)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def follow(reader: Reader, seen: list[int], stables: list[int]) -> None:
    """What there is now: no row is below what was promised."""
    while (frame := reader.read()) is not None:
        times = frame.vs.tolist()
        assert not stables or not times or min(times) >= stables[-1]
        seen += frame.payload.column("n").to_pylist()
        if frame.stable is not None:
            assert not stables or frame.stable > stables[-1]
            stables.append(frame.stable)


def test_a_stream_is_followed_batch_by_batch_and_goes_on_after_a_restart(stream: Stream) -> None:
    stream.put(400, 300)
    stream.run()
    reader = Reader(LocalDisk(stream.path))
    seen: list[int] = []
    stables: list[int] = []
    follow(reader, seen, stables)
    assert stables[-1] == (700 - 1 - 5) * 1_000
    stream.put(200, 1)
    stream.run()
    follow(reader, seen, stables)
    assert sorted(seen) == list(range(901))
    assert stables[-1] == (901 - 1 - 5) * 1_000
    assert commits_of(stream.path).head.epoch == 2, "a run is a writer"
    stream.check_once()

    # A batch is committed, and Spark dies before it has noted that.
    before = commits_of(stream.path).head
    for file in (stream.checkpoint / "commits").glob("*3*"):
        file.unlink()
    stream.run()
    assert commits_of(stream.path).head == before
    follow(reader, seen, stables)
    assert len(seen) == 901
    stream.check_once()


@pytest.mark.slow
def test_a_driver_that_is_killed_between_writing_and_commit_has_every_row_once(
    stream: Stream,
) -> None:
    from tests.spark_sources.sparks import ROOT

    stream.put(500, 400, 300)
    program = [sys.executable, "-m", "tests.spark_sources.driver_that_dies"]
    told = [str(stream.root / "in"), str(stream.path), str(stream.checkpoint)]
    died = subprocess.run([*program, *told], cwd=ROOT, capture_output=True, check=False)
    assert died.returncode != 0
    head = commits_of(stream.path).head
    assert sum(head.rows) == 500
    assert len(segments_of(stream.path)) == 4, "two tasks had written, and nobody has committed"
    stream.run()
    stream.check_once()
    assert len(segments_of(stream.path)) == 6, "what the dead had written is gone"


def test_a_second_writer_fences_the_first_which_is_told_who_has_come(stream: Stream) -> None:
    stream.put(100)
    first = stream.start(token="the first")
    first.awaitTermination()
    second = stream.start("other")
    second.awaitTermination()
    epoch = commits_of(stream.path).head.epoch
    rows = sum(commits_of(stream.path).head.rows)
    assert rows == 106, "the other query has its own batches; most of them are late by now"
    assert len(rejects_of(stream.path)) == 94
    stream.put(100)
    with pytest.raises(
        Exception, match=rf"Fenced: .*Spark query {second.id} \(run {second.runId}\)"
    ):
        stream.run(token="the first")
    head = commits_of(stream.path).head
    assert (head.epoch, sum(head.rows)) == (epoch, rows)


def test_what_is_wrong_with_a_stream_is_in_what_spark_says(stream: Stream) -> None:
    stream.put(100)
    wrong: list[tuple[dict[str, str], str]] = [
        ({"ends": "true"}, r"Misuse: .*are for df\.write"),
        ({"by_partition": "sorted"}, "Misuse: (the rows of partition|two tasks)"),
    ]
    for options, said in wrong:
        with pytest.raises(Exception, match=said):
            stream.run(**options)
    assert not segments_of(stream.path)
    write_by_hand(stream.path, micros(table(0, 10)), ends="true")
    with pytest.raises(Exception, match=r"Misuse: .*has ended: nothing can be added"):
        stream.run()


def micros(rows: Any) -> Any:
    import pyarrow as pa

    times = rows["ts"].cast(pa.timestamp("us", "UTC"))
    return rows.set_column(0, "ts", times)
