"""One life of a replica over a real source, without a cluster: what it keeps, what it refuses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import gapless as gl
from gapless.actors.book import Book
from gapless.actors.reader_registry import (
    BEGAN,
    GIVEN_SWEEPS,
    ReaderKeeper,
    ReaderRegistry,
    note_begin,
    of_checkpoint,
)
from gapless.actors.replica import ReplicaShell
from gapless.actors.setup import RAY_TIMING, JobDir, Setup
from gapless.engine.plan import Plan
from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord
from gapless.failover.life_start import Replay, ReplicaStart
from gapless.failover.messages import Life
from gapless.failover.replica.checkpoint import FOLDER
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.readers import registered
from gapless.journal.retention import Retention, trim
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.schema import StreamSchema

COLUMNS = {"ts": "int64", "src": "int32"}
SCHEMA = StreamSchema(COLUMNS)
LAYOUT = Layout(SCHEMA, "ts", ("src",), 2, 5)
WAIT_S = 60.0
LIFE = Life("r0.1", Incarnation(1, 4))


class World:
    """A source with twenty segments, and a job that counts its rows over 30 ms."""

    def __init__(self, path: Path) -> None:
        self.source = LocalDisk(path / "flows")
        writer = Writer(
            self.source, LAYOUT, who="test", token="w", now_ms=lambda: 0, segment_bytes=1
        )
        for start in range(0, 200, 10):
            ts = pa.array(range(start, start + 10), pa.int64())
            src = pa.array([i % 7 for i in range(10)], pa.int32())
            writer.append(pa.RecordBatch.from_arrays([ts, src], schema=SCHEMA.payload))
        writer.close()
        flows = gl.source("flows", COLUMNS, time="ts", time_unit="ms")
        query = flows.window(range=30, slide=10).group_by("src").aggregate(n=gl.count())
        self.path = path / "job"
        self.disk = LocalDisk(self.path)
        record = JobRecord("talkers", {"flows": str(path / "flows")}, True, "r3")
        Job.create(self.disk, "t", record, {"a": Plan(query)}, Desired(2, ("a",)))

    def trim(self, before: int) -> tuple[int, ...]:
        commits = Commits(self.source, LAYOUT)
        return trim(commits, Retention(before=before), token="trim", now_ms=0).first

    @contextmanager
    def replica(self, join_at: int = BEGIN) -> Iterator[ReplicaShell]:
        """One that replays."""
        job = JobDir(self.path)
        start = ReplicaStart(0, "a", ("m0.0",), 1, (Replay(join_at),))
        setup = Setup(str(self.path), LIFE, start, job.schema(), RAY_TIMING, "here")
        shell = ReplicaShell(setup, job, lambda _: None)
        shell.start(Book())
        try:
            yield shell
        finally:
            shell.pump.end("the test is over")
            shell.pump.join(WAIT_S)


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("not in time")


def test_a_replica_without_a_checkpoint_keeps_all_that_it_began_with(tmp_path: Path) -> None:
    world = World(tmp_path)
    note_begin(world.disk, {"flows": world.source}, "t")
    with world.replica() as shell:
        until(lambda: bool(registered(world.source)))
        until(lambda: shell.pump.call(lambda: shell.machine.output.tail.stable) >= 190)
        (reader,) = registered(world.source)
        assert reader.name.endswith(".r0.1")
        assert reader.position == {0: 0, 1: 0}
        assert world.trim(1000) == (0, 0)


def test_a_replay_over_rows_that_went_since_the_job_began_ends_that_life(tmp_path: Path) -> None:
    world = World(tmp_path)
    note_begin(world.disk, {"flows": world.source}, "t")
    assert any(world.trim(100))
    for join_at in (BEGIN, 100):  # from a join at 100 on it needs the rows from 70 on
        with world.replica(join_at) as shell:
            shell.pump.join(WAIT_S)
            assert "trimmed since the job began" in str(shell.pump.ended)


def test_a_replay_that_needs_nothing_of_what_went_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    note_begin(world.disk, {"flows": world.source}, "t")
    assert any(world.trim(100))
    with world.replica(160) as shell:
        until(lambda: shell.pump.call(lambda: shell.machine.output.tail.stable) >= 190)


def test_a_job_that_began_with_a_trimmed_source_begins_there_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert any(world.trim(100))
    note_begin(world.disk, {"flows": world.source}, "t")
    assert world.disk.exists(BEGAN)
    with world.replica() as shell:
        until(lambda: shell.pump.call(lambda: shell.machine.output.tail.stable) >= 190)


def test_a_snapshot_by_the_disk_that_nobody_has_read_is_dropped_and_keeps_no_rows(
    tmp_path: Path,
) -> None:
    world, alarms, given, kept = World(tmp_path), list[str](), "given-r0.1-1-2-1", "0-a-1-1"
    job = JobDir(world.path)
    for name in (given, kept):
        world.disk.create(f"{FOLDER}/{name}", b"a snapshot")
        ReaderRegistry.of(job, alarms.append).keep(of_checkpoint(name), {"flows": {0: 0, 1: 0}})
    keeper = ReaderKeeper(job, "t", alarms.append, lambda e: alarms.append(str(e)))
    for _ in range(GIVEN_SWEEPS):
        keeper.sweep(())
    keeper._hands.do(lambda: alarms.append("all looked"))
    until(lambda: alarms == ["all looked"])
    assert world.disk.list(FOLDER) == [kept, given]
    for _ in range(2):  # what nobody wants is dropped the second time
        keeper.sweep(())
    until(lambda: len(registered(world.source)) == 1)
    assert world.disk.list(FOLDER) == [kept]
    assert alarms == ["all looked"]
