"""What a preparation says that it has done: counted without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from gapless.protocol.errors import Misuse
from gapless.spark_sources.job import Job, planned
from gapless.spark_sources.prepared import REJECT_FILES_MAX, Before


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "in").mkdir()
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("ms"))})
    parquet.write_table(rows, tmp_path / "in" / "a.parquet")
    return planned(tmp_path / "in", tmp_path / "j", time="ts", follow=True)


def put_rejects(job: Job, first: int, count: int) -> list[str]:
    folder = Path(job.out) / "rejects"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:010}.jsonl" for number in range(first, first + count)]
    for file in files:
        file.touch()
    return [str(file) for file in files]


@pytest.mark.parametrize("count", [0, 1, REJECT_FILES_MAX, REJECT_FILES_MAX + 7])
def test_of_new_reject_files_so_many_are_named_and_all_are_counted(job: Job, count: int) -> None:
    put_rejects(job, 0, 5)
    before = Before.of(job, job.head())
    new = put_rejects(job, 5, count)
    done = before.done(job.head(), {})
    assert list(done.rejects) == new[:REJECT_FILES_MAX]
    assert done.reject_files == count
    assert done.document()["reject_files"] == count


def test_while_a_stream_runs_nobody_looks_for_reject_files(job: Job) -> None:
    before = Before.of(job, job.head())
    put_rejects(job, 0, 3)
    assert before.so_far(job.head(), {}).rejects == ()


def test_the_rows_that_were_read_are_those_in_the_journal_and_those_left_out(job: Job) -> None:
    before = Before.of(job, replace(job.empty, rows=(7_000,), rejected=12))
    head = replace(job.empty, rows=(9_950,), rejected=17)
    said = before.so_far(head, {"dropped": 45, "rejected": 2})
    assert (said.rows_in, said.written, said.rejected) == (3_000, 2_950, 5)
    assert (said.dropped, said.late) == (45, 3), "rejected, and no rule or cast has done it"


@pytest.mark.parametrize("place", ["/proc/journal", "/proc/self/fd/journal"])
def test_where_no_journal_can_be_made_it_is_said_before_spark_starts(
    tmp_path: Path, place: str
) -> None:
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("ms"))})
    parquet.write_table(rows, tmp_path / "a.parquet")
    with pytest.raises(Misuse, match=r"no journal can be made at .*name another directory"):
        planned(tmp_path / "a.parquet", place, time="ts")


def test_trying_out_a_place_leaves_nothing_there(tmp_path: Path) -> None:
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("ms"))})
    parquet.write_table(rows, tmp_path / "a.parquet")
    planned(tmp_path / "a.parquet", tmp_path / "new" / "j", time="ts")
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]
