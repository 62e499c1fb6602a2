"""What a job keeps in its sources: who registers, who is swept away, where the sources began."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gapless.actors import reader_registry
from gapless.actors.reader_registry import ReaderRegistry, began, has_checkpoint, note_begin, wanted
from gapless.failover.job.state import SlotState
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.readers import FOLDER, registered, unregister
from gapless.journal.retention import Retention, trim
from gapless.journal.writer import Writer
from gapless.protocol.errors import JobError
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"ts": "int64", "src": "int32"})
LAYOUT = Layout(SCHEMA, "ts", ("src",), 2, 0)


class World:
    """A source with ten segments, and a job that reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = LocalDisk(path / "flows")
        writer = Writer(self.disk, LAYOUT, who="test", token="w", now_ms=lambda: 0, segment_bytes=1)
        for start in range(0, 100, 10):
            ts = pa.array(range(start, start + 10), pa.int64())
            src = pa.array([i % 7 for i in range(10)], pa.int32())
            writer.append(pa.RecordBatch.from_arrays([ts, src], schema=SCHEMA.payload))
        writer.close()
        self.alarms: list[str] = []
        self.job = self.registering("talkers")

    def registering(self, job: str, job_dir: str = "/jobs/talkers") -> ReaderRegistry:
        sources = {"flows": LocalDisk(self.path / "flows")}
        return ReaderRegistry(job, job_dir, sources, lambda: 5, self.alarms.append)

    @property
    def names(self) -> list[str]:
        return [reader.name for reader in registered(self.disk)]

    def position(self, rows: int) -> dict[str, dict[int, int]]:
        return {"flows": dict.fromkeys(range(2), rows)}

    def trim(self) -> tuple[int, ...]:
        retention = Retention(before=1000)
        return trim(Commits(self.disk, LAYOUT), retention, token="t", now_ms=0).first


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_is_registered_is_not_trimmed_until_it_is_dropped(world: World) -> None:
    world.job.keep("r0.1", world.position(20))
    world.job.keep("ckpt.0-talkers-1-3", world.position(9))
    assert all(row <= 9 for row in world.trim())
    world.job.drop("ckpt.0-talkers-1-3")
    first = world.trim()
    assert max(first) > 9
    assert all(row <= 20 for row in first)
    world.job.drop("r0.1")
    assert world.trim() == Commits(world.disk, LAYOUT).head.rows


def test_a_position_replaces_the_one_before_also_where_somebody_else_dropped_it(
    world: World,
) -> None:
    world.job.keep("r0.1", world.position(3))
    (name,) = world.names
    unregister(world.disk, name)
    world.job.keep("r0.1", world.position(4))
    (reader,) = registered(world.disk)
    assert reader.position == {0: 4, 1: 4}
    assert reader.at_ms == 5


def test_a_source_that_is_read_no_more_is_kept_no_more(world: World) -> None:
    world.job.keep("r0.1", world.position(3))
    world.job.keep("r0.1", {})
    assert world.names == []


def test_jobs_of_one_name_in_different_places_do_not_drop_what_is_the_other_s(
    world: World,
) -> None:
    other = world.registering("talkers", "/mnt/talkers")
    world.job.keep("r0.1", world.position(3))
    other.keep("r0.1", world.position(4))
    assert len(world.names) == 2
    world.job.drop_all()
    assert world.names == [other.reader("r0.1")]


def test_names_are_such_that_journals_take_them_and_two_stay_two(world: World) -> None:
    plain = world.job.reader("r0.1")
    assert plain.startswith("talkers-")
    assert plain.endswith(".r0.1")
    long = [f"ckpt.0-{'x' * 99}{end}-1-1" for end in "ab"]
    odd = ["ckpt.a b", "ckpt.a/b"]
    names = [world.job.reader(who) for who in (*long, *odd)]
    assert len(set(names)) == len(names)
    for who in (*long, *odd):
        world.job.keep(who, world.position(1))
    assert sorted(world.names) == sorted(names)
    assert all(len(name) <= reader_registry.READER_CHARS_MAX for name in names)


def test_a_source_that_cannot_be_written_is_said_once_and_stops_nobody(world: World) -> None:
    (world.path / "flows" / FOLDER).write_text("no folder, so nothing can be put into it")
    for _ in range(3):
        world.job.keep("r0.1", world.position(3))
        world.job.drop("r0.1")
        world.job.sweep([])
        world.job.drop_all()
    assert len(world.alarms) == 1
    assert "source flows" in world.alarms[0]


def test_a_sweep_drops_what_nobody_wants_the_second_time_in_a_row(world: World) -> None:
    world.job.keep("r0.0", world.position(3))
    world.job.keep("r0.1", world.position(3))
    world.job.sweep(["r0.0"])
    assert len(world.names) == 2
    world.job.sweep(["r0.0", "r0.1"])  # it was ahead of those who know of it
    world.job.sweep(["r0.0"])
    assert len(world.names) == 2
    world.job.sweep(["r0.0"])
    assert world.names == [world.job.reader("r0.0")]


def test_replicas_that_were_given_up_and_mergers_want_nothing(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.append("checkpoints/0-talkers-1-3", b"")
    slots = [
        SlotState(slot, state, None, "", "", "", None)
        for slot, state in (
            ("r0.0", "running"),
            ("r0.1", "failed"),
            ("r0.2", "empty"),
            ("m0.0", "running"),
        )
    ]
    assert wanted(slots, disk) == {"r0.0", "r0.2", "ckpt.0-talkers-1-3"}


def test_a_checkpoint_counts_for_its_own_shard_and_plan_alone(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    assert not has_checkpoint(disk, 0, "a")
    disk.append("checkpoints/0-a-1-2-3", b"")  # of plan "a-1"
    assert has_checkpoint(disk, 0, "a-1")
    assert not has_checkpoint(disk, 0, "a")
    assert not has_checkpoint(disk, 1, "a-1")
    disk.append("checkpoints/1-a-2-3", b"")
    assert has_checkpoint(disk, 1, "a")


def test_where_the_sources_began_is_written_once(world: World, tmp_path: Path) -> None:
    job = LocalDisk(tmp_path / "job")
    assert began(job) == {}
    note_begin(job, {"flows": world.disk}, "t1")
    assert began(job) == {"flows": {0: 0, 1: 0}}
    assert any(world.trim())
    note_begin(job, {"flows": world.disk}, "t2")
    assert began(job) == {"flows": {0: 0, 1: 0}}


def test_a_job_over_a_trimmed_source_begins_where_that_does(world: World, tmp_path: Path) -> None:
    first = world.trim()
    job = LocalDisk(tmp_path / "job")
    note_begin(job, {"flows": world.disk}, "t1")
    assert began(job) == {"flows": dict(enumerate(first))}


def test_a_damaged_begin_is_an_error_that_says_what_to_do(world: World, tmp_path: Path) -> None:
    job = LocalDisk(tmp_path / "job")
    note_begin(job, {"flows": world.disk}, "t1")
    job.put(reader_registry.BEGAN, b"#####")
    with pytest.raises(JobError, match="take it from a copy"):
        began(job)
