"""Top-k: at each instant the k best rows of each group, in an order that leaves nothing open."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators import per_snapshot, rank_order
from gapless.operators.aside import Aside
from gapless.operators.pieces import Spans
from gapless.operators.rank_keys import RankKey, asc, desc, rank_keys
from gapless.operators.rank_order import places_of_values
from gapless.operators.top_k import TopK
from gapless.protocol.elements import INF, Payload
from gapless.protocol.errors import ExpressionError, GaplessError, Misuse, RowError, SchemaError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format, parse
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

SCHEMA = StreamSchema({"g": "string", "x": "float64"})
VALUES: tuple[float | None, ...] = (1.0, 2.0, 2.5, -7.0, 0.0, math.inf, math.nan, None)
PAYLOADS: list[Payload] = [(g, x) for g in ("A", "B") for x in VALUES]


def text_first(payload: Payload) -> tuple[object, ...]:
    """The fixed order of payloads: by column, NaN after numbers, null last."""
    g, x = payload
    return g, x is None, x is not None and x != x, 0.0 if x is None or x != x else x


def best(k: int, largest: bool, within: Sequence[str]) -> Relation:
    def order(payload: Payload) -> tuple[object, ...]:
        x = payload[1]
        if x is None or x != x:
            return x is None, x is None or x != x, 0.0, text_first(payload)
        return False, False, -x if largest else x, text_first(payload)

    def relation(alive: list[Alive]) -> Alive:
        kept: Alive = Counter()
        groups = {p[0] for p in alive[0]} if within else {None}
        for g in groups:
            rows = [p for p in alive[0].elements() if g is None or p[0] == g]
            kept.update(sorted(rows, key=order)[:k])
        return kept

    return relation


def top(k: int = 2, largest: bool = True, within: Sequence[str] = ("g",)) -> TopK:
    return TopK(SCHEMA, k, (RankKey(col("x"), largest),), within, Aside())


def drawn(seed: int) -> tuple[random.Random, Tdb, tuple[int, bool, tuple[str, ...]]]:
    rng = random.Random(seed)
    payloads = rng.sample(PAYLOADS, rng.choice((3, 8, 16)))
    tdb = random_tdb(rng, SCHEMA, payloads, 25, 50, duplicates=bool(seed % 3))
    return rng, tdb, (rng.choice((1, 2, 5)), rng.random() < 0.5, rng.choice(((), ("g",))))


def test_the_example_of_the_header() -> None:
    assert format(say(top(1), "ins((A,5.0),0,9) ins((A,7.0),2,4) stable(9)")) == (
        "ins((A,5.0),0,2) ins((A,7.0),2,4) ins((A,5.0),4,9) stable(9)"
    )


def test_any_telling_of_a_table_gives_the_best_rows_at_each_instant_tightly() -> None:
    for seed in range(cases(50)):
        rng, tdb, how = drawn(seed)
        wanted = by_instant(best(*how), [tdb], SCHEMA)
        for variant in range(2):
            out = run_tight(top(*how), best(*how), told([tdb], rng, 10 * seed + variant))
            assert out == wanted, f"seed {seed}\n{out.difference(wanted)}"
            assert out.stable == INF


def test_nan_comes_after_numbers_and_null_last_in_both_directions() -> None:
    rows = "ins((A,1.0),0,9) ins((A,nan),0,9) ins((A,null),0,9) ins((A,2.0),0,9) stable(9)"
    for largest in (True, False):
        for k, left in ((2, {1.0, 2.0}), (3, {1.0, 2.0, math.nan}), (4, set(VALUES))):
            out = run(top(k, largest), [(0, frame_of(SCHEMA, rows))])
            assert {e.payload[1] for e in out.events} <= left
            assert len(out) == k


def test_rows_of_one_value_go_by_the_next_key() -> None:
    keys = (asc("g", nulls="first"), desc("x", nulls="first"))
    rows = (
        "ins((A,1.0),0,9) ins((A,null),0,9) ins((B,2.0),0,9) ins((A,2.0),0,9) ins((null,0.0),0,9)"
    )
    best = [(None, 0.0), ("A", None), ("A", 2.0), ("A", 1.0), ("B", 2.0)]
    for k in range(1, 6):
        out = run(TopK(SCHEMA, k, keys, (), Aside()), [(0, frame_of(SCHEMA, f"{rows} stable(9)"))])
        assert {e.payload for e in out.events} == set(best[:k])


def test_keys_say_what_they_take() -> None:
    with pytest.raises(Misuse, match=r"they come .first. or .last."):
        desc("x", nulls="front")
    with pytest.raises(Misuse, match="a column's name or an expression"):
        asc(3)  # type: ignore[arg-type]  # on purpose
    for by in ([], None, [3], [col("x")] * 65):
        with pytest.raises(Misuse, match="top by"):
            rank_keys("top", by, True)  # type: ignore[arg-type]  # on purpose


def test_ties_go_to_the_smallest_payload_and_equal_rows_count_each() -> None:
    rows = "ins((B,1.0),0,9) ins((A,1.0),0,9) ins((A,1.0),0,9) ins((C,1.0),0,9) stable(9)"
    for largest in (True, False):
        out = run(top(2, largest, within=()), [(0, frame_of(SCHEMA, rows))])
        assert [e.payload for e in out.events] == [("A", 1.0)] * 2


def test_rows_that_cannot_be_ranked_go_aside_with_every_adjust_of_theirs() -> None:
    schema = StreamSchema({"n": "int64"})
    aside = Aside("aside")
    operator = TopK(schema, 1, (RankKey(col("n") * 2, True),), (), aside)
    assert format(say(operator, f"ins({2**62},0,5) ins(3,1,4) adj({2**62},0,5,9) stable(10)")) == (
        "ins(3,1,4) stable(10)"
    )
    assert aside.count == 2
    with pytest.raises(RowError):
        say(TopK(schema, 1, (RankKey(col("n") * 2, True),), (), Aside()), f"ins({2**62},0,5)")


@pytest.mark.parametrize(
    ("name", "best_first"),
    [
        ("string_view", ["c", "b", "a", None]),
        ("bool", [True, False, None]),
        ("float16", [np.float16(2), np.float16(-1), np.float16(np.nan), None]),
        (pa.dictionary(pa.int32(), pa.string()), ["b", "a"]),
        (pa.dictionary(pa.int32(), pa.float64()), [2.0, -1.0, math.nan, None]),
        (pa.dictionary(pa.int32(), pa.string_view()), ["b", "a", None]),
        (pa.timestamp("ms"), [3, 1, None]),
        (pa.decimal64(9, 2), [Decimal(3), Decimal(-1), None]),
    ],
)
def test_values_of_every_type_with_an_order_can_be_ranked(
    name: pa.DataType | str, best_first: list[object]
) -> None:
    schema = StreamSchema({"v": name})
    t = schema.payload.field(0).type
    if pa.types.is_dictionary(t):
        plain = pa.array(best_first).dictionary_encode()
        kept = plain.dictionary.cast(t.value_type)
        values = pa.DictionaryArray.from_arrays(plain.indices.cast(t.index_type), kept)
    else:
        values = pa.array(best_first).cast(t)
    for largest in (True, False):
        nulls = [v for v in values if not v.is_valid or v.as_py() != v.as_py()]
        numbers = [v for v in values if v.is_valid and v.as_py() == v.as_py()]
        order = (numbers if largest else numbers[::-1]) + nulls
        for k in range(1, len(order) + 1):
            operator = TopK(schema, k, (RankKey(col("v"), largest),), (), Aside())
            n = len(values)
            times = np.zeros(n, np.int64)
            frame = Frame.from_columns(schema, times, times + 5, [values], None, 9)
            out = operator.push(0, frame).frame
            kept = out.payload.column(0)
            assert sorted(map(str, kept)) == sorted(map(str, order[:k]))


def test_what_cannot_be_ranked_is_known_when_it_is_made() -> None:
    struct = StreamSchema({"s": pa.struct([("a", pa.int64())])})
    with pytest.raises(ExpressionError, match="have no order"):
        TopK(struct, 1, (RankKey(col("s"), True),), (), Aside())
    with pytest.raises(SchemaError, match="no column 'y'"):
        top(within=("y",))
    with pytest.raises(Misuse):
        top(0)
    with pytest.raises(GaplessError):
        TopK(SCHEMA, 1, (RankKey(col("y"), True),), (), Aside())


def test_a_mark_closes_the_groups_that_it_names_and_goes_on() -> None:
    operator = top(1)
    say(operator, "ins((A,5.0),0,9) ins((A,7.0),12,14) ins((B,1.0),0,9) stable(1)")
    mark, other = Punctuation.of({"g": "A"}), Punctuation.of({"x": 5.0})
    out = operator.push(0, frame_of(SCHEMA, ""), (mark, other))
    operator.validate()
    assert format(out.frame.elements()) == "ins((A,7.0),12,14)"
    assert out.marks == (mark,)
    assert len(operator) == 1


def test_a_snapshot_at_any_frame_gives_the_same_output_from_then_on() -> None:
    for seed in range(cases(40)):
        rng, tdb, how = drawn(seed)
        steps = told([tdb], rng, seed)
        run_with_snapshot(lambda how=how: top(*how), steps, rng.randint(0, len(steps)))  # type: ignore[misc]  # a default binds the loop's value


def test_work_that_is_cut_into_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(cases(20)):
        rng, tdb, how = drawn(seed)
        monkeypatch.setattr(per_snapshot, "ENTRIES_MAX", rng.choice((1, 3, 10)))
        out = run(top(*how), told([tdb], rng, seed))
        assert out == by_instant(best(*how), [tdb], SCHEMA)


def test_of_many_rows_alive_at_many_instants_the_best_are_found() -> None:
    rng = np.random.default_rng(0)
    vs = rng.integers(0, 20_000, 10_000)
    x = rng.permutation(10_000).astype(float)
    columns = [pa.array(["A"] * 10_000), pa.array(x)]
    frame = Frame.from_columns(SCHEMA, vs, vs + 15_000, columns, None, INF)
    out = run(top(3), [(0, frame)])
    for at in rng.integers(0, 35_000, 50).tolist():
        alive = x[(vs <= at) & (at < vs + 15_000)]
        assert sorted(p[1] for p in out.snapshot(at)) == sorted(alive)[-3:]


class RanksByArrival(TopK):
    """Broken: ties go to the first."""

    def _ranking(self, spans: Spans) -> Ids:
        rows = self._events.payloads.rows(self._events.payload.values[spans.event])
        return np.argsort(places_of_values(rows.column(1), largest=True), kind="stable")


class CountsEqualsOnce(TopK):
    """Broken: equal rows are one row."""

    def _copies_of(self, spans: Spans) -> Ids:
        return np.ones(len(spans.event), np.int64)


def nulls_first(values: pa.Array, largest: bool, _: bool) -> Ids:
    """Broken: turns the whole order round."""
    places = places_of_values(values, largest)
    nothing = np.asarray(values.is_null())
    return np.where(nothing, -1, places) if largest else places


@pytest.mark.parametrize("broken", [RanksByArrival, CountsEqualsOnce, nulls_first])
def test_the_checks_of_this_file_catch_a_broken_one(
    broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken is nulls_first:
        monkeypatch.setattr(rank_order, "places_of_values", nulls_first)
        broken = TopK

    def caught(seed: int) -> bool:
        rng, tdb, how = drawn(seed)
        k, largest, within = how
        operator = broken(SCHEMA, k, (RankKey(col("x"), largest),), within, Aside())
        try:
            return run(operator, told([tdb], rng, seed)) != by_instant(best(*how), [tdb], SCHEMA)
        except (GaplessError, AssertionError, ValueError):
            return True

    assert any(caught(seed) for seed in range(40))


class Foreign:
    """A user's function that takes no more than one row at once, and finds all of them equal."""

    is_foreign = True

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        if batch.num_rows > 1:
            raise ValueError("one at a time")
        return pa.array([None])

    def type(self, schema: pa.Schema) -> pa.DataType:
        return pa.float64()


def test_a_function_that_ranks_rows_in_parts_only_ranks_them_whenever_it_is_asked() -> None:
    key = RankKey(Foreign(), True)  # type: ignore[arg-type]  # answers like an expression
    ranked = TopK(SCHEMA, 1, (key,), (), Aside("aside"))
    rows = "ins((A,1.0),1,9) ins((B,2.0),1,9) stable(inf)"
    frame = Frame.from_elements(SCHEMA, parse(rows, SCHEMA))
    assert format(ranked.push(0, frame).frame.elements()) == "ins((A,1.0),1,9) stable(inf)"
