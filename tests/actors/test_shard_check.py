"""Which queries may be cut into shards, judged by running them whole and cut."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.actors import shard_check
from gapless.actors.shard_check import check_shards
from gapless.chaos.sim.disk import SimulatedDisk
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.splice import Splice
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.sources import Sources
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.protocol.errors import GaplessError, Misuse
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

COLUMNS = {"ts": "int64", "src": "int32", "dst": "int32", "len": "int64"}
SCHEMA = StreamSchema(COLUMNS)
PARTITIONS = 5
SOURCES = ("flows", "others")
ROWS = 60


def layout(key: Sequence[str] = ("src",), partitions: int = PARTITIONS) -> Layout:
    return Layout(SCHEMA, "ts", tuple(key), partitions, 3)


LAYOUTS = {name: layout() for name in SOURCES}


def source(name: str = "flows") -> Query:
    return gl.source(name, COLUMNS, time="ts", time_unit="ms")


def windowed(name: str = "flows") -> Query:
    return source(name).window(range=10, slide=5)


# -- running --------------------------------------------------------------------------------------


def journal(seed: int) -> Disk:
    """Few values of each column, so that rows meet."""
    rng = random.Random(seed)
    disk = SimulatedDisk()
    writer = Writer(disk, layout(), who="test", token="t", now_ms=lambda: 0)
    for start in range(0, ROWS, 20):
        ts = [start + i - rng.randint(0, 2) for i in range(20)]
        values = [[rng.randint(0, 3) for _ in ts] for _ in range(3)]
        columns = [pa.array(c, f.type) for c, f in zip([ts, *values], SCHEMA.payload, strict=True)]
        writer.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.payload))
    writer.end()
    return disk


def events(
    query: Query, disks: dict[str, Disk], partitions: Sequence[int] | None
) -> Counter[Event]:
    """The table that a replica makes of these partitions."""
    executor = Executor("plan", Plan(query))
    read = {name: disks[name] for name in executor.sources}
    sources = Sources(read, executor.sources, partitions)
    sources.open(None, {})
    table = Tdb(executor.schema)
    left = list(executor.sources)
    while left:
        for name in tuple(left):
            frame, _ = sources.read(name)
            if frame is None:
                left.remove(name)
            else:
                table.fold(executor.push(name, frame))
    return table.counts()


def sharded(query: Query, disks: dict[str, Disk], shards: int) -> Counter[Event]:
    total: Counter[Event] = Counter()
    for shard in range(shards):
        total += events(query, disks, range(shard, PARTITIONS, shards))
    return total


# -- queries --------------------------------------------------------------------------------------


def some(rng: random.Random, names: Sequence[str]) -> list[str]:
    return [name for name in names if rng.random() < 0.55] or [rng.choice(names)]


def rows_of(rng: random.Random, name: str) -> Query:
    """A source, its columns maybe under other names or lost."""
    query = source(name)
    if rng.random() < 0.5:
        query = query.where(gl.col("len") > 0)
    one = query.select(
        a=gl.col(rng.choice(("src", "src", "dst"))),
        b=gl.col("dst") if rng.random() < 0.6 else gl.col("src") % 2,
        c=gl.col(rng.choice(("src", "len"))),
    )
    return one.window(range=10, slide=5) if rng.random() < 0.6 else one.lifetime(duration=7)


def step(rng: random.Random, query: Query) -> Query:
    names = query.schema.names
    match rng.randint(0, 7):
        case 0 | 1:
            return query.group_by(*some(rng, names)).aggregate(n=gl.count())
        case 2:
            return query.select(*some(rng, names)).distinct()
        case 3:
            by = rng.choice(names)
            return query.top_k(1, by=by, within=some(rng, names))
        case 4:
            other = rows_of(rng, "others")
            on = [(n, n) for n in some(rng, [n for n in names if n in other.schema.names] or ["a"])]
            return query.join(other, on=on, how=rng.choice(("inner", "left", "right", "full")))
        case 5:
            return query.union(rows_of(rng, "others"))
        case 6:
            return query.difference(rows_of(rng, "others"))
    return query.normalise()


def random_query(seed: int) -> Query | None:
    rng = random.Random(seed)
    query = rows_of(rng, "flows")
    try:
        for _ in range(rng.randint(1, 3)):
            query = step(rng, query)
        Plan(query).compile()
    except GaplessError:
        return None  # no query: columns that do not fit, windows over what has none
    return query


def passes(query: Query, shards: int = 2) -> bool:
    try:
        check_shards(Plan(query), LAYOUTS, shards)
    except Misuse:
        return False
    return True


# -- what is promised -----------------------------------------------------------------------------


@given(st.integers(0, 1 << 32), st.integers(2, 3))
def test_oracle_shards_that_pass_the_check_give_the_answer_of_the_whole(
    seed: int, shards: int
) -> None:
    query = random_query(seed)
    if query is None or not passes(query, shards):
        return
    disks = {name: journal(seed % 5 + i) for i, name in enumerate(SOURCES)}
    assert sharded(query, disks, shards) == events(query, disks, None), query


def test_the_family_has_queries_of_every_step_on_both_sides_of_the_check() -> None:
    found: Counter[tuple[str, bool]] = Counter()
    for seed in range(600):
        if (query := random_query(seed)) is not None:
            found[type(query.root).__name__, passes(query)] += 1
    kinds = {kind for kind, _ in found}
    assert kinds >= {"Aggregate", "Distinct", "TopK", "Join", "Union", "Difference", "Normalise"}
    assert all(found[kind, True] >= 1 for kind in kinds), found
    assert all(found[kind, False] >= 1 for kind in kinds), found


@pytest.mark.parametrize("rule", ["_within", "_whole", "_joined", "_subtracted", "_renamed"])
def test_a_check_without_one_of_its_rules_lets_wrong_answers_pass(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lets_pass(self: Any, node: Any, *_: Any) -> shard_check.Held:
        held: shard_check.Held = self._held[node.inputs[0]]
        if rule == "_renamed":  # takes whatever is computed of the key for the key
            return tuple(
                frozenset(n for n, c in node.columns if isinstance(c, gl.Expr) and c.columns & h)
                for h in held
            )
        return held

    sound = {seed for seed in range(400) if (q := random_query(seed)) is not None and passes(q)}
    monkeypatch.setattr(shard_check._Walk, rule, lets_pass)
    disks = {name: journal(i) for i, name in enumerate(SOURCES)}
    for seed in range(400):
        query = random_query(seed)
        if query is None or seed in sound or not passes(query):
            continue
        if sharded(query, disks, 2) != events(query, disks, None):
            return
    pytest.fail(f"without {rule} nothing goes wrong: the rule, or this family, is idle")


# -- what is said ---------------------------------------------------------------------------------


def refused(query: Query, layouts: dict[str, Layout] | None = None, shards: int = 2) -> str:
    with pytest.raises(Misuse) as caught:
        check_shards(Plan(query), LAYOUTS if layouts is None else layouts, shards)
    return str(caught.value)


def test_one_shard_takes_every_query() -> None:
    check_shards(Plan(windowed().aggregate(n=gl.count())), {"flows": layout((), 1)}, 1)


def test_an_aggregate_without_the_key_is_named_with_what_to_do() -> None:
    query = windowed().group_by("dst").aggregate(packets=gl.count())
    said = refused(query)
    assert "aggregate packets by (dst)" in said
    assert "group by src as well" in said
    assert "shards=1" in said


def test_a_key_that_was_not_declared_is_asked_for() -> None:
    narrow = gl.source("flows", {"ts": "int64", "dst": "int32"}, time="ts", time_unit="ms")
    query = narrow.window(range=10, slide=5).group_by("dst").aggregate(n=gl.count())
    assert "declare src at the source" in refused(query)
    check_shards(Plan(narrow.where(gl.col("dst") > 0)), LAYOUTS, 2)  # row by row needs no key


def test_a_key_of_two_columns_has_to_be_there_whole() -> None:
    layouts = {"flows": layout(("src", "dst"))}
    half = windowed().group_by("src").aggregate(n=gl.count())
    assert "group by dst as well" in refused(half, layouts)
    check_shards(Plan(windowed().group_by("dst", "src").aggregate(n=gl.count())), layouts, 2)


def test_a_session_is_of_the_key() -> None:
    def sessions(*partition_by: str) -> Query:
        window = source().window(session=5, partition_by=partition_by)
        return window.group_by("src").aggregate(n=gl.count())

    check_shards(Plan(sessions("src", "dst")), LAYOUTS, 2)
    assert "put partition_by= src as well" in refused(sessions("dst"))


def test_the_first_row_is_of_the_key() -> None:
    check_shards(Plan(source().dedupe("src", "dst", within=5)), LAYOUTS, 2)
    assert "dedupe dst" in refused(source().dedupe("dst", within=5))


def test_a_join_pairs_the_keys_of_both_sides_under_whatever_names() -> None:
    layouts = {"flows": layout(("src",)), "others": layout(("dst",))}
    query = windowed().join(windowed("others"), on=[("src", "dst")])
    check_shards(Plan(query), layouts, 2)
    assert "join on src = src" in refused(windowed().join(windowed("others"), on="src"), layouts)


def test_after_a_full_join_only_the_columns_of_on_still_hold_the_key() -> None:
    twice = windowed().select("src", same=gl.col("src"))
    query = twice.join(windowed("others"), on="src", how="full")
    check_shards(Plan(query.select("src").distinct()), LAYOUTS, 2)
    assert "distinct" in refused(query.select("same").distinct())


def test_sources_that_are_partitioned_otherwise_are_refused() -> None:
    query = windowed().join(windowed("others"), on="src")
    odd = {"flows": layout(), "others": layout(partitions=4)}
    assert "5 partitions, that of others 4" in refused(query, odd)
    wide = {"flows": layout(), "others": layout(("src", "dst"))}
    assert "partitioned by (src), that of others by (src, dst)" in refused(query, wide)
    assert "each shard reads one at least" in refused(query, shards=6)


def test_both_parts_of_a_query_that_changes_are_looked_at() -> None:
    good = windowed().group_by("src").aggregate(n=gl.count())
    bad = (
        windowed().group_by("dst").aggregate(n=gl.count()).select(src=gl.col("dst"), n=gl.col("n"))
    )
    with pytest.raises(Misuse, match="by \\(dst\\)"):
        check_shards(Splice(Plan(good), Plan(bad), 100), LAYOUTS, 2)
