"""A query over a journal answers what it answers over the rows that the journal took.

The journals are random: partitions, segments, what is sealed and what is live, batches that rise in
time and such as do not, some of them written partition by partition as Spark does. Which rows are
late is decided by the rule of docs/journal.md, in plain Python.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.engine import judged, nodes
from gapless.engine.execute import Execution
from gapless.engine.intake import Intake
from gapless.engine.judged import Judged, check_source, judged_rows
from gapless.engine.lateness import (
    Lateness,
    TimeLate,
    Watermarks,
    k_late,
    ordered,
    watermarks,
)
from gapless.engine.node_base import NodeBase
from gapless.engine.plan import Plan
from gapless.engine.query import Query, race
from gapless.engine.source import source
from gapless.journal.batch import TaskWriter, commit_batch
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.operators.aggregates import count
from gapless.operators.hopping_aggregate import NAMES
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import BadData, GaplessError, Misuse, SchemaError
from gapless.protocol.expr import lit
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.random_streams import Row
from tests.engine.oracles.running import batch_of

SEEDS = seeds(60)
FAULT_SEEDS_MAX = 60
"""Journals after which a fault counts as missed."""


# -- journals ---------------------------------------------------------------------------------


class Written(NamedTuple):
    """A journal, and the rows that it has taken."""

    disk: Disk
    layout: Layout
    taken: list[Row]


def random_journal(rng: random.Random, read: nodes.Source, rows: Sequence[Row]) -> Written:
    """The rows in a journal that has one column more than the source, in another order."""
    columns = [f.with_nullable(rng.random() < 0.5 or f.nullable) for f in read.schema.payload]
    columns.append(pa.field("more", pa.int8()))
    columns = rng.sample(columns, len(columns))
    schema = StreamSchema(pa.schema(columns), read.schema.time_unit)
    key = rng.choice((("k",), ("s", "k")))
    layout = Layout(schema, read.time, key, rng.choice((1, 2, 4)), rng.choice((0, 3, 15)))
    jitter = rng.choice((0, 0, 4, 30))
    arrived = sorted(rows, key=lambda row: row[0] + rng.uniform(0, jitter))
    parts = cut(rng, arrived)
    disk, taken = SimulatedDisk(), list(judged_by_the_rules(parts, layout.lateness))
    by_tasks = rng.choice((0, 0, 1, len(parts)))  # Spark's, then those of a program
    write_by_tasks(disk, layout, read, parts[:by_tasks])
    write(rng, disk, layout, read, parts[by_tasks:])
    return Written(disk, layout, taken)


def cut(rng: random.Random, rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Some of them empty."""
    at = sorted(rng.choices(range(len(rows) + 1), k=rng.choice((0, 1, 4, 15))))
    return [rows[a:b] for a, b in pairwise([0, *at, len(rows)])]


def judged_by_the_rules(parts: Sequence[Sequence[Row]], lateness: int) -> Iterator[Row]:
    watermark = BEGIN
    for rows in parts:
        kept = [row for row in rows if row[0] >= watermark]
        watermark = max([watermark, *(row[0] - lateness for row in kept)])
        yield from kept


def written_rows(layout: Layout, read: nodes.Source, rows: Sequence[Row]) -> pa.RecordBatch:
    batch = batch_of(read.schema, rows)
    batch = batch.append_column("more", pa.array([1] * len(rows), pa.int8()))
    columns = [batch.column(name) for name in layout.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema.payload)


def write_by_tasks(
    disk: Disk, layout: Layout, read: nodes.Source, parts: Sequence[Sequence[Row]]
) -> None:
    """Each batch sorted, in segments of one partition that promise for it alone."""
    if not parts:
        return
    epoch = Writer(disk, layout, who="spark", token="spark", now_ms=lambda: 0).epoch
    commits = Commits(disk, layout)
    for number, rows in enumerate(parts):
        commits.catch_up()
        task = TaskWriter(
            disk,
            layout,
            epoch,
            f"task{number}",
            commits.head.stable,
            batch=number,
            durable=False,
            by_partition=True,
            segment_bytes=1,
        )
        there = sorted(rows, key=lambda row: row[0])
        for some in (there[i : i + 3] for i in range(0, len(there), 3)):
            batch = written_rows(layout, read, some)
            task.add(batch, batch.column(read.time).cast(pa.int64()).to_numpy())
            task._write()  # a record each, where a real one has thousands of rows
        commit_batch(
            commits,
            epoch,
            "spark",
            [task.finish()],
            query="q",
            batch=number,
            now_ms=0,
            durable=False,
        )


def write(
    rng: random.Random,
    disk: Disk,
    layout: Layout,
    read: nodes.Source,
    parts: Sequence[Sequence[Row]],
) -> None:
    options = {"token": "w", "who": "w", "now_ms": lambda: 0}
    size = rng.choice((1, 3_000, 1 << 20))
    writer = Writer(disk, layout, segment_bytes=size, **options)  # type: ignore[arg-type]  # by name
    for rows in parts:
        writer.append(written_rows(layout, read, rows))
    if rng.random() < 0.4:
        writer.seal()
    if rng.random() < 0.2:
        writer.end()


# -- queries over them ------------------------------------------------------------------------


def with_lateness(root: nodes.Node, declared: Callable[[nodes.Source], Lateness]) -> nodes.Node:
    """The same query over sources that are declared otherwise."""
    made: dict[nodes.Node, nodes.Node] = {}
    for node in nodes.walk(root):
        if isinstance(node, nodes.Source):
            made[node] = replace(node, lateness=declared(node))
            continue
        changed: dict[str, Any] = {}
        for field in fields(node):
            value = getattr(node, field.name)
            if isinstance(value, tuple) and any(isinstance(v, NodeBase) for v in value):
                changed[field.name] = tuple(made[v] for v in value)
            elif isinstance(value, NodeBase):
                changed[field.name] = made[value]  # type: ignore[index]  # a Node is one of these
        made[node] = replace(node, **changed)
    return made[root]


def read_by(
    query: Query, journals: Mapping[str, Written], frame_rows: int, parts: Any = None
) -> dict[str, Iterator[Judged]]:
    inputs = {}
    for name, there in journals.items():
        read = query.sources[name]
        check_source(read, there.layout, name)
        reader = Reader(
            there.disk, partitions=parts, columns=read.schema.names, frame_rows=frame_rows
        )
        inputs[name] = judged_rows(read, frames_of(reader))
    return inputs


def frames_of(reader: Reader) -> Iterator[Frame]:
    while (frame := reader.read()) is not None:
        yield frame


def table(execution: Execution) -> Tdb:
    """What it puts out, to its end; raises where a row comes below what was promised."""
    folded = Tdb(execution.schema)
    for frame in execution:
        folded.fold(frame)
    assert folded.stable == INF
    return folded


def check_a_journal_is_the_rows_that_it_took(seed: int) -> None:
    rng = random.Random(f"journals {seed}")
    case = Case.draw(seed)
    journals = {
        name: random_journal(rng, read, case.rows[name])
        for name, read in case.query.sources.items()
    }
    bounds = {
        name: rng.choice((Watermarks(), TimeLate(max(1, there.layout.lateness))))
        for name, there in journals.items()
    }
    query = Query(with_lateness(case.query.root, lambda read: bounds[read.name]), "aside")
    how = rng.choice(NAMES)
    plain = Query(with_lateness(case.query.root, lambda _: Watermarks()), "aside")
    rows = {
        name: batch_of(plain.sources[name].schema, sorted(there.taken, key=lambda row: row[0]))
        for name, there in journals.items()
    }
    wanted = table(Execution(Plan(plain, how), rows))
    for frame_rows in (1, 7, 1 << 14):
        execution = Execution(Plan(query, how), read_by(query, journals, frame_rows))
        got = table(execution)
        assert got == wanted, f"seed {seed}, frames of {frame_rows}: {case.outline()}"
        assert execution.rows == {name: len(there.taken) for name, there in journals.items()}
        assert not any(execution.late.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_query_over_a_journal_is_that_over_the_rows_that_it_took(seed: int) -> None:
    check_a_journal_is_the_rows_that_it_took(seed)


def fails(check: Callable[[int], None]) -> bool:
    for seed in range(FAULT_SEEDS_MAX):
        try:
            check(seed)
        except (AssertionError, GaplessError):
            return True
    return False


def test_an_intake_that_judges_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Intake.take

    def judging(into: Intake, item: Any) -> Any:
        if not isinstance(item, Judged):
            yield from take(into, item)
            return
        yield from take(into, item.frame.payload)
        if item.frame.stable is not None:
            yield from take(into, Punctuation.of(**{into.source.time: item.frame.stable}))

    monkeypatch.setattr(Intake, "take", judging)
    assert fails(check_a_journal_is_the_rows_that_it_took)


# -- one verdict ------------------------------------------------------------------------------


def drawn_flows(seed: int) -> tuple[nodes.Source, Written]:
    """A source, and a journal of 200 rows for it."""
    rng = random.Random(f"flows {seed}")
    columns = {"ts": "int64", "k": "int32", "s": "string", "n": "int64"}
    root = source("flows", columns, time="ts", lateness=15).root
    assert isinstance(root, nodes.Source)
    rows = [(rng.randrange(400), rng.randrange(9), rng.choice("abc"), i) for i in range(200)]
    return root, random_journal(rng, root, rows)


@pytest.mark.parametrize("seed", range(20))
def test_all_readers_share_one_verdict(seed: int) -> None:
    """Whatever their frames; and what several have of some partitions each is what one has."""
    rng = random.Random(seed)
    read, there = drawn_flows(seed)
    query = Query(read)
    count = there.layout.partitions
    mine = rng.sample(range(count), rng.randint(1, count))
    theirs = [p for p in range(count) if p not in mine]
    seen: Counter[Any] = Counter()
    for parts in (mine, theirs):
        if parts:
            inputs = read_by(query, {"flows": there}, rng.choice((1, 5, 1000)), parts)
            execution = Execution(Plan(query), inputs)
            seen.update(e.payload for e in table(execution).events)
            assert execution.late == {"flows": 0}
    assert seen == Counter(there.taken)


def small_journal(layout: Layout, batches: Sequence[Sequence[Any]]) -> Written:
    disk = SimulatedDisk()
    writer = Writer(disk, layout, who="w", token="w", now_ms=lambda: 0)
    for times in batches:
        columns = [times, [0] * len(times)]
        writer.append(pa.record_batch(columns, schema=layout.schema.payload))
    return Written(disk, layout, [])


SMALL = {"ts": "int64", "k": "int32"}
BATCHES = [[7, 3], [12, 4], [55], [104, 103]]


def test_what_a_journal_promises_goes_on_at_once_thinned_to_what_is_read() -> None:
    there = small_journal(Layout(StreamSchema(SMALL), "ts", (), 1, 5), BATCHES)
    read = source("flows", SMALL, time="ts", lateness=5)
    hopping = read.window(50, 50).aggregate(n=count())
    for query, wanted in ((read, [2, 7, 50, 99, INF]), (hopping, [50, 100, INF])):
        execution = Execution(Plan(query), read_by(query, {"flows": there}, 2))
        assert [f.stable for f in execution if f.stable is not None] == wanted


def test_frames_of_a_users_own_are_refused() -> None:
    read, there = drawn_flows(1)
    frames = frames_of(Reader(there.disk, columns=read.schema.names))
    with pytest.raises(Misuse, match="nobody has judged which of its rows are late"):
        list(Execution(Plan(Query(read)), {"flows": frames}))


# -- which sources may read it ----------------------------------------------------------------

COLUMNS = {"ts": "timestamp[ms]", "src": "int32", "len": "int32"}
SECONDS = Layout(StreamSchema(COLUMNS), "ts", ("src",), 4, 5_000)
IN_ORDER = Layout(StreamSchema(COLUMNS), "ts", ("src",), 1, 0)


def flows(
    lateness: Any = None, columns: Any = None, time: str = "ts", unit: str | None = None
) -> nodes.Source:
    root = source("flows", columns or COLUMNS, time=time, lateness=lateness, time_unit=unit).root
    assert isinstance(root, nodes.Source)
    return root


@pytest.mark.parametrize(
    ("read", "journal"),
    [
        (flows(), SECONDS),
        (flows("5s"), SECONDS),
        (flows("1h"), SECONDS),
        (flows(watermarks()), SECONDS),
        (flows(columns={"src": "int32", "ts": "timestamp[ms]"}), SECONDS),
        (flows(1), IN_ORDER),
        (flows(columns=pa.schema([pa.field("ts", pa.timestamp("ms"), nullable=False)])), SECONDS),
    ],
)
def test_a_source_that_expects_no_less_reads_a_journal(read: nodes.Source, journal: Layout) -> None:
    check_source(read, journal, "journal 'data/flows'")


NEVER_NULL = pa.schema([("ts", pa.timestamp("ms")), pa.field("src", pa.int32(), nullable=False)])
TICKS = Layout(StreamSchema({"ts": "int64"}, "us"), "ts", (), 1, 7)
FRAMES = Layout(StreamSchema(COLUMNS))


@pytest.mark.parametrize(
    ("read", "journal", "error", "sentence"),
    [
        (flows("4999ms"), SECONDS, Misuse, r"lateness 4999 ms, and .* 5 s late; .*lateness='5s'"),
        (flows(0), SECONDS, Misuse, "declared in order, .* lateness is 5 s"),
        (flows(ordered()), IN_ORDER, Misuse, "declared in order, .* lateness is 0 ms"),
        (flows(k_late(0)), IN_ORDER, Misuse, "declared in order"),
        (flows(k_late(9)), SECONDS, Misuse, "at most 9 rows late; .* 5 s, is in time"),
        (flows(columns={"ts": "timestamp[ms]", "dst": "int32"}), SECONDS, SchemaError, "'dst' is "),
        (
            flows(columns={"ts": "timestamp[ms]", "src": "int64"}),
            SECONDS,
            SchemaError,
            "'src' was declared as int64, the journal has int32",
        ),
        (flows(columns=NEVER_NULL), SECONDS, SchemaError, "'src' was declared as never null"),
        (flows(columns={"len": "int64"}, time="len"), SECONDS, Misuse, "declare time='ts'"),
        (flows(columns={"ts": "int64"}), TICKS, Misuse, "in ms, the journal's in us"),
        (flows(), FRAMES, Misuse, "the frames that a merger delivered"),
    ],
)
def test_a_source_that_does_not_fit_is_refused_with_both_values(
    read: nodes.Source, journal: Layout, error: type[Misuse], sentence: str
) -> None:
    with pytest.raises(error, match=f"source flows over journal 'data/flows': .*{sentence}"):
        check_source(read, journal, "journal 'data/flows'")


def test_why_no_journal_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """LMerge would be run for streams in order. Not even one partition, lateness 0, is."""
    there = small_journal(Layout(StreamSchema(SMALL), "ts"), BATCHES)
    read = source("flows", SMALL, time="ts", lateness=ordered())
    query = race(read.select("k"), read.where(lit(True)).select("k"))
    assert query.properties.ordered
    with pytest.raises(Misuse, match="declared in order"):
        read_by(query, {"flows": there}, 1)
    monkeypatch.setattr(judged, "is_ordered", lambda _: False)
    with pytest.raises(BadData, match="takes inserts in order of vs"):
        list(Execution(Plan(query), read_by(query, {"flows": there}, 1)))
