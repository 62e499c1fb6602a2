import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

import gapless as gl
from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.chaos.sim.workloads.windows import counts_and_sums
from gapless.chaos.sim.workloads.workload import SPARE, SWITCHED, Batches, Workload
from gapless.engine.plan import Plan
from gapless.engine.splice import Runnable, Splice
from gapless.journal.layout import Layout
from gapless.journal.partition import partitions_of
from gapless.journal.reader import Reader
from gapless.journal.segment import frame_of_rows
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event, Tdb
from tests.effort import cases

SEEDS = cases(200)
GATHERED_MAX = 12
"""Batches that a reader gets at once, in these tests: at most, and half as many on average."""

every = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)
switchable = pytest.mark.parametrize(
    "workload", [w for w in WORKLOADS.values() if w.switched is not None], ids=lambda w: w.name
)


def promised(batches: Batches, layouts: dict[str, Layout]) -> list[tuple[str, Frame]]:
    """What the journals give, by the plainest rule: the largest time so far, less the lateness."""
    fronts = dict.fromkeys(layouts, BEGIN)
    frames = []
    for source, batch in batches:
        times, layout = batch.column("ts").to_pylist(), layouts[source]
        if fronts[source] > BEGIN:
            assert min(times) >= fronts[source] - layout.lateness, "a row is late"
        fronts[source] = max(fronts[source], *times)
        frames.append((source, frame_of_rows(batch, layout, fronts[source] - layout.lateness)))
    return frames


def cut(frames: list[tuple[str, Frame]], rng: random.Random) -> list[tuple[str, Frame]]:
    """The same, cut elsewhere: some of one source together, rows without the stable behind them."""
    out: list[tuple[str, Frame]] = []
    held: dict[str, list[Frame]] = {}
    for source, frame in frames:
        mine = held.setdefault(source, [])
        mine.append(frame)
        if len(mine) == GATHERED_MAX or rng.random() < 0.15:
            out += [(source, piece) for piece in pieces(mine, rng)]
            mine.clear()
    out += [(source, piece) for source, mine in held.items() for piece in pieces(mine, rng)]
    return out


def pieces(frames: list[Frame], rng: random.Random) -> list[Frame]:
    if not frames:
        return []
    whole = Frame.concat([frame.with_stable(None) for frame in frames])
    whole = whole.with_stable(frames[-1].stable)
    at = rng.randrange(len(whole)) if len(whole) else 0
    if not at or rng.random() < 0.5:
        return [whole]
    return [whole.with_stable(None).slice(0, at), whole.slice(at)]


def run(plan: Runnable, frames: Iterable[tuple[str, Frame]]) -> tuple[Tdb, list[Frame]]:
    """What a plan says of them in the end, and all that it says on the way."""
    graph = plan.compile()
    out = [graph.push(source, frame) for source, frame in frames]
    out += [graph.finish(source) for source in graph.sources]
    table = Tdb(graph.schema)
    for frame in out:
        table.fold(frame)
    return table, out


def of_shard(
    workload: Workload, frames: list[tuple[str, Frame]], shard: int
) -> list[tuple[str, Frame]]:
    """The rows that a shard reads. What its sources promise is of all rows."""
    wanted, out = workload.partitions_of(shard), []
    for source, frame in frames:
        layout = workload.layouts[source]
        key = [frame.payload.column(name) for name in layout.key]
        mine = np.isin(partitions_of(key, layout.partitions), wanted)
        out.append((source, frame.take(mine).with_stable(frame.stable)))
    return out


def check(workload: Workload, seed: int) -> None:
    """One plan of each shard, over one cut of the rows, gives the table."""
    rng = random.Random(f"check {seed}")
    batches = workload.batches(random.Random(seed))
    plans = [plan for name, plan in workload.all_plans.items() if name != SWITCHED]
    frames = promised(batches, dict(workload.layouts))
    total: Counter[Event] = Counter()
    for shard in range(workload.shards):
        own = frames if workload.shards == 1 else of_shard(workload, frames, shard)
        total += run(rng.choice(plans), cut(own, rng))[0].counts()
    wanted = workload.expected(batches)
    assert Tdb(workload.schema, total.elements()) == wanted, wanted
    if workload.key:
        assert set(Counter((e.payload, e.vs) for e in wanted.events).values()) == {1}


@every
def test_each_plan_gives_the_table_that_plain_python_does(workload: Workload) -> None:
    for seed in range(SEEDS):
        check(workload, seed)


@every
def test_that_check_sees_another_query(workload: Workload) -> None:
    changed = [Plan(plan.query.where(other(plan.query))) for plan in workload.plans.values()]
    broken = replace(workload, plans={str(i): p for i, p in enumerate(changed)}, spare_plan=None)
    assert any(is_wrong(broken, seed) for seed in range(SEEDS))


def other(query: gl.Query) -> gl.Expr:
    """A condition that nearly all answers meet."""
    last = query.schema.names[-1]
    return gl.col(last) != (5 if last == "bytes" else 1)


def is_wrong(workload: Workload, seed: int) -> bool:
    try:
        check(workload, seed)
    except AssertionError:
        return True
    return False


@switchable
def test_a_changed_query_counts_from_its_time_on(workload: Workload) -> None:
    assert workload.switched is not None
    assert workload.expected_at is not None
    old_plan = workload.plans[workload.racing[0]]
    for seed in range(SEEDS // 20):
        batches = workload.batches(random.Random(seed))
        frames = promised(batches, dict(workload.layouts))
        old, new = run(old_plan, frames)[0], run(workload.switched, frames)[0]
        assert old != new
        first, last = old.events[0].vs, old.events[-1].vs
        at = workload.next_switch(random.Random(seed).randint(first, last))
        assert not any(e.vs < at < e.ve for e in [*old.events, *new.events])
        both = run(Splice(old_plan, workload.switched, at), frames)[0]
        assert workload.expected_at(batches, at) == both


@every
def test_nearly_every_batch_makes_each_replica_say_something(workload: Workload) -> None:
    """A run has three replicas and two mergers a shard, and is to merge 300 frames."""
    for seed in range(3):
        frames = promised(workload.batches(random.Random(seed)), dict(workload.layouts))
        for plan in workload.plans.values():
            said = run(plan, frames)[1]
            assert 3 * 2 * workload.shards * sum(f.stable is not None for f in said) >= 300
            assert workload.insert_only is plan.insert_only


@every
def test_a_journal_takes_every_row_and_shards_share_them(workload: Workload) -> None:
    batches, disk = workload.batches(random.Random(1)), SimulatedDisk()
    writers = {
        source: Writer(View(disk, source), layout, who="p", token="p", now_ms=lambda: 0)
        for source, layout in workload.layouts.items()
    }
    for source, batch in batches:
        assert writers[source].append(batch).rejected == 0
    for source, writer in writers.items():
        counts = []
        for shard in range(workload.shards):
            reader = Reader(View(disk, source), partitions=workload.partitions_of(shard))
            frame = reader.read()
            assert frame is not None
            assert frame.stable == writer.stable
            counts.append(len(frame))
        assert min(counts) > 0
        assert sum(counts) == sum(b.num_rows for name, b in batches if name == source)


def test_the_workloads_are_of_all_kinds() -> None:
    assert list(WORKLOADS) == ["filter", "w1", "join", "early", "two plans", "shards"]
    assert {w.case for w in WORKLOADS.values()} == {"r3", "r4"}
    assert [w.name for w in WORKLOADS.values() if not w.insert_only] == ["early"]
    assert [w.name for w in WORKLOADS.values() if not w.key] == ["join"]
    assert [len(w.plans) for w in WORKLOADS.values()] == [1, 1, 1, 1, 2, 1]
    assert all(w.spare == SPARE for w in WORKLOADS.values())


def test_early_answers_are_revised_and_pairs_repeat() -> None:
    revised, repeated = 0, 0
    early, join = WORKLOADS["early"], WORKLOADS["join"]
    for seed in range(10):
        frames = promised(early.batches(random.Random(seed)), dict(early.layouts))
        said = run(early.plans["plan"], frames)[1]
        revised += sum(len(frame.adjusts) > 0 for frame in said)
        pairs = join.expected(join.batches(random.Random(seed))).events
        repeated += max(Counter((e.payload, e.vs) for e in pairs).values()) > 1
    assert revised >= 30
    assert repeated >= 5


def test_the_same_seed_draws_the_same_rows() -> None:
    for workload in WORKLOADS.values():
        first, same, other = (workload.batches(random.Random(seed)) for seed in (5, 5, 6))
        assert first == same
        assert first != other


def test_a_window_counts_what_is_in_it_and_begins_its_answer_at_its_end() -> None:
    found = set(counts_and_sums([(17, 1, 5), (10, 1, 2), (20, 2, 1)], 20, 10))
    assert found == {
        Event((1, 2, 7), 20, 30),
        Event((1, 2, 7), 30, 40),
        Event((2, 1, 1), 30, 40),
        Event((2, 1, 1), 40, 50),
    }


def test_a_cutover_to_another_table_is_on_the_grid() -> None:
    w1 = WORKLOADS["w1"]
    assert [w1.next_switch(t) for t in (120, 121, 129, 130)] == [120, 130, 130, 130]
    assert w1.partitions_of(0) == (0,)
    assert [WORKLOADS["shards"].partitions_of(shard) for shard in (0, 1)] == [(0, 2), (1,)]


def test_plans_that_do_not_belong_together_are_refused() -> None:
    w1, join = WORKLOADS["w1"], WORKLOADS["join"]
    with pytest.raises(Bug, match="other schemas or sources"):
        replace(w1, spare_plan=join.plans["plan"])
    with pytest.raises(Bug, match="come together"):
        replace(w1, expected_at=None)
