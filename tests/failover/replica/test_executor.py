"""The executor, and the readers that feed it: over real journals on a simulated disk."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.engine.plan import Plan
from gapless.engine.source import source
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.sources import Sources
from gapless.journal.writer import Writer
from gapless.operators.aggregates.calls import count
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, JournalError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.journal.journals import SCHEMA, batch, layout, random_batches

COUNTS = Plan(
    source("flows", {"ts": "int64", "src": "string"}, time="ts")
    .window(range=10, slide=10)
    .group_by("src")
    .aggregate(packets=count())
)
PARTITIONS = 3


def written(disk: SimulatedDisk, seed: int, *, end: bool = True) -> SimulatedDisk:
    clock = iter(range(1_000_000))
    writer = Writer(
        disk, layout(PARTITIONS), who="test", token="t", now_ms=lambda: next(clock), segment_bytes=1
    )
    for rows in random_batches(random.Random(seed), 30):
        writer.append(batch(rows))
    if end:
        writer.end()
    return disk


def sources_of(disk: SimulatedDisk, partitions: tuple[int, ...] | None = None) -> Sources:
    return Sources({"flows": disk}, Executor("plan", COUNTS).sources, partitions)


def run(executor: Executor, sources: Sources, table: Tdb, frames: int = 1000) -> None:
    for _ in range(frames):
        frame, _ = sources.read("flows")
        if frame is None:
            return
        table.fold(executor.push("flows", frame))


def stables(*times: int | None) -> list[Frame]:
    schema = Executor("plan", COUNTS).sources["flows"]
    return [Frame.empty(schema, t) for t in times]


def test_stables_are_thinned_to_what_can_change_an_answer_and_never_go_back() -> None:
    executor = Executor("plan", COUNTS)
    put_out = [executor.push("flows", frame).stable for frame in stables(17, 19, 12, 30, INF, INF)]
    assert put_out == [20, None, None, 40, INF, None]
    assert executor.given == {"flows": INF}


def test_columns_that_the_plan_does_not_know_are_left_out_and_missing_ones_are_named() -> None:
    executor = Executor("plan", COUNTS)
    wide = Frame.empty(StreamSchema({"ts": "int64", "n": "int32", "src": "string"}), 20)
    assert executor.push("flows", wide).stable == 30
    with pytest.raises(DecodeError, match="column src"):
        executor.push("flows", Frame.empty(StreamSchema({"ts": "int64"}), 50))
    with pytest.raises(Misuse, match="reads flows"):
        executor.push("other", wide)


def test_a_state_that_does_not_fit_leaves_the_executor_as_new() -> None:
    executor = Executor("plan", COUNTS)
    executor.push("flows", stables(20)[0])
    state = executor.snapshot()
    other = Executor("plan", COUNTS.compile)
    for bad, given in (
        ({}, {"flows": 20}),
        (state, {}),
        ({**state, "x.y": state["graph.facts"]}, {"flows": 20}),
    ):
        with pytest.raises(DecodeError):
            other.restore(bad, given)
        assert other.given == {"flows": BEGIN}
    other.restore(state, {"flows": 20})
    assert (other.given, other.stable) == ({"flows": 20}, executor.stable)
    assert not other.push("flows", stables(20)[0])
    other.validate()


def test_a_reader_that_begins_again_at_a_position_gives_the_same_answer() -> None:
    for seed in range(8):
        disk = written(SimulatedDisk(), seed)
        whole, parts = Tdb(COUNTS.query.schema), Tdb(COUNTS.query.schema)
        sources = sources_of(disk)
        sources.open(None, {"flows": BEGIN})
        run(Executor("plan", COUNTS), sources, whole)
        assert whole.stable == INF
        sources.open(None, {})
        first, second = Executor("plan", COUNTS), Executor("plan", COUNTS)
        frame, position = sources.read("flows")
        assert frame is not None
        parts.fold(first.push("flows", frame))
        second.restore(first.snapshot(), first.given)
        again = sources_of(disk)
        again.open({"flows": position}, {"flows": BEGIN})
        run(second, again, parts)
        assert parts == whole, f"seed {seed}"


def test_partitions_of_two_shards_make_the_whole() -> None:
    disk = written(SimulatedDisk(), 3)
    tables = []
    for partitions in ((0, 2), (1,), None):
        table, sources = Tdb(COUNTS.query.schema), sources_of(disk, partitions)
        sources.open(None, {})
        run(Executor("plan", COUNTS), sources, table)
        tables.append(table)
    assert tables[0].counts() + tables[1].counts() == tables[2].counts()


def test_segments_before_since_are_not_read() -> None:
    disk = written(SimulatedDisk(), 5)
    rows = []
    for t in (BEGIN, 150):
        sources = sources_of(disk)
        sources.open(None, {"flows": t})
        read = 0
        while (frame := sources.read("flows")[0]) is not None:
            read += len(frame)
        rows.append(read)
    assert rows[0] > rows[1] > 0


def test_what_cannot_be_read_is_the_journals_fault_and_named() -> None:
    sources = sources_of(written(SimulatedDisk(), 1, end=False))
    with pytest.raises(JournalError, match="not open"):
        sources.read("flows")
    with pytest.raises(JournalError, match="flows"):
        sources.open({"flows": {7: 0}}, {})
    with pytest.raises(JournalError):
        sources.open({"flows": dict.fromkeys(range(PARTITIONS), 10**6)}, {})
    strange = Sources({"flows": SimulatedDisk()}, {"flows": SCHEMA})
    with pytest.raises(JournalError):
        strange.open(None, {})
    with pytest.raises(Misuse, match="no journal"):
        Sources({}, {"flows": SCHEMA})


@pytest.mark.parametrize("seed", range(12))
def test_after_a_fast_forward_rows_of_no_more_use_change_nothing_that_is_still_wanted(
    seed: int,
) -> None:
    """What ends at t or later is the same; the plan is spared rows of segments that are read."""
    at = random.Random(seed).randrange(20, 200)
    whole, spared = Tdb(COUNTS.query.schema), Tdb(COUNTS.query.schema)
    run(Executor("plan", COUNTS), opened(seed), whole)
    executor = Executor("plan", COUNTS)
    before = executor.fast_forward(at)["flows"]
    sources, pushed = opened(seed), 0
    graph = executor._graph
    parts = graph.parts

    def counted(source: str, frame: Frame, marks: tuple[Punctuation, ...] = ()) -> Iterator[Frame]:
        nonlocal pushed
        pushed += int((frame.ve < before).sum())
        return parts(source, frame, marks)

    graph.parts = counted  # type: ignore[method-assign]  # the test looks at what the plan gets
    run(executor, sources, spared)
    assert pushed == 0
    assert spared.since(at) == whole.since(at)


def opened(seed: int) -> Sources:
    sources = sources_of(written(SimulatedDisk(), seed))
    sources.open(None, {"flows": BEGIN})
    return sources
