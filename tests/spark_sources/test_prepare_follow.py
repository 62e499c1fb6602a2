"""`prepare --follow`, with Spark: a directory grows, readers follow, and each row comes once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import gapless as gl
from gapless.journal.disk import LocalDisk
from gapless.protocol.elements import INF
from gapless.protocol.errors import BadData, Misuse
from tests.spark_sources.by_hand import commits_of, rejects_of
from tests.spark_sources.journal_rows import Row, by_partition, parted, rows_in, values_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless.spark_sources.prepared import Prepared

pytestmark = pytest.mark.spark

KEYED: dict[str, Any] = {
    "time": "ts", "key": "src", "partitions": 3, "lateness": 100, "follow": True
}  # fmt: skip
FILES = 4
WAIT_S = 60.0
"""For what takes a second or two, on a machine that is busy."""


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    from tests.spark_sources.sparks import session_of

    with session_of(shared_spark) as session:
        yield session


def numbered(file: int, rows: int = 50) -> pa.Table:
    """The rows of one file: each file is 1,000 ticks later than the one before."""
    times = [file * 1_000 + i for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ms")),
            "src": pa.array([i % 7 for i in range(rows)], pa.int32()),
        }
    )


def arrive(folder: Path, name: str, table: pa.Table) -> None:
    """A file that is there at once, as a directory that is followed needs it."""
    folder.mkdir(exist_ok=True)
    parquet.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def everything(files: int) -> list[Row]:
    return sorted(row for i in range(files) for row in values_of(numbered(i)))


def test_a_stream_that_is_run_again_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    from gapless.spark_sources.prepare import prepare

    folder, out = tmp_path / "in", tmp_path / "j"
    arrive(folder, "0", numbered(0))
    done = prepare(spark, folder, out, once=True, **KEYED)
    assert (done.rows_in, done.written) == (50, 50)
    assert prepare(spark, folder, out, once=True, **KEYED).written == 0
    arrive(folder, "1", numbered(1))
    assert prepare(spark, folder, out, once=True, **KEYED).written == 50
    arrive(folder, "2", numbered(0))
    done = prepare(spark, folder, out, once=True, end=True, **KEYED)
    assert (done.rows_in, done.late, done.written) == (50, 50, 0), "the watermark is past them"
    assert sorted(rows_in(out)) == everything(2)
    told = rejects_of(out)
    assert {line["origin"] for line in told} == {str(folder / "2.parquet")}
    assert commits_of(out).head.stable == INF
    found = by_partition(out)
    expected = parted(pa.concat_tables([numbered(0), numbered(1)]), ["src"], 3)
    assert {p: sorted(rows) for p, rows in found.items()} == {
        p: sorted(rows) for p, rows in expected.items()
    }


def test_readers_follow_while_a_directory_grows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gapless.spark_sources.directory_stream import follow
    from gapless.spark_sources.job import Job, planned

    folder, out = tmp_path / "in", tmp_path / "j"
    arrive(folder, "0", numbered(0))
    job = planned(folder, out, **KEYED)
    seen: list[int] = []
    arrived = threading.Event()

    def watch(so_far: Prepared) -> None:
        """Called while the stream runs: the next file comes once the last one's rows are in."""
        if so_far.written // 50 > len(seen):
            seen.append(so_far.written)
            if len(seen) < FILES:
                arrive(folder, str(len(seen)), numbered(len(seen)))
            else:
                arrived.set()
                raise KeyboardInterrupt  # as the one that stops it does

    result: list[Prepared] = []
    reads: list[Row] = []
    reading = threading.Thread(target=read_until, args=(out, FILES * 50, reads), daemon=True)
    opened, listed = returned(monkeypatch, Job, "commits"), returned(monkeypatch, LocalDisk, "list")
    reading.start()
    result.append(follow(spark, job, trigger_ms=100, watch=watch))
    assert len([commits for commits, *_ in opened if commits is not None]) == 1, "then read on"
    assert len([folder for _, *folder in listed if folder == ["rejects"]]) == 2, "begin and end"
    reading.join(WAIT_S)
    assert not reading.is_alive()
    assert sorted(reads) == everything(FILES) == sorted(rows_in(out))
    assert result[0].written == FILES * 50
    assert commits_of(out).head.stable == (FILES - 1) * 1_000 + 49 - 100


def returned(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> list[tuple[Any, ...]]:
    """What a method returns from now on, each with what it was called with."""
    calls: list[tuple[Any, ...]] = []
    method = getattr(of, name)

    def noted(self: Any, *given: Any) -> Any:
        calls.append((method(self, *given), *given))
        return calls[-1][0]

    monkeypatch.setattr(of, name, noted)
    return calls


def read_until(out: Path, rows: int, reads: list[Row]) -> None:
    """Follows the journal from before its first commit, until it has given so many rows."""
    while not (out / "layout").exists():
        threading.Event().wait(0.05)
    with gl.JournalReader(out) as reader:
        for frame in reader.follow():
            if len(frame):
                batch = frame.batch.select(reader.layout.schema.names)
                reads += values_of(pa.Table.from_batches([batch]))
            if len(reads) >= rows:
                return


def test_bad_lines_of_a_stream_are_rejected_and_dropped_ones_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    from gapless.spark_sources.prepare import prepare

    folder = tmp_path / "in"
    folder.mkdir()
    day = "1970-01-01"
    (folder / "a.csv").write_text(f"ts,src\n{day},1\n{day},two\n{day},3\n")
    rules = tmp_path / "r.toml"
    rules.write_text('[[rule]]\ndrop = "src = 3"\n')
    schema = pa.schema({"ts": pa.timestamp("ms"), "src": pa.int32()})
    options = {**KEYED, "schema": schema, "rules": rules, "once": True}
    done = prepare(spark, folder, tmp_path / "j", **options)
    assert (done.rows_in, done.written, done.rejected, done.dropped, done.late) == (3, 1, 1, 1, 0)
    assert [line["reason"] for line in rejects_of(tmp_path / "j")] == ["src: 'two' is no int32"]
    (folder / "b.csv").write_text(f"src,ts\n5,{day}\n")
    with pytest.raises(Misuse, match=r"b\.csv' begins with 'src,ts'"):
        prepare(spark, folder, tmp_path / "j", **options)
    (folder / "b.csv").unlink()
    from gapless.spark_sources.directory_stream import follow
    from gapless.spark_sources.job import planned

    job = planned(folder, tmp_path / "j", **{k: v for k, v in options.items() if k != "once"})
    (folder / "b.csv").write_text(f"src,ts\n5,{day}\n")
    with pytest.raises(BadData, match=r"b\.csv has another header than ts,src"):
        follow(spark, job, once=True)
    assert len(rows_in(tmp_path / "j")) == 1


@pytest.mark.parametrize("keep_order", [False, True])
def test_a_task_sorts_its_rows_unless_their_order_is_kept(
    spark: SparkSession, tmp_path: Path, keep_order: bool
) -> None:
    from gapless.spark_sources.prepare import prepare

    folder, out = tmp_path / "in", tmp_path / "j"
    backwards = numbered(0).take(list(range(49, -1, -1)))
    arrive(folder, "0", backwards)
    prepare(spark, folder, out, once=True, keep_order=keep_order, **KEYED)
    table = backwards if keep_order else numbered(0)
    assert by_partition(out) == parted(table, ["src"], 3)


def test_what_a_stream_cannot_promise_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from gapless.spark_sources.prepare import prepare

    arrive(tmp_path / "in", "0", numbered(0))
    with pytest.raises(Misuse, match="--end promises that nothing follows"):
        prepare(spark, tmp_path / "in", tmp_path / "j", end=True, **KEYED)
    with pytest.raises(Misuse, match="watches a directory"):
        prepare(spark, tmp_path / "in" / "0.parquet", tmp_path / "j", **KEYED)
    (tmp_path / "empty").mkdir()
    with pytest.raises(Misuse, match="no file yet that says the columns"):
        prepare(spark, tmp_path / "empty", tmp_path / "j", format="parquet", **KEYED)
    assert not (tmp_path / "j").exists()
