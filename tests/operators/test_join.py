"""Joins of all kinds against all pairs of events, however the inputs are told."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import join as join_module
from gapless.operators import join_keys, join_pairs, join_side, join_unmatched
from gapless.operators import memory as memory_module
from gapless.operators.aside import Aside
from gapless.operators.join import Join
from gapless.operators.join_changes import Changes
from gapless.operators.join_nulls import Revised
from gapless.operators.join_pairs import Pairs
from gapless.operators.join_side import Side
from gapless.operators.join_unmatched import Unmatched
from gapless.operators.memory import Memory
from gapless.operators.operator import Out
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import (
    DecodeError,
    ExpressionError,
    GaplessError,
    MemoryLimit,
    Misuse,
    RowError,
    SchemaError,
    StreamViolation,
)
from gapless.protocol.expr import Expr, col, lit
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws
from tests.operators.join_oracle import Oracle

LEFT = StreamSchema({"k": "string", "a": "int64"})
RIGHT = StreamSchema({"key": "string", "b": "int64"})
ON = [("k", "key")]
ROWS: list[tuple[object, ...]] = [(k, n) for k in ("x", "y", None) for n in (1, 2)]
HOWS = ("inner", "left", "right", "full")
Condition = tuple[Expr | None, Callable[[tuple[Any, ...]], bool]]
ALWAYS: Condition = (None, lambda _: True)
DIFFER: Condition = (col("a") != col("b"), lambda row: bool(row[1] != row[2]))


class Case:
    """Two tables, a way of telling them, and a join of them."""

    def __init__(self, seed: int, inserts: bool = False, how: str | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.how: Any = how or HOWS[seed % 4]
        self.where, self.holds = DIFFER if seed % 3 == 0 else ALWAYS
        self.final = (inserts and seed % 5 != 0, inserts and seed % 7 != 0)
        self.tables = [
            random_tdb(rng, schema, ROWS, 12, 40, duplicates=seed % 2 == 0)
            for schema in (LEFT, RIGHT)
        ]
        streams = [laws.tellings(t, seed * 9 + i, inserts) for i, t in enumerate(self.tables)]
        self.told = laws.woven(rng, *streams)
        self.oracle = Oracle(((0, 0),), self.how, self.holds)

    def make(self) -> Join:
        return Join(LEFT, RIGHT, ON, self.where, self.how, final_ends=self.final)

    @property
    def wanted(self) -> Tdb:
        left, right = self.tables
        return Tdb(self.make().schema, self.oracle.table(left, right).elements())


def check_each_push(case: Case, told: laws.Told) -> None:
    """After each push: the table is what all pairs say, the stable the least of the inputs'."""
    join = case.make()
    inputs, out = (Tdb(LEFT), Tdb(RIGHT)), Tdb(join.schema)
    for source, frame in told:
        inputs[source].fold(frame)
        laws.follow(join, out, source, frame)
        stables = inputs[0].stable, inputs[1].stable
        wanted = case.oracle.table(*inputs, stables)
        assert out.counts() == wanted, out.difference(Tdb(join.schema, wanted.elements()))
        assert out.stable == min(stables)
    assert len(join._sides[0].rows) == len(join._sides[1].rows) == 0


# -- against all pairs ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_oracle_each_push_gives_what_all_pairs_of_the_tables_say(how: str) -> None:
    for seed in range(cases(60)):
        case = Case(seed, how=how)
        check_each_push(case, case.told)
        if seed % 4 == 0:
            check_each_push(case, laws.recut(case.rng, case.told))


@pytest.mark.parametrize("how", HOWS)
def test_oracle_the_same_of_inserts_with_ends_that_are_final(how: str) -> None:
    for seed in range(cases(30)):
        case = Case(seed, inserts=True, how=how)
        check_each_push(case, case.told)


def test_oracle_several_columns_or_none_may_have_to_be_equal() -> None:
    both: Any
    for seed in range(cases(40)):
        rng = random.Random(seed)
        both = [("k", "key"), ("a", "b")] if seed % 2 else []
        tables = [random_tdb(rng, s, ROWS, 8, 30, duplicates=True) for s in (LEFT, RIGHT)]
        streams = [laws.tellings(t, seed * 9 + i) for i, t in enumerate(tables)]
        how: Any = rng.choice(HOWS)
        join = Join(LEFT, RIGHT, both, how=how)
        out = laws.runs(join, laws.woven(rng, *streams))
        on = tuple((i, i) for i in range(len(both)))
        assert out.counts() == Oracle(on, how).table(tables[0], tables[1])


def test_pairs_are_laid_out_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_side, "PAIRS_AT_ONCE_MAX", 2)
    for seed in range(cases(40)):
        case = Case(seed)
        check_each_push(case, case.told)


# -- bounds ---------------------------------------------------------------------------------------

WIDE = StreamSchema({"key": "string", "b": "int64", "text": "string"})


def of_one_key(schema: StreamSchema, rows: int, lives: int = 50, text: str = "") -> Frame:
    """Rows that are alive together for most of their lives."""
    vs = np.arange(rows)
    columns = [pa.array(["x"] * rows), pa.array(vs), pa.array([text] * rows)]
    names = schema.names
    payload = pa.RecordBatch.from_arrays(columns[: len(names)], schema=schema.payload)
    return Frame.from_columns(schema, vs, vs + lives, payload)


def largest_parts(join: Join, *pushes: tuple[int, Frame]) -> tuple[int, int, int]:
    """Of all parts that come: the most rows and the most bytes of one, and the rows of all."""
    parts = [out.frame for source, frame in pushes for out in join.parts(source, frame)]
    return (
        max(map(len, parts)),
        max(part.nbytes for part in parts),
        sum(map(len, parts)),
    )


@pytest.mark.parametrize("how", HOWS)
def test_what_one_frame_causes_comes_in_parts_of_bounded_rows(
    how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_pairs, "ANSWER_ROWS_MAX", 64)
    monkeypatch.setattr(join_side, "PAIRS_AT_ONCE_MAX", 100)
    join = Join(LEFT, RIGHT, ON, how=how)
    stored, comes = of_one_key(LEFT, 100, 500), of_one_key(RIGHT, 100, 500)
    most, _, rows = largest_parts(join, (0, stored), (1, comes))
    assert rows == 10_000
    assert most <= 64
    most, _, rows = largest_parts(join, (0, Frame.empty(LEFT, INF)), (1, Frame.empty(RIGHT, INF)))
    assert most <= 64


def test_wide_rows_come_in_parts_of_bounded_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "PART_BYTES_MAX", 50_000)
    pushes = (0, of_one_key(LEFT, 30)), (1, of_one_key(WIDE, 30, text="a text of some length" * 99))
    for given in (pushes, pushes[::-1]):
        rows_most, bytes_most, rows = largest_parts(Join(LEFT, WIDE, ON), *given)
        assert rows == 900
        assert rows_most < 50
        assert bytes_most < 1.5 * 50_000
    rows_most, _, _ = largest_parts(
        Join(LEFT, RIGHT, ON), (0, pushes[0][1]), (1, of_one_key(RIGHT, 30))
    )
    assert rows_most == 900


def test_no_more_pairs_are_laid_out_than_there_is_room_for() -> None:
    left, right = of_one_key(LEFT, 400, 1000), of_one_key(RIGHT, 400, 1000)
    unbounded = largest_parts(Join(LEFT, RIGHT, ON), (0, left), (1, right))
    join = Join(LEFT, RIGHT, ON)
    join.memory = Memory(500_000, [("join", join)])
    assert largest_parts(join, (0, left), (1, right))[2] == unbounded[2] == 160_000
    join = Join(LEFT, RIGHT, ON)
    join.memory = Memory(500_000, [("join", join)])
    most, _, _ = largest_parts(join, (0, left), (1, right))
    assert most < unbounded[0] / 4
    join = Join(LEFT, RIGHT, ON)
    join.memory = Memory(1000, [("join", join)])
    join.push(0, left)
    with pytest.raises(MemoryLimit, match="for pairs of rows that join"):
        next(join.parts(1, right))


def test_a_join_whose_output_is_read_part_by_part_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(join_pairs, "ANSWER_ROWS_MAX", 2)
    monkeypatch.setattr(join_unmatched, "ANSWER_ROWS_MAX", 1)
    monkeypatch.setattr(join_side, "PAIRS_AT_ONCE_MAX", 3)
    for seed in range(cases(40)):
        case = Case(seed)
        check_each_push(case, case.told)


def test_a_payload_that_is_nan_equals_itself() -> None:
    left, right = StreamSchema({"x": "float64"}), StreamSchema({"y": "float64"})
    join = Join(left, right, [("x", "y")])
    zeros = pa.array([float("nan"), -0.0])
    times = np.array([0, 0]), np.array([9, 9])
    join.push(0, Frame.from_columns(left, *times, [zeros]))
    joined = join.push(1, Frame.from_columns(right, *times, [pa.array([0.0, float("nan")])]))
    assert len(joined.frame) == 2


def test_inputs_may_have_columns_of_any_type() -> None:
    types = {
        "k": pa.dictionary(pa.int32(), pa.string()),
        "s": pa.struct([("x", pa.string_view()), ("y", pa.decimal128(9, 2))]),
        "v": pa.string_view(),
        "b": pa.bool_(),
    }
    schema = StreamSchema(pa.schema(list(types.items())))
    values = [[None, "x", "x"], [None, {"x": "long" * 9, "y": None}, None], ["v"] * 3, [True] * 3]
    keys = pa.array(values[0], pa.string()).dictionary_encode()
    others = zip(values[1:], list(types.values())[1:], strict=True)
    columns = [keys, *(pa.array(v, t) for v, t in others)]
    vs, ve = np.array([0, 0, 5]), np.array([9, 9, 9])
    join = Join(schema, schema, [("k", "k")], how="full")
    out = Tdb(join.schema)
    for source in (0, 1):
        frame = Frame.from_columns(schema, vs, ve, columns, stable=INF)
        laws.follow(join, out, source, frame)
    assert join.schema.names == ["k", "s", "v", "b", "s_right", "v_right", "b_right"]
    assert len(out) == 4 + 2  # pairs of x, and the rows without a key
    nulls = pa.array([None, "x"], pa.string())
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), nulls)
    frame = Frame.from_columns(
        schema, vs[:2], ve[:2], [hidden, *(c.slice(0, 2) for c in columns[1:])]
    )
    join = Join(schema, schema, [("k", "k")])
    join.push(0, frame)
    assert len(join.push(1, frame).frame) == 1  # a null inside the dictionary is a null


def dictionary(values: list[object], indices: list[int | None], t: pa.DataType) -> pa.Array:
    made = pa.array(values, pa.string() if pa.types.is_string_view(t) else t).cast(t)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), made)


LAYOUTS = {
    "dictionary of views": dictionary(["x", "y"], [0, 1, None, 0], pa.string_view()),
    "dictionary of views with a null": dictionary(["x", None], [0, 1, None, 0], pa.string_view()),
    "dictionary with a null": dictionary(["x", None], [0, 1, None, 0], pa.string()),
    "dictionary of floats": dictionary([float("nan"), None], [0, 1, None, 0], pa.float64()),
    "views": pa.array(["x", "y", None, "x"], pa.string_view()),
    "struct of dictionaries": pa.StructArray.from_arrays(
        [dictionary(["x", "y"], [0, 1, None, 0], pa.string())],
        fields=[pa.field("d", pa.dictionary(pa.int32(), pa.string()))],
        mask=pa.array([False, False, True, False]),
    ),
    "struct of structs of dictionaries of views": pa.StructArray.from_arrays(
        [
            pa.StructArray.from_arrays(
                [dictionary(["x", None], [0, 1, None, 0], pa.string_view())], names=["d"]
            )
        ],
        names=["s"],
    ),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_oracle_keys_and_payloads_may_lie_in_memory_in_any_way(layout: str, how: Any) -> None:
    values = LAYOUTS[layout]
    left = StreamSchema(pa.schema({"k": values.type, "p": values.type}))
    right = StreamSchema(pa.schema({"k": values.type, "q": values.type}))
    vs, ve = np.arange(4), np.array([9, 9, 9, 9])
    join = Join(left, right, [("k", "k")], how=how)
    inputs, out = (Tdb(left), Tdb(right)), Tdb(join.schema)
    given = [values, values]
    for source, schema in enumerate((left, right)):
        frame = Frame.from_columns(schema, vs, ve, given, stable=INF)
        inputs[source].fold(frame)
        laws.follow(join, out, source, frame)
    assert out.counts() == Oracle(((0, 0),), how).table(*inputs)


# -- one example at a time ------------------------------------------------------------------------


def say(join: Join, source: int, text: str) -> str:
    schema = (LEFT, RIGHT)[source]
    frame = Frame.from_elements(schema, parse(text, schema))
    return format(join.push(source, frame).frame.elements())


@pytest.mark.parametrize("ordered", [False, True])
def test_rows_of_nulls_have_dictionaries_too(ordered: bool) -> None:
    schema = StreamSchema({"k": "int64", "s": pa.dictionary(pa.int32(), pa.string(), ordered)})
    join = Join(schema, schema, [("k", "k")], how="full")
    for side, text in enumerate(("ins((1,a),5,9)", "ins((2,b),5,9)")):
        join.push(side, Frame.from_elements(schema, parse(text, schema)))
    outs = [join.push(side, Frame.empty(schema, INF)).frame for side in (0, 1)]
    said = [format([e]) for out in outs for e in out.elements()]
    assert sorted(said) == ["ins((1,a,null),5,9)", "ins((2,null,b),5,9)", "stable(inf)"]


def test_the_example_of_the_header() -> None:
    join = Join(LEFT, RIGHT, ON, how="left")
    assert say(join, 0, "ins((k,1),0,10) stable(12)") == ""
    assert say(join, 1, "ins((k,7),5,20)") == "ins((k,1,7),5,10)"
    assert say(join, 1, "stable(4)") == "ins((k,1,null),0,5) stable(4)"
    assert say(join, 1, "adj((k,7),5,20,9)") == "adj((k,1,7),5,10,9)"
    assert say(join, 1, "stable(30)") == "ins((k,1,null),9,10) stable(12)"


def test_a_known_null_row_is_cut_by_a_later_row() -> None:
    join = Join(LEFT, RIGHT, ON, how="left")
    say(join, 0, "ins((k,1),0,30) stable(40)")
    assert say(join, 1, "ins((k,7),4,9) ins((k,8),12,15) stable(10)") == (
        "ins((k,1,7),4,9) ins((k,1,8),12,15) ins((k,1,null),0,4) ins((k,1,null),9,12) stable(10)"
    )
    assert say(join, 1, "ins((k,9),11,13)") == "ins((k,1,9),11,13) adj((k,1,null),9,12,11)"


def test_both_sides_null_rows_have_the_key() -> None:
    join = Join(LEFT, RIGHT, ON, how="full")
    assert say(join, 0, "ins((l,1),0,5) ins((null,2),0,5) stable(9)") == ""
    out = say(join, 1, "ins((r,3),0,5) ins((null,4),0,5) stable(9)")
    assert sorted(out.split()) == [
        "ins((l,1,null),0,5)",
        "ins((null,2,null),0,5)",
        "ins((null,null,4),0,5)",
        "ins((r,null,3),0,5)",
        "stable(9)",
    ]


def test_of_two_equal_events_one_is_adjusted_or_both() -> None:
    join = Join(LEFT, RIGHT, ON)
    say(join, 1, "ins((k,7),0,50)")
    say(join, 0, "ins((k,1),0,9) ins((k,1),0,9)")
    assert say(join, 0, "adj((k,1),0,9,12)") == "adj((k,1,7),0,9,12)"
    say(join, 0, "adj((k,1),0,12,9)")
    assert say(join, 0, "adj((k,1),0,9,20) adj((k,1),0,9,0)") == (
        "adj((k,1,7),0,9,20) adj((k,1,7),0,9,0)"
    )


def test_steps_of_one_event_in_one_frame_come_out_as_one() -> None:
    join = Join(LEFT, RIGHT, ON)
    say(join, 1, "ins((k,7),0,50)")
    assert say(join, 0, "ins((k,1),0,9) adj((k,1),0,9,12) adj((k,1),0,12,30)") == (
        "ins((k,1,7),0,30)"
    )
    assert say(join, 0, "ins((k,2),0,9) adj((k,2),0,9,0)") == ""


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "wrong",
    [
        "adj((k,1),0,8,9)",
        "adj((k,1),1,9,10)",
        "adj((k,2),0,9,10)",
        "adj((j,1),0,9,10)",
        "ins((k,5),3,4) adj((k,1),0,9,10) adj((k,1),0,9,11)",
    ],
)
def test_an_adjust_of_what_is_not_there_is_refused_and_changes_nothing(
    how: Any, wrong: str
) -> None:
    join = Join(LEFT, RIGHT, ON, how=how)
    say(join, 1, "ins((k,7),0,50)")
    say(join, 0, "ins((k,1),0,9)")
    before = {name: batch.to_pylist() for name, batch in join.snapshot().items()}
    with pytest.raises(StreamViolation, match="an adjust changes an event that is there"):
        say(join, 0, wrong)
    join.validate()
    assert {name: batch.to_pylist() for name, batch in join.snapshot().items()} == before
    assert say(join, 0, "adj((k,1),0,9,10)") == "adj((k,1,7),0,9,10)"


def test_an_adjust_of_an_end_that_was_said_to_be_final_is_refused() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, False))
    say(join, 0, "ins((k,1),0,9)")
    with pytest.raises(StreamViolation, match="never change"):
        say(join, 0, "adj((k,1),0,9,10)")


# -- progress and state ---------------------------------------------------------------------------


def held(join: Join) -> tuple[int, int]:
    left, right = join._sides
    return len(left.rows), len(right.rows)


def test_a_row_goes_when_the_other_side_has_reached_its_end() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, True))
    say(join, 0, "ins((k,1),0,9)")
    say(join, 1, "stable(8)")
    assert held(join) == (1, 0)
    say(join, 1, "stable(9)")
    assert held(join) == (0, 0)


def test_a_row_whose_end_may_change_waits_for_its_own_input_too() -> None:
    join = Join(LEFT, RIGHT, ON)
    say(join, 0, "ins((k,1),0,9)")
    say(join, 1, "stable(50)")
    assert held(join) == (1, 0)
    say(join, 0, "stable(9)")
    assert held(join) == (1, 0)
    assert say(join, 0, "adj((k,1),0,9,60)") == ""
    say(join, 0, "stable(61)")
    assert held(join) == (1, 0)
    say(join, 1, "stable(60)")
    assert held(join) == (0, 0)


def test_a_row_that_can_meet_nobody_later_is_not_stored() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, True))
    say(join, 1, "ins((k,7),0,50) stable(20)")
    assert say(join, 0, "ins((k,1),5,20)") == "ins((k,1,7),5,20)"
    assert held(join) == (0, 1)
    assert say(join, 0, "ins((k,2),5,21)") == "ins((k,2,7),5,21)"
    assert held(join) == (1, 1)


def test_without_a_stable_of_both_inputs_nothing_is_promised() -> None:
    join = Join(LEFT, RIGHT, ON)
    assert say(join, 0, "stable(inf)") == ""
    assert say(join, 1, "stable(3)") == "stable(3)"
    assert say(join, 1, "stable(3)") == ""


def unending(rng: random.Random, n: int, revising: bool) -> Iterator[tuple[int, Frame]]:
    """Two streams of keys that never come again, with short lives."""
    for i in range(n):
        for source, schema in enumerate((LEFT, RIGHT)):
            vs = np.arange(10 * i, 10 * i + 10)
            ve = vs + np.array([rng.randint(1, 30) for _ in vs])
            names = [None if rng.random() < 0.1 else f"{i}-{j}" for j in range(10)]
            payload = [pa.array(names, pa.string()), pa.array([source] * 10)]
            stable = 10 * i - 5
            yield source, Frame.from_columns(schema, vs, ve, payload, stable=max(stable, 0))
            if revising:  # each lives one longer
                was, longer = np.maximum(ve, vs + 1), ve + 1
                yield source, Frame.from_columns(schema, vs, longer, payload, was)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("revising", [False, True])
def test_state_stays_flat_over_a_long_stream(
    how: Any, revising: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_keys, "KEYS_MIN", 50)
    monkeypatch.setattr(join_side, "STALE_MIN", 50)
    join = Join(LEFT, RIGHT, ON, how=how, final_ends=(not revising, not revising))
    sizes = []
    for i, (source, frame) in enumerate(unending(random.Random(1), 400, revising)):
        join.push(source, frame)
        if i % 50 == 0:
            join.validate()
        sizes.append(join.nbytes)
        assert sum(held(join)) <= 160
        assert len(join._keys) <= 4 * 160 + 50 + 20
    quarter = len(sizes) // 4
    assert max(sizes[-quarter:]) <= 1.2 * max(sizes[quarter : 2 * quarter])


def test_fast_forward_drops_what_gives_nothing_that_is_wanted() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, False))
    say(join, 0, "ins((k,1),0,9) ins((k,2),0,20)")
    say(join, 1, "ins((k,3),0,9) ins((k,4),0,20)")
    assert join.fast_forward(15) == 15
    assert held(join) == (1, 2)  # right ends may still move
    say(join, 0, "ins((k,5),1,14)")
    assert held(join) == (1, 2)
    outer = Join(LEFT, RIGHT, ON, how="left", longest=(5, 7))
    assert outer.fast_forward(15) == BEGIN
    assert (join.reach, outer.reach) == (0, 12)


# -- laws -----------------------------------------------------------------------------------------


def test_a_restored_join_goes_on_the_same() -> None:
    for seed in range(cases(60)):
        case = Case(seed, inserts=seed % 3 == 1)
        at = case.rng.randrange(len(case.told) + 1)
        laws.holds_that_a_restored_one_goes_on_the_same(case.make, case.told, at)


def test_skipping_ahead_spares_only_what_is_not_wanted() -> None:
    for seed in range(cases(60)):
        case = Case(seed, inserts=seed % 2 == 0)
        if case.how == "inner" or not all(f.insert_only for _, f in case.told):
            laws.holds_that_fast_forward_spares_only_what_ends_before(
                case.make, case.told, case.wanted, case.rng
            )


def test_a_start_at_reach_gives_all_that_is_wanted() -> None:
    for seed in range(cases(60)):
        case = Case(seed, inserts=True)
        longest: Any = tuple(
            max((e.ve - e.vs for e in t.events if e.ve < INF), default=1) for t in case.tables
        )
        endless = any(e.ve == INF for t in case.tables for e in t.events)
        if endless and case.how != "inner":
            continue

        def make(case: Case = case, longest: Any = longest) -> Join:
            return Join(LEFT, RIGHT, ON, case.where, case.how, longest=longest)

        laws.holds_that_a_start_at_reach_gives_all_that_is_wanted(
            make, case.told, case.wanted, case.rng.randrange(60)
        )


@pytest.mark.parametrize("name", ["facts", "left", "right"])
def test_a_snapshot_that_lacks_a_table_or_is_of_another_join_is_refused(name: str) -> None:
    state = dict(Join(LEFT, RIGHT, ON).snapshot())
    with pytest.raises(DecodeError):
        Join(LEFT, LEFT, [("k", "k")]).restore(state)
    del state[name]
    with pytest.raises(DecodeError):
        Join(LEFT, RIGHT, ON).restore(state)


def test_a_snapshot_with_a_lifetime_that_is_none_is_refused() -> None:
    join = Join(LEFT, RIGHT, ON, how="full")
    say(join, 0, "ins((k,1),0,9)")
    state = dict(join.snapshot())
    left = state["left"]
    for column, values in (("_ve", [0]), ("_settled", [10]), ("_settled", [-1])):
        at = left.schema.get_field_index(column)
        columns = [pa.array(values) if i == at else c for i, c in enumerate(left.columns)]
        broken = pa.RecordBatch.from_arrays(columns, schema=left.schema)
        with pytest.raises(DecodeError, match="lifetime"):
            Join(LEFT, RIGHT, ON, how="full").restore({**state, "left": broken})


# -- where ----------------------------------------------------------------------------------------


def divided(aside: Aside, how: Any = "inner") -> Join:
    return Join(LEFT, RIGHT, ON, (col("a") / col("b")) > lit(1.0), how, aside)


def test_pairs_that_cannot_be_judged_stop_the_query_and_change_nothing() -> None:
    join = divided(Aside())
    say(join, 0, "ins((k,4),0,9)")
    with pytest.raises(RowError, match=r"divide by zero.*k='k', a=4, b=0"):
        say(join, 1, "ins((k,2),0,9) ins((k,0),0,9)")
    join.validate()
    assert held(join) == (1, 0)
    assert say(join, 1, "ins((k,2),0,9)") == "ins((k,4,2),0,9)"


@pytest.mark.parametrize("how", HOWS)
def test_pairs_that_cannot_be_judged_go_aside_once_and_are_no_match(how: Any) -> None:
    aside = Aside("aside")
    join = divided(aside, how)
    out = Tdb(join.schema)
    inputs = Tdb(LEFT), Tdb(RIGHT)
    for source, text in (
        (0, "ins((k,4),0,9)"),
        (1, "ins((k,2),0,9) ins((k,0),0,9) stable(5)"),
        (1, "adj((k,0),0,9,8)"),
        (0, "adj((k,4),0,9,7) ins((k,9),6,9) stable(6)"),
        (0, "stable(inf)"),
        (1, "stable(inf)"),
    ):
        schema = (LEFT, RIGHT)[source]
        frame = Frame.from_elements(schema, parse(text, schema))
        inputs[source].fold(frame)
        laws.follow(join, out, source, frame)
    assert [s.rows.to_pylist() for s in aside.take()] == [
        [{"k": "k", "a": 4, "b": 0}],
        [{"k": "k", "a": 9, "b": 0}],
    ]
    oracle = Oracle(((0, 0),), how, lambda row: bool(row[2]) and row[1] / row[2] > 1)
    assert out.counts() == oracle.table(*inputs)


# -- band and tumbling joins are this over windowed inputs ----------------------------------------


def source_rows(rng: random.Random) -> list[tuple[str, int]]:
    return [(rng.choice("xy"), rng.randrange(60)) for _ in range(rng.randrange(1, 25))]


def windowed(schema: StreamSchema, rows: list[tuple[str, int]], lives: Any) -> Frame:
    ts = np.array([t for _, t in rows], np.int64)
    payload = [pa.array([k for k, _ in rows], pa.string()), pa.array(ts)]
    vs, ve = lives(ts)
    return Frame.from_columns(schema, vs, ve, payload)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (2, 5), (7, 0)])
def test_a_closed_band_is_the_overlap_of_lifetimes(x: int, y: int) -> None:
    """`a - x <= b <= a + y`: left rows live `[a, a+y+1)`, right ones `[b, b+x+1)`."""
    for seed in range(cases(30)):
        rng = random.Random(seed)
        left, right = source_rows(rng), source_rows(rng)
        join = Join(LEFT, RIGHT, ON)
        join.push(0, windowed(LEFT, left, lambda ts: (ts, ts + y + 1)))
        out = join.push(1, windowed(RIGHT, right, lambda ts: (ts, ts + x + 1))).frame.payload
        pairs = [(k, a, b) for k, a in left for key, b in right if k == key]
        wanted = [(k, a, b) for k, a, b in pairs if a - x <= b <= a + y]
        assert Counter(zip(*out.to_pydict().values(), strict=True)) == Counter(wanted)


def test_a_tumbling_join_pairs_rows_of_one_window() -> None:
    def lives(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = (ts // 8 + 1) * 8
        return start, start + 8

    for seed in range(cases(30)):
        rng = random.Random(seed)
        left, right = source_rows(rng), source_rows(rng)
        join = Join(LEFT, RIGHT, ON)
        join.push(0, windowed(LEFT, left, lives))
        out = join.push(1, windowed(RIGHT, right, lives)).frame.payload
        pairs = [(k, a, b) for k, a in left for key, b in right if k == key]
        wanted = [(k, a, b) for k, a, b in pairs if a // 8 == b // 8]
        assert Counter(zip(*out.to_pydict().values(), strict=True)) == Counter(wanted)


# -- what is refused when the query is built ------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kinds", "problem"),
    [
        (([("x", "key")],), SchemaError, "join on 'x': the left columns are k, a"),
        (([("k", "x")],), SchemaError, "join on 'x': the right columns are key, b"),
        (([("k", "key"), ("k", "b")],), SchemaError, "a left column comes twice"),
        (([("k", "b")],), SchemaError, "string and int64; cast one in a select"),
        ((ON, col("a") + col("b")), ExpressionError, "a condition gives bool"),
        ((ON, col("key") > lit("a")), ExpressionError, "no column 'key'"),
        ((ON, None, "outer"), Misuse, "use one of inner, left, right, full"),
    ],
)
def test_what_cannot_be_joined_is_refused_at_once(
    args: tuple[Any, ...], kinds: type[GaplessError], problem: str
) -> None:
    with pytest.raises(kinds, match=problem):
        Join(LEFT, RIGHT, *args)


def test_times_of_two_units_are_refused() -> None:
    with pytest.raises(SchemaError, match="ms on the left and in s on the right"):
        Join(LEFT, StreamSchema({"key": "string"}, "s"), ON)


def test_columns_have_names_of_their_own_and_are_null_where_a_side_is_missing() -> None:
    left = StreamSchema(pa.schema([pa.field(n, pa.int64(), False) for n in ("k", "a", "a_right")]))
    right = StreamSchema(pa.schema([pa.field(n, pa.int64(), False) for n in ("a", "q", "k")]))
    names = ["k", "a", "a_right", "a_right_right", "k_right"]
    how: Any
    for how, optional in (
        ("inner", ""),
        ("left", "a_right_right k_right"),
        ("right", "a a_right"),
        ("full", "a a_right a_right_right k_right"),
    ):
        schema = Join(left, right, [("k", "q")], how=how).schema
        assert schema.names == names
        assert [f.name for f in schema.payload if f.nullable] == optional.split()


# -- deliberately broken --------------------------------------------------------------------------


class NeverPurges(Join):
    def _purge(self) -> None:
        pass


class PurgesTooSoon(Join):
    def _bound(self, side: int) -> int:
        return super()._bound(side) + 1 if BEGIN not in self._stables else BEGIN


class PromisesTheMost(Join):
    @property
    def _stables(self) -> tuple[int, int]:
        return (max(super()._stables),) * 2


class ForgetsWhoWasMet(Join):
    def _settle(self, side: int, ids: np.ndarray) -> None:
        pass


class NeverRevisesNullRows(Unmatched):
    def revised_by(self, *_: Any) -> Iterator[Revised]:
        return iter(())


class TakesChangedOnesForStillThere(Unmatched):
    def revised_by(self, source: int, change: Any, *given: Any) -> Iterator[Revised]:
        return super().revised_by(source, (change[0][:0], *change[1:]), *given)


class IgnoresTheOtherSidesEnd(Join):
    def _satisfying(
        self, source: int, changes: Changes, pairs: Pairs, row_bytes: np.ndarray
    ) -> Pairs:
        ve = np.maximum(changes.ve[pairs.asked], pairs.vs)
        return super()._satisfying(source, changes, pairs._replace(ve=ve), row_bytes)


class MovesNoEnds(Side):
    def _move(self, ids: np.ndarray, ve: np.ndarray) -> None:
        pass


@pytest.mark.parametrize(
    "broken",
    [
        NeverPurges,
        PurgesTooSoon,
        PromisesTheMost,
        ForgetsWhoWasMet,
        NeverRevisesNullRows,
        TakesChangedOnesForStillThere,
        IgnoresTheOtherSidesEnd,
        MovesNoEnds,
    ],
)
def test_a_broken_join_is_caught(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if issubclass(broken, Side | Unmatched):
        monkeypatch.setattr(join_module, broken.__mro__[1].__name__, broken)
    else:

        def make(case: Case) -> Join:
            join: Join = broken(LEFT, RIGHT, ON, case.where, case.how, final_ends=case.final)
            return join

        monkeypatch.setattr(Case, "make", make)

    def check_some() -> None:
        for case in map(Case, range(400)):  # as far as it takes: removals that matter are rare
            check_each_push(case, case.told)

    with pytest.raises((AssertionError, GaplessError, IndexError, ValueError)):
        check_some()


def test_the_oracle_cuts_lifetimes_as_a_person_would() -> None:
    lives = [(1, 3, 8), (2, 2, 5), (3, 12, 14)]
    left = Tdb(LEFT, [Event(("k", 1), 0, 20)])
    right = Tdb(RIGHT, [Event(("k", n), vs, ve) for n, vs, ve in lives])
    alone = [(None, 0, 2), (None, 8, 12), (None, 14, 20)]
    table = Oracle(((0, 0),), "left").table(left, right)
    assert table == Counter(Event(("k", 1, n), vs, ve) for n, vs, ve in (*lives, *alone))


def test_what_is_pushed_has_to_be_of_the_inputs_schema() -> None:
    def push(source: int, schema: StreamSchema) -> Out:
        return Join(LEFT, RIGHT, ON).push(source, Frame.empty(schema))

    assert push(0, LEFT).marks == ()
    with pytest.raises(SchemaError):
        push(1, LEFT)
