"""Splice: what the old plan says before T, and the new one from T on, as one graph of both."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from gapless.engine import splice
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.engine.splice import SPLICES_MAX, Runnable, Splice, plans_of, spliced
from gapless.operators.aggregates.calls import count
from gapless.operators.clip import Clip
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse, StreamViolation
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.values import from_values

LATE = 5
ROWS = StreamSchema({"ts": "int64", "k": "int64", "n": "int64"})
Row = tuple[int, int, int]
Pushed = list[tuple[str, Frame]]
SEEDS = range(40)


def events(name: str = "a") -> Query:
    return source(name, {"ts": "int64", "k": "int64", "n": "int64"}, time="ts", lateness=LATE)


# -- queries, and the same in plain Python: rows in, events out ---------------------------------


def short(rows: list[Row]) -> list[Event]:
    return [Event((k, n), ts, ts + 7) for ts, k, n in rows if n > 1]


def long(rows: list[Row]) -> list[Event]:
    return [Event((k, n), ts, ts + 25) for ts, k, n in rows if n <= 3]


def latest(rows: list[Row]) -> list[Event]:
    """Told with adjusts: each row lives until its key's next one."""
    found = []
    for ts, k, n in rows:
        later = [t for t, other, _ in rows if other == k and t > ts]
        found.append(Event((k, n), ts, min(later, default=INF)))
    return found


QUERIES: dict[str, tuple[Callable[[list[Row]], list[Event]], Callable[[str], Query]]] = {
    "short": (short, lambda a: events(a).where(col("n") > 1).lifetime(duration=7).select("k", "n")),
    "long": (long, lambda a: events(a).where(col("n") <= 3).lifetime(duration=25).select("k", "n")),
    "latest": (latest, lambda a: events(a).latest_by("k").select("k", "n")),
}
BOUNDED = ("short", "long")


def plan(name: str, reads: str = "a") -> Plan:
    return Plan(QUERIES[name][1](reads))


def random_rows(rng: random.Random) -> list[Row]:
    """Times differ, so that `latest` has no ties to break."""
    return [(ts, rng.randint(0, 2), rng.randint(0, 5)) for ts in sorted(rng.sample(range(80), 30))]


def frames(rng: random.Random, rows: list[Row], name: str = "a") -> Pushed:
    """The rows out of order inside the lateness, with a stable now and then."""
    mixed = sorted(rows, key=lambda row: row[0] + rng.uniform(0, LATE))
    pushed: Pushed = []
    while mixed:
        size = rng.randint(1, 4)
        part, mixed = mixed[:size], mixed[size:]
        stable = min((row[0] for row in mixed), default=INF)
        pushed.append((name, frame(part, stable if rng.random() < 0.6 or not mixed else None)))
    return pushed


def frame(rows: list[Row], stable: int | None) -> Frame:
    times = np.array([row[0] for row in rows], np.int64)
    columns = [
        from_values([row[i] for row in rows], field.type) for i, field in enumerate(ROWS.payload)
    ]
    return Frame.from_columns(ROWS, times, times + 1, columns, stable=stable)


def table(graph: Graph, pushed: Pushed, out: Tdb | None = None) -> Tdb:
    """What comes out, legal at every step."""
    out = Tdb(graph.schema) if out is None else out
    for name, each in pushed:
        out.fold(graph.push(name, each))
        graph.validate()
    return out


def expected(old: str, new: str, rows: list[Row], at: int) -> Tdb:
    before = [Event(e.payload, e.vs, min(e.ve, at)) for e in QUERIES[old][0](rows) if e.vs < at]
    after = [Event(e.payload, max(e.vs, at), e.ve) for e in QUERIES[new][0](rows) if e.ve > at]
    return Tdb(plan(old).query.schema, [*before, *after])


def check_against_plain_python(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        rows, at = random_rows(rng), rng.randint(1, 90)
        old, new = rng.choice(list(QUERIES)), rng.choice(list(QUERIES))
        out = table(spliced(plan(old), plan(new), at), frames(rng, rows))
        wanted = expected(old, new, rows, at)
        assert out == wanted, f"seed {seed}, {old}, {new} at {at}: {out.difference(wanted)}"
        assert out.stable == INF


def test_the_old_answer_ends_where_the_new_one_begins() -> None:
    check_against_plain_python(range(120))


def test_the_plans_may_read_different_sources() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        rows, at = random_rows(rng), rng.randint(1, 90)
        mine, theirs = frames(rng, rows, "a"), frames(rng, rows, "b")
        graph = spliced(plan("short"), plan("latest", "b"), at)
        assert set(graph.sources) == {"a", "b"}
        assert table(graph, [*theirs, *mine]) == expected("short", "latest", rows, at)


def test_a_restored_splice_goes_on_the_same() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        rows, at = random_rows(rng), rng.randint(1, 90)
        told = frames(rng, rows)
        half = rng.randint(0, len(told))
        first, second = (spliced(plan("latest"), plan("long"), at) for _ in range(2))
        out = table(first, told[:half])
        second.restore(first.snapshot())
        assert table(second, told[half:], out) == expected("latest", "long", rows, at)


def test_a_start_at_its_reach_gives_all_that_is_wanted() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        rows, at, t = random_rows(rng), rng.randint(1, 90), rng.randint(0, 90)
        old, new = rng.choice(BOUNDED), rng.choice(BOUNDED)
        graph = spliced(plan(old), plan(new), at)
        first = t - graph.reach["a"]
        late = [(name, f.take(f.ve >= first, f.stable)) for name, f in frames(rng, rows)]
        graph.fast_forward(t)
        assert table(graph, late).since(t) == expected(old, new, rows, at).since(t)


def test_what_it_does_not_ask_for_any_more_is_not_missed() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        rows, at = random_rows(rng), rng.randint(1, 90)
        old, new = rng.choice(list(QUERIES)), rng.choice(list(QUERIES))
        graph = spliced(plan(old), plan(new), at)
        out, skipped, needed = Tdb(graph.schema), BEGIN, BEGIN
        for name, each in frames(rng, rows):
            if rng.random() < 0.3 and out.stable > BEGIN:
                skipped = min(out.stable, 90)
                needed = graph.fast_forward(skipped)["a"]
            table(graph, [(name, each.take(each.ve >= needed, each.stable))], out)
        assert out.since(skipped) == expected(old, new, rows, at).since(skipped)


def test_the_old_sources_are_of_no_use_once_the_change_is_behind() -> None:
    graph = spliced(plan("short"), plan("short", "b"), 50)
    assert graph.fast_forward(50)["a"] == 43
    assert graph.fast_forward(51)["a"] > 80


def test_a_changed_query_can_be_changed_again() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        rows = random_rows(rng)
        once = Splice(plan("short"), plan("long"), 30)
        twice = Splice(once, plan("latest"), 60)
        assert plans_of(twice) == (once.old, once.new, twice.new)
        before = expected("short", "long", rows, 30).events
        after = expected("short", "latest", rows, 60).events
        wanted = [Event(e.payload, e.vs, min(e.ve, 60)) for e in before if e.vs < 60]
        wanted += [e for e in after if e.vs >= 60]
        out = table(twice.compile(), frames(rng, rows))
        assert out == Tdb(out.schema, wanted)


def test_stables_are_thinned_to_what_both_plans_look_at() -> None:
    def counted(slide: int) -> Plan:
        return Plan(events().window(range=24, slide=slide).group_by("k").aggregate(n=count()))

    assert spliced(counted(6), counted(4), 48).grids == {"a": 2}


def test_a_splice_travels_as_a_document() -> None:
    rng = random.Random(1)
    rows = random_rows(rng)
    twice = Splice(Splice(plan("short"), plan("long"), 30), plan("latest"), 60)
    back = splice.runnable_from_document(twice.to_document())
    told = frames(rng, rows)
    assert isinstance(back, Splice)
    assert (back.at, back.depth) == (60, 2)
    assert table(back.compile(), told) == table(twice.compile(), told)
    alone = splice.runnable_from_document(plan("short").to_document())
    assert isinstance(alone, Plan)


def test_documents_that_are_no_splice_are_refused() -> None:
    good = Splice(plan("short"), plan("long"), 30).to_document()
    assert isinstance(good, dict)
    deep: Document = good
    for _ in range(SPLICES_MAX):
        deep = {**good, "old": deep}
    bad: list[Document] = [
        {**good, "at": INF},
        {**good, "at": "30"},
        {**good, "new": 1},
        {"at": 3},
        deep,
        None,
    ]
    for each in bad:
        with pytest.raises(DecodeError):
            splice.runnable_from_document(each)


def test_plans_that_do_not_fit_together_are_refused() -> None:
    other = Plan(events().select("k"))
    apart = Plan(
        source("a", {"k": "int64", "n": "int64", "ts": "int64"}, time="n").select("k", "n")
    )
    for new, why in ((other, "gives"), (apart, "source 'a'")):
        with pytest.raises(Misuse, match=why):
            spliced(plan("short"), new, 30)
    with pytest.raises(Misuse, match="finite time"):
        Splice(plan("short"), plan("long"), INF)
    found: Runnable = plan("short")
    for at in range(SPLICES_MAX):
        found = Splice(found, plan("long"), at)
    with pytest.raises(Misuse, match="start a new job"):
        Splice(found, plan("long"), SPLICES_MAX)


def test_a_splice_that_does_not_cut_the_old_answer_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Clip, "_before", lambda self, frame: frame.take(frame.vs < self._at))
    with pytest.raises((AssertionError, StreamViolation)):
        check_against_plain_python(SEEDS)
