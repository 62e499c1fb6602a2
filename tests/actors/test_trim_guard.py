"""What a replica keeps from being trimmed: where it began until there is a checkpoint, and then
where it was a round ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.actors.reader_registry import of_checkpoint
from gapless.actors.setup import JobDir
from gapless.actors.trim_guard import ReplicaTrimGuard
from gapless.engine.plan import Plan
from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord
from gapless.failover.life_start import Replay, ReplicaStart
from gapless.failover.replica import checkpoint as checkpoints
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.readers import registered
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA

COLUMNS = {"ts": "int64"}
START = ReplicaStart(0, "a", ("m0.0",), 1, (Replay(),))
CHECKPOINT = "0-a-1-17"


class World:
    """A job over one source of forty rows, and the guard of a replica."""

    def __init__(self, path: Path) -> None:
        self.job_disk = LocalDisk(path / "job")
        self.flows = LocalDisk(path / "flows")
        layout = Layout(StreamSchema(COLUMNS), "ts", (), 1, 0)
        writer = Writer(self.flows, layout, who="test", token="w", now_ms=lambda: 0)
        ts = pa.array(range(40), pa.int64())
        writer.append(pa.RecordBatch.from_arrays([ts], schema=layout.schema.payload))
        writer.close()
        record = JobRecord("talkers", {"flows": str(path / "flows")}, True, "r3")
        source = gl.source("flows", COLUMNS, time="ts", time_unit="ms")
        query = source.window(range=30, slide=10).aggregate(n=gl.count())
        Job.create(self.job_disk, "t", record, {"a": Plan(query)}, Desired(2, ("a",)))
        self.alarms: list[str] = []
        self.guard = ReplicaTrimGuard(JobDir(path / "job"), "r0.1", START, self.alarms.append)

    def kept(self) -> dict[str, Mapping[int, int]]:
        """By what comes behind the job's name, the rows that are kept from there on."""
        found = registered(self.flows)
        return {reader.name.partition(".")[2]: reader.position or {} for reader in found}

    def writes_a_checkpoint(self) -> None:
        empty = Frame.empty(DEFAULT_SCHEMA)
        taken = Checkpoint("a", at(5), {"flows": 5}, BEGIN, BEGIN, (empty,), {})
        checkpoints.write(self.job_disk, CHECKPOINT, taken)


def at(row: int) -> dict[str, dict[int, int]]:
    return {"flows": {0: row}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_without_a_checkpoint_a_replica_keeps_what_it_began_with(world: World) -> None:
    """A new one would replay all of that."""
    world.guard.opened(at(3))
    for row in (10, 20, 30):
        world.guard.goes_on(at(row))
        assert world.kept() == {"r0.1": {0: 3}}


def test_with_a_checkpoint_it_keeps_what_it_was_at_a_round_ago(world: World) -> None:
    """A replica that joins was given what is that old at most."""
    world.writes_a_checkpoint()
    world.guard.opened(at(3))
    assert world.kept() == {"r0.1": {0: 3}}
    world.guard.goes_on(at(10))
    assert world.kept() == {"r0.1": {0: 3}}
    world.guard.goes_on(at(20))
    assert world.kept() == {"r0.1": {0: 10}}


def test_a_checkpoint_keeps_its_own_positions_until_it_is_dropped(world: World) -> None:
    world.guard.opened(at(3))
    world.guard.keep(CHECKPOINT, at(7))
    assert world.kept() == {"r0.1": {0: 3}, of_checkpoint(CHECKPOINT): {0: 7}}
    world.guard.drop(CHECKPOINT)
    assert world.kept() == {"r0.1": {0: 3}}


def test_where_the_jobs_directory_cannot_be_read_an_alarm_says_so_and_nothing_is_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.guard.opened(at(3))

    def fails(*_: Any) -> list[str]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LocalDisk, "list", fails)
    world.guard.goes_on(at(10))
    world.guard.goes_on(at(20))
    monkeypatch.undo()
    assert world.kept() == {"r0.1": {0: 3}}
    assert len(world.alarms) == 2
    assert "does not say which checkpoints there are" in world.alarms[0]
