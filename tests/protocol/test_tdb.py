import random

import pytest

from gapless.protocol.elements import INF, Element, Insert
from gapless.protocol.errors import SchemaError, StreamViolation
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Freeze, Tdb, freeze
from gapless.protocol.text import DEFAULT_SCHEMA, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases


def table(text: str) -> Tdb:
    tdb = Tdb(DEFAULT_SCHEMA)
    for frame in frames_of(DEFAULT_SCHEMA, parse(text)):
        tdb.fold(frame)
    return tdb


def test_adjusts_move_the_end_as_example_3_of_the_paper_says() -> None:
    assert table("ins(A,6,20) adj(A,6,20,30) adj(A,6,30,25)") == table("ins(A,6,25)")


def test_the_two_streams_of_table_2_describe_one_table() -> None:
    phy1 = "ins(B,8,inf) ins(A,6,12) adj(B,8,inf,10) stable(11) stable(inf)"
    phy2 = "ins(A,6,7) ins(B,8,15) adj(A,6,7,12) adj(B,8,15,10) stable(inf)"
    assert table(phy1) == table(phy2)
    assert table(phy1).events == [Event(("A",), 6, 12), Event(("B",), 8, 10)]


def test_an_adjust_to_its_start_removes_the_event() -> None:
    assert len(table("ins(A,6,20) adj(A,6,20,6)")) == 0


def test_equal_events_count() -> None:
    assert table("ins(A,6,20) ins(A,6,20)") != table("ins(A,6,20)")
    assert len(table("ins(A,6,20) ins(A,6,20)")) == 2


@pytest.mark.parametrize(
    ("stream", "element"),
    [
        ("stable(11) ins(A,10,20)", "ins(A,10,20)"),
        ("ins(A,6,20) stable(11) adj(A,6,20,10)", "adj(A,6,20,10)"),
        ("ins(A,6,10) stable(11) adj(A,6,10,20)", "adj(A,6,10,20)"),
        ("ins(A,6,20) stable(11) adj(A,6,20,6)", "adj(A,6,20,6)"),
        ("stable(11) stable(10)", "stable(10)"),
        ("adj(A,6,20,30)", "adj(A,6,20,30)"),
        ("ins(A,6,20) adj(A,6,21,30)", "adj(A,6,21,30)"),
        ("ins(A,6,20) adj(A,7,20,30)", "adj(A,7,20,30)"),
        ("ins(A,6,20) adj(B,6,20,30)", "adj(B,6,20,30)"),
        ("stable(inf) ins(A,6,20)", "ins(A,6,20)"),
        ("ins(A,6,20) stable(inf) adj(A,6,20,inf)", "adj(A,6,20,inf)"),
    ],
)
def test_a_broken_promise_is_refused_with_its_element(stream: str, element: str) -> None:
    with pytest.raises(StreamViolation) as caught:
        table(stream)
    assert caught.value.element == element


def test_a_stable_is_exclusive() -> None:
    kept = table("ins(A,6,20) stable(11) ins(B,11,12) adj(A,6,20,11) stable(11)")
    assert kept.events == [Event(("A",), 6, 11), Event(("B",), 11, 12)]


def test_a_refused_frame_leaves_the_table_as_it_was() -> None:
    tdb = table("ins(A,6,20) stable(5)")
    bad = Frame.from_elements(
        DEFAULT_SCHEMA, parse("ins(B,7,8) adj(A,6,20,30) adj(A,6,20,40) stable(9)")
    )
    with pytest.raises(StreamViolation):
        tdb.fold(bad)
    assert tdb == table("ins(A,6,20)")
    assert tdb.stable == 5


def test_a_frame_of_another_schema_is_refused() -> None:
    other = StreamSchema({"p": "int64"})
    with pytest.raises(SchemaError):
        Tdb(DEFAULT_SCHEMA).fold(Frame.empty(other))


@pytest.mark.parametrize(
    ("vs", "ve", "stable", "status"),
    [
        (6, 20, 6, Freeze.UNFROZEN),
        (6, 20, 7, Freeze.HALF),
        (6, 20, 20, Freeze.HALF),
        (6, 20, 21, Freeze.FULL),
        (6, INF, INF - 1, Freeze.HALF),
        (6, INF, INF, Freeze.FULL),
    ],
)
def test_freezing_is_strict_at_the_end(vs: int, ve: int, stable: int, status: Freeze) -> None:
    assert freeze(vs, ve, stable) is status


def test_the_difference_names_what_each_side_has_alone() -> None:
    left, right = table("ins(A,6,20) ins(A,6,20) ins(B,1,2)"), table("ins(A,6,21) ins(B,1,2)")
    assert left.difference(right) == "only left:  <A, [6,20)> x2\nonly right: <A, [6,21)>"
    assert left.difference(left) == ""


def test_a_long_difference_says_how_much_it_leaves_out() -> None:
    left = Tdb(DEFAULT_SCHEMA, (Event(("A",), i, i + 1) for i in range(25)))
    assert left.difference(Tdb(DEFAULT_SCHEMA)).endswith("only left:  ... 5 more")


def test_frozen_since_and_snapshot_agree_with_a_scan() -> None:
    for seed in range(cases(30)):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, [("A",), ("B",)], duplicates=True)
        t = rng.randrange(70)
        assert tdb.frozen(t).events == [e for e in tdb.events if e.ve < t]
        assert tdb.since(t).events == [e for e in tdb.events if e.ve >= t]
        alive = sorted(e.payload for e in tdb.events if e.vs <= t < e.ve)
        assert sorted(tdb.snapshot(t).elements()) == alive


def test_a_table_survives_its_own_frame() -> None:
    tdb = table("ins(A,6,20) ins(A,6,20) ins(B,1,inf) stable(5)")
    again = Tdb(DEFAULT_SCHEMA)
    frame = tdb.to_frame()
    again.fold(frame.with_stable(None))
    assert again == tdb
    assert frame.stable == 5


def test_payloads_with_nan_and_signed_zero_are_the_same_payload() -> None:
    schema = StreamSchema({"x": "float64"})
    first: list[Element] = [Insert((float("nan"),), 1, 2), Insert((-0.0,), 1, 2)]
    second: list[Element] = [Insert((-float("nan"),), 1, 2), Insert((0.0,), 1, 2)]
    left, right = Tdb(schema), Tdb(schema)
    left.fold(Frame.from_elements(schema, first))
    right.fold(Frame.from_elements(schema, second))
    assert left == right
