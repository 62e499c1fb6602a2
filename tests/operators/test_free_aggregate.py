"""Aggregates over free lifetimes: at each instant, of the rows alive then, in normal form."""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators import per_snapshot
from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.distinct import CountDistinct
from gapless.operators.aggregates.extremes import First, Last, Min
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, Unanswerable
from gapless.operators.aggregates.sums import Mean, Sum
from gapless.operators.aside import Aside
from gapless.operators.free_aggregate import ENTRY_BYTES, FreeAggregate
from gapless.operators.pieces import Pieces, Rows, Spans, lay_out
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError, RowError, SchemaError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators.instants import (
    Alive,
    Relation,
    by_instant,
    frame_of,
    run,
    run_tight,
    run_with_snapshot,
    say,
    told,
)

SCHEMA = StreamSchema({"g": "string", "x": "int64", "at": "int64"})
"""Column `at` repeats a row's vs, so that an oracle that sees payloads alone knows it."""
LETTERS = StreamSchema({"g": "string"})


@dataclass(frozen=True)
class Listing(AggregateFunction):
    """A twin of all aggregates: all values with their times, as text. Holistic."""

    too_many: int = 1000
    """So many rows have no answer."""
    bounded = False
    differential = False
    name = "listing"
    columns = ("x",)
    sub = super_ = "all of them"

    def result(self, schema: pa.Schema) -> pa.DataType:
        return pa.string()

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        return _Listed(self.too_many)

    def to_document(self) -> Document:
        return ["listing"]


def listing(values: list[tuple[int, int]]) -> str:
    return " ".join(f"{x}@{t}" for t, x in sorted(values))


class _Listed(Accumulator):
    differential = False
    partial_schema = pa.schema([("all", pa.list_(pa.int64()))])

    def __init__(self, too_many: int) -> None:
        self._too_many = too_many
        self._values: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def fit(self, capacity: int) -> None:
        self._capacity = capacity

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        assert len(ids) == rows.num_rows == len(times)
        for i, x, t in zip(ids.tolist(), rows["x"].to_pylist(), times.tolist(), strict=True):
            assert i < self._capacity
            self._values[i].append((t, x))

    def take(self, ids: Ids) -> pa.RecordBatch:
        assert len(set(ids.tolist())) == len(ids)
        self._taken = [list(self._values[i]) for i in ids.tolist()]
        places = [[i] for i in range(len(ids))]  # stand for what was taken, until it is merged
        return pa.record_batch([pa.array(places)], schema=self.partial_schema)

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        assert len(set(ids.tolist())) == len(ids)
        assert max(ids.tolist()) < self._capacity
        for i, (place,) in zip(ids.tolist(), partial["all"].to_pylist(), strict=True):
            self._values[i] += self._taken[place]

    def clear(self, ids: Ids) -> None:
        for i in ids.tolist():
            self._values.pop(i, None)

    def results(self, ids: Ids) -> pa.Array:
        return pa.array([listing(self._values[i]) for i in ids.tolist()], pa.string())

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        mask = np.array([len(self._values[i]) >= self._too_many for i in ids.tolist()], np.bool_)
        return Unanswerable(mask, "too many") if mask.any() else None

    @property
    def nbytes(self) -> int:
        return 0

    def validate(self) -> None:
        """Nothing that could be wrong."""


def relation(group_by: tuple[str, ...], too_many: int = 1000) -> Relation:
    def answer(alive: list[Alive]) -> Alive:
        groups: defaultdict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
        for g, x, at in alive[0].elements():
            groups[(g,) if group_by else ()].append((at, x))
        return Counter(
            (*group, len(rows), sum(x for _, x in rows), listing(rows))
            for group, rows in groups.items()
            if len(rows) < too_many
        )

    return answer


def aggregate(
    group_by: tuple[str, ...] = ("g",), aside: Aside | None = None, too_many: int = 1000
) -> FreeAggregate:
    functions: list[tuple[str, AggregateFunction]] = [
        ("n", Count()),
        ("sum", Sum("x")),
        ("all", Listing(too_many)),
    ]
    return FreeAggregate(SCHEMA, group_by, functions, aside or Aside())


def counting() -> FreeAggregate:
    return FreeAggregate(LETTERS, ("g",), [("n", Count())], Aside())


def drawn(seed: int) -> tuple[random.Random, Tdb, tuple[str, ...]]:
    rng = random.Random(seed)
    payloads = [(g, x) for g in ("A", "B") for x in (1, 2, 30)]
    pairs = StreamSchema({"g": "string", "x": "int64"})
    tdb = random_tdb(rng, pairs, payloads, 20, 50, duplicates=bool(seed % 3))  # type: ignore[arg-type]  # a list of narrower tuples
    events = [Event((*e.payload, e.vs), e.vs, e.ve) for e in tdb.events]
    return rng, Tdb(SCHEMA, events), rng.choice(((), ("g",)))


def test_the_example_of_the_header() -> None:
    assert format(say(counting(), "ins(A,0,9) ins(A,4,9) stable(9)")) == (
        "ins((A,1),0,4) ins((A,2),4,9) stable(9)"
    )


def test_first_and_last_go_by_the_starts_of_the_rows_alive() -> None:
    functions = [("a", First("x")), ("z", Last("x")), ("min", Min("x")), ("mean", Mean("x"))]

    def answer(alive: list[Alive]) -> Alive:
        rows = sorted((at, x) for _, x, at in alive[0].elements())
        xs = [x for _, x in rows]
        return Counter([(xs[0], xs[-1], min(xs), sum(xs) / len(xs))] if rows else [])

    for seed in range(cases(30)):
        rng, tdb, _ = drawn(seed)
        out = run(FreeAggregate(SCHEMA, (), functions, Aside()), told([tdb], rng, seed))
        wanted = by_instant(answer, [tdb], out.schema)
        assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"


def test_sketches_and_lists_are_laid_out_in_parts_by_the_rows_alive() -> None:
    n = 5
    vs, ve = np.arange(n), np.full(n, 9)
    group = np.zeros(n, np.int64)
    for function, entries in (
        (Count(), [1] * n),
        (Mean("x"), [1] * n),
        (CountDistinct("x"), [2, 3, 4, 5, 6]),
        (CountDistinct("x", "hll", 12), [1 + 2**12 // ENTRY_BYTES] * n),
    ):
        operator = FreeAggregate(SCHEMA, (), [("n", function)], Aside())
        say(operator, " ".join(f"ins((A,1,{t}),{t},9)" for t in range(n)))
        _, events = operator._events.of(group[:1])
        pieces, spans, _ = lay_out(group[:1], group, events, vs, ve, BEGIN, 9)
        assert operator._entries(pieces, spans).tolist() == entries


def test_what_was_said_of_an_open_row_is_revised_when_it_ends() -> None:
    count = counting()
    assert format(say(count, "ins(A,0,inf) stable(5)")) == "ins((A,1),0,inf) stable(5)"
    assert format(say(count, "adj(A,0,inf,7) stable(6)")) == "adj((A,1),0,inf,7) stable(6)"
    assert format(say(count, "ins(A,6,9) stable(20)")) == (
        "adj((A,1),0,7,6) ins((A,2),6,7) ins((A,1),7,9) stable(20)"
    )
    assert len(count) == 0


def test_any_telling_of_a_table_gives_the_answers_at_each_instant_tightly() -> None:
    for seed in range(cases(50)):
        rng, tdb, group_by = drawn(seed)
        wanted = by_instant(relation(group_by), [tdb], aggregate(group_by).schema)
        for variant in range(2):
            steps = told([tdb], rng, 10 * seed + variant)
            out = run_tight(aggregate(group_by), relation(group_by), steps)
            assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"
            assert out.stable == INF


def test_work_that_is_cut_into_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(cases(20)):
        rng, tdb, group_by = drawn(seed)
        monkeypatch.setattr(per_snapshot, "ENTRIES_MAX", rng.choice((1, 4, 15)))
        out = run(aggregate(group_by), told([tdb], rng, seed))
        assert out == by_instant(relation(group_by), [tdb], out.schema), f"seed {seed}"


def test_answers_that_cannot_be_given_go_aside_the_same_ones_whatever_the_order() -> None:
    some = 0
    for seed in range(cases(25)):
        rng, tdb, group_by = drawn(seed)
        asides = []
        for variant in range(3):
            aside = Aside("aside")
            operator = aggregate(group_by, aside, too_many=4)
            out = run_tight(operator, relation(group_by, 4), told([tdb], rng, variant))
            assert out == by_instant(relation(group_by, 4), [tdb], out.schema), f"seed {seed}"
            taken = aside.take()
            assert {(s.where, s.reason) for s in taken} <= {("aggregate", "too many")}
            asides.append(sorted(str(row) for s in taken for row in s.rows.to_pylist()))
        assert asides[0] == asides[1] == asides[2], f"seed {seed}"
        some += len(asides[0])
    assert some > 20


def test_a_sum_beyond_int64_stops_a_query_that_says_so() -> None:
    schema = StreamSchema({"g": "string", "x": "int64"})
    total = FreeAggregate(schema, ("g",), [("sum", Sum("x"))], Aside())
    with pytest.raises(RowError, match="g='A'"):
        say(total, f"ins((A,{2**62}),0,9) ins((A,{2**62}),5,9) stable(10)")


def test_a_snapshot_at_any_frame_gives_the_same_output_from_then_on() -> None:
    for seed in range(cases(40)):
        rng, tdb, group_by = drawn(seed)
        steps, cut = told([tdb], rng, seed), rng.randint(0, 30)
        run_with_snapshot(lambda group_by=group_by: aggregate(group_by), steps, cut)  # type: ignore[misc]  # a default binds the loop's value


# -- marks ----------------------------------------------------------------------------------------

PAIRS = StreamSchema({"s0": "int64", "s1": "int64"})


def test_joint_punctuation_lets_a_group_out_before_the_stable_does() -> None:
    """Window-queries, figure 7-5: the count of a join by both times; bounds here are exclusive."""
    count = FreeAggregate(PAIRS, ("s0", "s1"), [("n", Count())], Aside())
    say(count, "ins((0,1),1,4) ins((0,1),2,4) ins((2,1),2,5) ins((0,3),3,9) stable(1)")
    mark = Punctuation.of(s0=2, s1=2)
    out = count.push(0, frame_of(PAIRS, ""), (mark,))
    count.validate()
    assert format(out.frame.elements()) == "ins((0,1,1),1,2) ins((0,1,2),2,4)"
    assert out.marks == (mark,)
    assert len(count) == 2
    assert format(say(count, "stable(20)")) == "ins((2,1,1),2,5) ins((0,3,1),3,9) stable(20)"


def test_marks_that_say_something_of_other_columns_close_nothing() -> None:
    count = FreeAggregate(PAIRS, ("s0",), [("n", Count())], Aside())
    marks = (Punctuation.of(s1=2), Punctuation.of({"s0": 0}, s1=9), Punctuation.of({"s0": 5}))
    out = count.push(0, frame_of(PAIRS, "ins((0,1),1,4)"), marks)
    assert len(out.frame) == 0
    assert out.marks == marks[2:]


def test_an_end_of_all_rows_closes_every_group() -> None:
    everything = FreeAggregate(LETTERS, (), [("n", Count())], Aside())
    out = everything.push(0, frame_of(LETTERS, "ins(A,1,4) ins(B,2,inf)"), (Punctuation.of(),))
    everything.validate()
    assert format(out.frame.elements()) == "ins(1,1,2) ins(1,4,inf) ins(2,2,4)"
    assert len(everything) == 0


def test_true_marks_change_no_table_and_let_all_of_their_group_out() -> None:
    for seed in range(cases(40)):
        rng, tdb, _ = drawn(seed)
        steps = told([tdb], rng, seed)
        operator, out = aggregate(), Tdb(aggregate().schema)
        wanted = by_instant(relation(("g",)), [tdb], operator.schema)
        for i, (_, frame) in enumerate(steps):
            later = {g for _, f in steps[i + 1 :] for g in f.batch["g"].to_pylist()}
            done = [g for g in ("A", "B") if g not in later and rng.random() < 0.5]
            marks = tuple(Punctuation.of({"g": g}) for g in done)
            given = operator.push(0, frame, marks)
            operator.validate()
            out.fold(given.frame)
            assert given.marks == marks
            for g in done:
                mine = [[e for e in t.events if e.payload[0] == g] for t in (out, wanted)]
                assert mine[0] == mine[1], f"seed {seed}"
        assert out == wanted, f"seed {seed}"


# -- starting in the middle -----------------------------------------------------------------------


def test_rows_that_ended_long_ago_decide_where_an_answer_starts() -> None:
    """Why it asks for everything (decision 9): without A the answer would start at 10."""
    count = FreeAggregate(LETTERS, (), [("n", Count())], Aside())
    assert count.reach == INF
    assert count.fast_forward(15) == BEGIN
    whole = say(count, "ins(A,0,10) ins(B,10,20) stable(30)")
    assert format(whole) == "ins(1,0,20) stable(30)"
    late = FreeAggregate(LETTERS, (), [("n", Count())], Aside())
    assert format(say(late, "ins(B,10,20) stable(30)")) == "ins(1,10,20) stable(30)"


def test_fast_forward_spares_only_what_is_not_wanted() -> None:
    spared = 0
    for seed in range(cases(40)):
        rng, tdb, group_by = drawn(seed)
        operator, skipped = aggregate(group_by), BEGIN
        out = Tdb(operator.schema)
        for source, frame in told([tdb], rng, seed):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(0, 60))
                assert operator.fast_forward(skipped) == BEGIN
            out.fold(operator.push(source, frame).frame)
            operator.validate()
        wanted = by_instant(relation(group_by), [tdb], operator.schema)
        assert out.since(skipped) == wanted.since(skipped), f"seed {seed}"
        spared += len(wanted) - len(out)
    assert spared > 0


# -- many rows ------------------------------------------------------------------------------------


def test_many_rows_alive_at_many_instants_are_counted_without_laying_out_all_pairs() -> None:
    n, life = 20_000, 15_000
    rng = np.random.default_rng(0)
    vs = rng.integers(0, 20_000, n)
    columns = [pa.array(["A"] * n), pa.array(np.arange(n)), pa.array(vs)]
    frame = Frame.from_columns(SCHEMA, vs, vs + life, columns, None, INF)
    operator = FreeAggregate(SCHEMA, (), [("n", Count()), ("sum", Sum("x"))], Aside())
    out = run(operator, [(0, frame)])
    for at in rng.integers(0, 35_000, 50).tolist():
        alive = ((vs <= at) & (at < vs + life)).nonzero()[0]
        wanted = {(len(alive), int(alive.sum())): 1} if len(alive) else {}
        assert out.snapshot(at) == wanted


def test_what_does_not_fit_is_known_when_it_is_made() -> None:
    with pytest.raises(SchemaError):
        FreeAggregate(SCHEMA, ("y",), [("n", Count())], Aside())
    with pytest.raises(SchemaError):
        FreeAggregate(SCHEMA, ("g",), [("g", Count())], Aside())
    with pytest.raises(SchemaError):
        FreeAggregate(SCHEMA, ("g",), [("n", Sum("y"))], Aside())


class HandsDownToOneChild(FreeAggregate):
    """Broken: the right half of what a row covers does not know of it."""

    def _accumulate(self, states: list[Accumulator], spans: Spans, pieces: int) -> Ids:
        shorter = Spans(spans.event, spans.first, np.maximum(spans.last - 1, spans.first))
        return super()._accumulate(states, shorter, pieces)


class CountsEqualsOnce(FreeAggregate):
    """Broken: equal rows are one row."""

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        self._events.count.values[spans.event] = 1
        return super()._answer(pieces, spans)


class PromisesMore(FreeAggregate):
    """Broken: takes what starts at the stable for final."""

    def _next_stable(self, source: int, stable: int | None) -> int | None:
        t = super()._next_stable(source, stable)
        return None if t is None else min(t + 1, INF)


@pytest.mark.parametrize("broken", [HandsDownToOneChild, CountsEqualsOnce, PromisesMore])
def test_the_checks_of_this_file_catch_a_broken_one(broken: type[FreeAggregate]) -> None:
    def caught(seed: int) -> bool:
        rng, tdb, _ = drawn(seed)
        operator = broken(
            SCHEMA, ("g",), [("n", Count()), ("sum", Sum("x")), ("all", Listing())], Aside()
        )
        try:
            out = run_tight(operator, relation(("g",)), told([tdb], rng, seed))
        except (GaplessError, AssertionError, ValueError):
            return True
        return out != by_instant(relation(("g",)), [tdb], out.schema)

    assert any(caught(seed) for seed in range(30))
