"""What an effect of a replica does: the rows that it gives are those of a plain reading, and every
error of a disk becomes one of its events.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chaos.planted.replica_ios import (
    CutsADrainOneRowOff,
    GivesWhatIsSkipped,
    TakesAFailedCheckpointForWritten,
)
from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.failover.io.replica_io import (
    EFFECTS,
    READ_AHEAD_TIMES_MAX,
    InterpretedEffect,
    ReplicaIO,
)
from gapless.failover.io.steps import Step
from gapless.failover.replica import checkpoint as checkpoints
from gapless.failover.replica import effects as ask
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import Position, ReplicaEvent
from gapless.failover.replica.sources import Sources
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, parse
from tests.effort import cases
from tests.failover.io.failing_disk import CALLS_MAX, ERRORS, Failing

SCHEMA = StreamSchema({"ts": "int64", "n": "int32"})
LATENESS = 4
FLOWS, NAME = "flows", "0-a-1-1"
OF_SOURCES = ERRORS[2:]
"""What a disk and a journal raise that are read; the others come of writing."""
READ = (ask.SourceRead, ask.SourceFailed)
ANSWERS: dict[type[InterpretedEffect], tuple[type, ...]] = {
    ask.OpenSources: (type(None), ask.SourceFailed),
    ask.ReadSource: READ,
    ask.SkipSource: (type(None),),
    ask.WriteCheckpoint: (ask.CheckpointWritten,),
    ask.LoadCheckpoint: (ask.CheckpointLoaded,),
    ask.DropCheckpoint: (type(None),),
    ask.Work: (ask.Done,),
}
TAKEN = Checkpoint(
    "a",
    {FLOWS: {0: 3}},
    {FLOWS: 5},
    BEGIN,
    4,
    (Frame.from_elements(DEFAULT_SCHEMA, parse("ins(A,1,9) ins(B,4,20) stable(4)")),),
    {},
)


class Guard:
    """Notes what is kept from being trimmed."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def opened(self, positions: Mapping[str, Position]) -> None:
        self.heard.append(("opened", positions))

    def keep(self, name: str, positions: Mapping[str, Position]) -> None:
        self.heard.append(("keep", name))
        assert positions == TAKEN.positions

    def drop(self, name: str) -> None:
        self.heard.append(("drop", name))


class World:
    """A source of some partitions that grows, and the interpreter of a life that reads it."""

    def __init__(
        self,
        seed: int = 0,
        kind: type[ReplicaIO] = ReplicaIO,
        partitions: int = 2,
        segment_bytes: int | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.raw = SimulatedDisk()
        self.disk = Failing(View(self.raw, "flows"))
        self.job_disk = Failing(View(self.raw, "job"))
        self.writer = Writer(
            View(self.raw, "flows"),
            Layout(SCHEMA, "ts", ("n",) if partitions > 1 else (), partitions, LATENESS),
            who="test",
            token="w",
            now_ms=lambda: 0,
            segment_bytes=segment_bytes or self.rng.choice((1, 2_000, 1 << 20)),
        )
        self.written = 0
        self.pace = 4
        self.alarms: list[str] = []
        sources = Sources({FLOWS: self.disk}, {FLOWS: SCHEMA})
        self.io = kind(
            sources,
            self.job_disk,
            DEFAULT_SCHEMA,
            lambda: self.pace,
            self.alarms.append,
            trim_guard=guard,
        )

    def append(self, rows: int) -> None:
        """Rows of the next instants, each with a number of its own."""
        times = range(self.written, self.written + rows)
        columns = [pa.array(times, pa.int64()), pa.array(times, pa.int32())]
        self.writer.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.payload))
        self.written += rows

    def open(self, positions: Position | None = None, since: int = BEGIN) -> None:
        at = None if positions is None else {FLOWS: positions}
        assert self.io.do(ask.OpenSources(at, {FLOWS: since})) is None

    def read(self, *, drains: bool = False) -> ask.SourceRead:
        done = self.io.do(ask.ReadSource(FLOWS, drains))
        assert isinstance(done, ask.SourceRead)
        assert done.position == self.io.given[FLOWS]
        self.io.validate()
        return done

    def rest(self, *, drains: bool = False) -> Iterator[Frame]:
        """All frames until there is nothing new."""
        while (frame := self.read(drains=drains).frame) is not None:
            yield frame

    def end(self) -> dict[int, int]:
        return Reader(View(self.raw, "flows"), start="end").position


def rows_of(frame: Frame) -> list[int]:
    times: list[int] = frame.vs.tolist()
    return times


def all_of(frames: Iterator[Frame]) -> list[int]:
    return [t for frame in frames for t in rows_of(frame)]


# -- what is given ------------------------------------------------------------------------------


@given(st.integers(0, 1 << 32))
def test_oracle_whatever_the_pace_each_row_is_given_once_with_what_a_plain_reading_promises(
    seed: int,
) -> None:
    world = World(seed, partitions=random.Random(seed).choice((1, 3)))
    rng = world.rng
    world.append(rng.randint(0, 30))
    world.open()
    found: Counter[int] = Counter()
    promised, was_more = BEGIN, False
    for _ in range(60):
        if rng.random() < 0.2:
            world.append(rng.randint(1, 20))
        if rng.random() < 0.3:
            world.pace = rng.choice((1, 2, 5, 12, 40))
        done = world.read()
        assert done.frame is not None or not was_more
        if done.frame is None:
            continue
        frame = done.frame
        assert len(frame) <= READ_AHEAD_TIMES_MAX * world.pace
        found.update(rows_of(frame))
        assert all(t >= promised for t in rows_of(frame))
        promised = max(promised, BEGIN if frame.stable is None else frame.stable)
        was_more = done.more and len(frame) < world.pace
    found.update(all_of(world.rest()))
    assert found == Counter(range(world.written))
    assert world.io.given == {FLOWS: world.end()}
    assert promised <= world.writer.stable


@given(st.integers(0, 1 << 32))
def test_oracle_of_rows_that_were_skipped_some_are_given_and_of_all_others_each_once(
    seed: int,
) -> None:
    world = World(seed)
    rng = world.rng
    world.append(80)
    world.open()
    found: Counter[int] = Counter()
    skipped = BEGIN
    for _ in range(20):
        world.pace = rng.choice((1, 3, 9))
        if rng.random() < 0.3:
            skipped = max(skipped, rng.randint(0, 80))
            assert world.io.do(ask.SkipSource(FLOWS, skipped)) is None
            world.io.validate()
        frame = world.read().frame
        if frame is not None:
            found.update(rows_of(frame))
    found.update(all_of(world.rest()))
    assert all(found[t] == 1 for t in range(max(skipped, 0), 80))
    assert max(found.values(), default=1) == 1


def test_what_was_read_ahead_and_is_skipped_is_not_given_but_what_it_promises_is() -> None:
    world = World(partitions=1, segment_bytes=1 << 20)
    world.append(4)
    world.append(4)
    world.append(4)
    world.open()
    assert rows_of(world.read().frame or Frame.empty(SCHEMA)) == [0, 1, 2, 3]
    world.io.do(ask.SkipSource(FLOWS, 8))
    given = list(world.rest())
    assert [t for frame in given for t in rows_of(frame)] == [8, 9, 10, 11]
    assert world.io.given == {FLOWS: {0: 12}}
    assert given[-1].stable == world.writer.stable


def test_an_interpreter_that_keeps_what_is_skipped_does_not_validate() -> None:
    world = World(kind=GivesWhatIsSkipped, partitions=1)
    world.append(4)
    world.append(4)
    world.open()
    world.read()
    world.io.do(ask.SkipSource(FLOWS, 8))
    with pytest.raises(Bug, match="is skipped"):
        world.io.validate()


def test_what_was_read_ahead_is_given_in_smaller_frames_where_the_pace_has_fallen() -> None:
    world = World(partitions=1)
    for _ in range(6):
        world.append(10)
    world.pace = 20
    world.open()
    sizes = [len(world.read().frame or ())]
    world.pace = 3
    sizes += [len(frame) for frame in world.rest() if len(frame)]
    assert sizes[0] == 20
    assert max(sizes[1:]) <= READ_AHEAD_TIMES_MAX * 3
    assert sum(sizes) == 60


def test_what_was_read_ahead_is_given_with_what_follows_where_the_pace_has_risen() -> None:
    world = World(partitions=1)
    for _ in range(6):
        world.append(10)
    world.open()
    world.pace = 10
    sizes = [len(world.read().frame or ())]
    world.pace = 30
    sizes += [len(frame) for frame in world.rest() if len(frame)]
    assert sizes == [10, 30, 20]


def test_a_source_that_has_nothing_new_is_looked_at_again_or_that_is_the_answer() -> None:
    world = World()
    world.append(2)
    world.open()
    assert all_of(world.rest()) == [0, 1]
    waiting = world.io.step(ask.ReadSource(FLOWS)).do()
    assert isinstance(waiting, Step)
    assert waiting.instead == ask.SourceRead(FLOWS, None, world.end())
    world.append(1)
    done = waiting.do()
    assert isinstance(done, ask.SourceRead)
    assert done.frame is not None
    assert rows_of(done.frame) == [2]
    assert waiting.do() is None, "each is answered once"


# -- openings -----------------------------------------------------------------------------------


def test_an_opening_forgets_what_was_read_ahead_and_a_read_that_is_under_way() -> None:
    world = World(partitions=1)
    world.append(12)
    world.open()
    first = world.read()
    assert first.more
    under_way = world.io.step(ask.ReadSource(FLOWS))
    world.open({0: 0})
    assert under_way.do() is None
    assert sorted(all_of(world.rest())) == list(range(12))


def test_what_the_machine_has_taken_in_lags_by_the_read_that_it_was_given_last() -> None:
    world = World(partitions=1)
    world.append(12)
    world.open()
    assert world.io.taken == world.io.given == {FLOWS: {0: 0}}
    world.read()
    assert world.io.taken == {FLOWS: {0: 0}}
    world.read()
    assert world.io.taken == {FLOWS: {0: 4}}
    assert world.io.given == {FLOWS: {0: 8}}


def test_sources_that_have_failed_are_said_to_once_and_read_no_more_until_they_are_opened() -> None:
    for error in OF_SOURCES:
        world = World()
        world.append(9)
        world.open()
        world.disk.fail(0, error)
        done = world.io.do(ask.ReadSource(FLOWS))
        assert isinstance(done, ask.SourceFailed)
        assert done.source == FLOWS
        assert world.io.do(ask.ReadSource(FLOWS)) is None
        assert world.io.do(ask.SkipSource(FLOWS, 5)) is None
        world.open()
        assert sorted(all_of(world.rest())) == list(range(9))


# -- drains -------------------------------------------------------------------------------------


def drains_whole(seed: int, kind: type[ReplicaIO] = ReplicaIO) -> bool:
    """Whether all that was there when the drain began was given, and not all that came later."""
    world = World(seed, kind, partitions=random.Random(seed).choice((1, 2)))
    rng = world.rng
    world.append(rng.randint(1, 20))
    world.open()
    world.pace = rng.choice((1, 2, 6))
    found = [t for _ in range(rng.randint(0, 5)) for t in rows_of(_frame(world.read()))]
    there = world.written
    for _ in range(100):
        if rng.random() < 0.7:
            world.append(rng.randint(1, 5))  # it never pauses
        done = world.read(drains=True)
        if done.frame is None:
            break
        found += rows_of(done.frame)
    else:
        pytest.fail("it reads for ever")
    given = world.io.given
    if given[FLOWS] != world.end():  # it has found rows that came later
        for _ in range(3):
            world.append(2)
            assert world.read(drains=True).frame is None
        assert world.io.given == given, "what was cut off was not given"
    return set(found) >= set(range(there)) and len(found) == len(set(found))


def _frame(done: ask.SourceRead) -> Frame:
    return done.frame or Frame.empty(SCHEMA)


@given(st.integers(0, 1 << 32))
def test_a_drain_gives_every_row_that_was_there_and_ends_though_the_source_goes_on(
    seed: int,
) -> None:
    assert drains_whole(seed)


def test_a_cut_that_is_one_row_off_leaves_one_out() -> None:
    assert not all(drains_whole(seed, CutsADrainOneRowOff) for seed in range(cases(100)))


def test_a_drain_of_sources_that_are_opened_again_reads_them_again() -> None:
    world = World(partitions=1)
    world.pace = 3
    world.append(3)
    world.open()
    assert all_of(world.rest(drains=True)) == [0, 1, 2]
    world.append(1)
    assert world.read(drains=True).frame is None
    world.open({0: 0})
    assert all_of(world.rest(drains=True)) == [0, 1, 2]


# -- checkpoints and work -----------------------------------------------------------------------


def test_a_checkpoint_that_was_written_loads_until_it_is_dropped() -> None:
    world = World()
    assert world.io.do(ask.WriteCheckpoint(NAME, TAKEN)) == ask.CheckpointWritten(NAME)
    loaded = world.io.do(ask.LoadCheckpoint(NAME))
    assert isinstance(loaded, ask.CheckpointLoaded)
    assert loaded.checkpoint is not None
    assert loaded.checkpoint.positions == TAKEN.positions
    assert world.io.do(ask.DropCheckpoint(NAME)) is None
    gone = world.io.do(ask.LoadCheckpoint(NAME))
    assert isinstance(gone, ask.CheckpointLoaded)
    assert gone.checkpoint is None
    assert "is missing" in gone.reason


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_a_checkpoint_that_is_said_to_be_written_is_there_whole(number: int) -> None:
    for at in range(CALLS_MAX):
        world = World()
        world.job_disk.fail(at, ERRORS[number])
        done = world.io.do(ask.WriteCheckpoint(NAME, TAKEN))
        assert isinstance(done, ask.CheckpointWritten)
        if world.job_disk.left is not None:
            return
        if not done.reason:
            assert checkpoints.read(View(world.raw, "job"), NAME, DEFAULT_SCHEMA).plan == "a"
    pytest.fail(f"more than {CALLS_MAX} calls")


def test_an_interpreter_that_takes_a_failed_write_for_done_says_what_is_not_there() -> None:
    world = World(kind=TakesAFailedCheckpointForWritten)
    world.job_disk.fail(1, ERRORS[3])
    assert world.io.do(ask.WriteCheckpoint(NAME, TAKEN)) == ask.CheckpointWritten(NAME)
    assert not checkpoints.size(View(world.raw, "job"), NAME)


def test_sources_are_kept_for_a_checkpoint_from_before_it_is_written_until_it_is_dropped() -> None:
    guard = Guard()
    world = World(guard=guard)
    world.append(3)
    world.open()
    assert guard.heard == [("opened", {FLOWS: {0: 0, 1: 0}})]
    world.io.do(ask.WriteCheckpoint(NAME, TAKEN))
    assert guard.heard[1:] == [("keep", NAME), ("keep", NAME)]  # a sweep may have come between
    world.io.do(ask.DropCheckpoint(NAME))
    assert guard.heard[3:] == [("drop", NAME)]
    world.job_disk.fail(0, ERRORS[3])
    world.io.do(ask.WriteCheckpoint("0-a-1-2", TAKEN))
    assert guard.heard[4:] == [("keep", "0-a-1-2"), ("drop", "0-a-1-2")]


def test_a_checkpoint_that_cannot_be_dropped_is_an_alarm() -> None:
    world = World()
    world.job_disk.fail(0, ERRORS[3])
    assert world.io.do(ask.DropCheckpoint(NAME)) is None
    assert len(world.alarms) == 1
    assert f"checkpoint {NAME} is not dropped" in world.alarms[0]


def test_work_is_done_where_the_shell_has_it_done() -> None:
    step = World().io.step(ask.Work(3, "fold its tail", lambda: "folded"))
    assert step.place == "work"
    assert step.do() == ask.Done(3, "folded")


# -- errors -------------------------------------------------------------------------------------


def effect_of(kind: type[InterpretedEffect]) -> InterpretedEffect:
    made: dict[type[InterpretedEffect], InterpretedEffect] = {
        ask.OpenSources: ask.OpenSources({FLOWS: {0: 2, 1: 1}}, {FLOWS: BEGIN}),
        ask.ReadSource: ask.ReadSource(FLOWS, drains=True),
        ask.SkipSource: ask.SkipSource(FLOWS, 6),
        ask.WriteCheckpoint: ask.WriteCheckpoint(NAME, TAKEN),
        ask.LoadCheckpoint: ask.LoadCheckpoint("0-a-1-0"),
        ask.DropCheckpoint: ask.DropCheckpoint("0-a-1-0"),
        ask.Work: ask.Work(1, "", lambda: None),
    }
    return made[kind]


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_whatever_a_disk_raises_at_whichever_call_is_one_of_the_answers(
    kind: type[InterpretedEffect], number: int
) -> None:
    """Reading raises what a journal and a disk say of a read, writing anything."""
    for at in range(CALLS_MAX):
        world = World()
        world.append(9)
        world.open()
        world.io.do(ask.WriteCheckpoint("0-a-1-0", TAKEN))
        disks = [world.job_disk, *([world.disk] if ERRORS[number] in OF_SOURCES else ())]
        for disk in disks:
            disk.fail(at, ERRORS[number])
        done: ReplicaEvent | None = world.io.do(effect_of(kind))
        assert isinstance(done, ANSWERS[kind]), f"call {at}: {done}"
        if isinstance(done, ask.SourceFailed):
            assert not world.io.is_open
        if all(disk.left is not None for disk in disks):
            return  # the effect has made all of its calls
    pytest.fail(f"more than {CALLS_MAX} calls")
