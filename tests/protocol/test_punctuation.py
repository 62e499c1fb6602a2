from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.documents import pack, unpack
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.punctuation import CONDITIONS_MAX, Punctuation
from gapless.protocol.values import to_values
from tests.protocol.strategies import arrays, payload_types

DOMAIN = range(4)
SCHEMA = pa.schema([(name, pa.int64()) for name in "abgh"])
EVERY_ROW = [dict(zip("abgh", row, strict=True)) for row in itertools.product(DOMAIN, repeat=4)]
EVERY_BATCH = pa.RecordBatch.from_pylist(EVERY_ROW, SCHEMA)


def forbids(p: Punctuation, row: dict[str, Any]) -> bool:
    """The definition, in words of Python."""
    below = all(row[name] is not None and row[name] < t for name, t in p.bounds)
    return below and all(row[name] == value for name, value in p.group)


@st.composite
def punctuations(draw: st.DrawFn) -> Punctuation:
    bounds = draw(st.dictionaries(st.sampled_from("ab"), st.integers(1, 3)))
    group = draw(st.dictionaries(st.sampled_from("gh"), st.sampled_from(DOMAIN)))
    return Punctuation(tuple(bounds.items()), tuple(group.items()))


@given(punctuations())
def test_it_forbids_the_rows_that_satisfy_all_its_conditions(p: Punctuation) -> None:
    assert p.matches(EVERY_BATCH).tolist() == [forbids(p, row) for row in EVERY_ROW]


@given(punctuations(), punctuations())
def test_one_implies_another_exactly_when_it_forbids_all_that_the_other_does(
    p: Punctuation, q: Punctuation
) -> None:
    forbidden = q.matches(EVERY_BATCH)
    assert p.implies(q) == bool(p.matches(EVERY_BATCH)[forbidden].all())


@given(punctuations())
def test_as_stable_is_the_largest_time_below_which_nothing_comes(p: Punctuation) -> None:
    allowed = [row for row in EVERY_ROW if not forbids(p, row)]
    t = p.as_stable("a")
    if t is None:
        assert any(row["a"] == min(DOMAIN) for row in allowed)
    elif t == INF:
        assert not allowed
    else:
        assert min(row["a"] for row in allowed) == t


@given(punctuations())
def test_it_goes_through_a_document(p: Punctuation) -> None:
    assert Punctuation.from_document(unpack(pack(p.to_document()))) == p


def test_the_order_of_conditions_says_nothing() -> None:
    p = Punctuation((("b", 2), ("a", 1)), (("h", 1), ("g", 2)))
    assert p == Punctuation((("a", 1), ("b", 2)), (("g", 2), ("h", 1)))
    assert p == Punctuation.of({"g": 2, "h": 1}, a=1, b=2)
    assert hash(p) == hash(Punctuation.of({"h": 1, "g": 2}, b=2, a=1))
    assert str(p) == "no more (g = 2 and h = 1 and a < 1 and b < 2)"


def test_a_joint_punctuation_is_no_stable_and_one_of_a_group_neither() -> None:
    assert Punctuation.of(_vs=7).as_stable("_vs") == 7
    assert Punctuation.of(_vs=7, other=9).as_stable("_vs") is None
    assert Punctuation.of({"g": 1}, _vs=7).as_stable("_vs") is None
    assert Punctuation.of(other=7).as_stable("_vs") is None
    assert Punctuation.of().as_stable("_vs") == INF


def test_a_null_is_below_no_bound_and_equal_to_null() -> None:
    batch = pa.record_batch({"a": pa.array([None, 1], pa.int64()), "g": [None, "x"]})
    assert Punctuation.of(a=5).matches(batch).tolist() == [False, True]
    assert Punctuation.of({"g": None}).matches(batch).tolist() == [True, False]


@pytest.mark.parametrize(
    "t",
    [
        pa.int8(),
        pa.int32(),
        pa.date32(),
        pa.time64("ns"),
        pa.timestamp("s", "UTC"),
        pa.duration("s"),
    ],
    ids=str,
)
def test_bounds_count_the_ticks_of_any_time(t: pa.DataType) -> None:
    ticks = pa.array([1, 4, 5], pa.int8() if t.bit_width == 8 else f"int{t.bit_width}")
    batch = pa.record_batch([ticks.view(t)], ["a"])
    assert Punctuation.of(a=5).matches(batch).tolist() == [True, True, False]
    assert Punctuation.of(a=INF).matches(batch).tolist() == [True, True, True]


@given(st.data(), payload_types())
def test_a_group_is_compared_as_payloads_are_in_every_type(
    data: st.DataObject, t: pa.DataType
) -> None:
    array = data.draw(arrays(t))
    rows = to_values(array)
    value = data.draw(st.sampled_from([*rows, None]))
    p = Punctuation((), (("x", value),))
    batch = pa.record_batch([array], ["x"])
    assert p.matches(batch).tolist() == [(row,) == (value,) for row in rows]
    assert Punctuation.from_document(unpack(pack(p.to_document()))) == p


def test_nan_is_one_value() -> None:
    batch = pa.record_batch({"x": [math.nan, 1.0, None]})
    assert Punctuation((), (("x", -math.nan),)).matches(batch).tolist() == [True, False, False]
    assert Punctuation((), (("x", -math.nan),)) == Punctuation((), (("x", math.nan),))
    assert Punctuation((), (("x", -math.nan),)).implies(Punctuation((), (("x", math.nan),)))


MANY = CONDITIONS_MAX + 1
PAIRS = pa.record_batch({"x": [{"y": 5}]})
MISTAKES: dict[str, Callable[[], object]] = {
    "two bounds on one column": lambda: Punctuation((("a", 1), ("a", 2))),
    "a bound and a value on one column": lambda: Punctuation((("a", 1),), (("a", 2),)),
    "a bound below all times": lambda: Punctuation.of(a=BEGIN),
    "a bound above all times": lambda: Punctuation.of(a=INF + 1),
    "too many conditions": lambda: Punctuation(
        tuple((f"a{i}", 1) for i in range(CONDITIONS_MAX + 1))
    ),
    "an unknown attribute": lambda: Punctuation.of(z=5).matches(EVERY_BATCH),
    "an unknown group column": lambda: Punctuation.of({"z": 5}).matches(EVERY_BATCH),
    "a value of another type": lambda: Punctuation.of({"a": "x"}).matches(EVERY_BATCH),
    "a bound on strings": lambda: Punctuation.of(x=5).matches(pa.record_batch({"x": ["a"]})),
    "a bound on floats": lambda: Punctuation.of(x=5).matches(pa.record_batch({"x": [1.5]})),
    "a number for a struct": lambda: Punctuation.of({"x": 5}).matches(
        pa.record_batch({"x": [{"y": 5}]})
    ),
}


@pytest.mark.parametrize("make", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_the_callers(make: Callable[[], object]) -> None:
    with pytest.raises(Misuse, match="punctuation"):
        make()


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"bounds": []},
        {"bounds": [], "group": [], "more": 1},
        {"bounds": {}, "group": []},
        {"bounds": [["a"]], "group": []},
        {"bounds": [["a", "5"]], "group": []},
        {"bounds": [["a", True]], "group": []},
        {"bounds": [["a", BEGIN]], "group": []},
        {"bounds": [["a", 2**64 - 1]], "group": []},
        {"bounds": [["a", 1]], "group": [["a", 1]]},
        {"bounds": [], "group": [[1, 1]]},
        {"bounds": [], "group": [["a", {"decimal": "many"}]]},
        {"bounds": [], "group": [["a", {"decimal": "1e999999999"}]]},
        {"bounds": [], "group": [["a", {"decimal": "Infinity"}]]},
        {"bounds": [], "group": [["a", {"decimal": "1" * 200}]]},
        {"bounds": [], "group": [["a", [1]]]},
        {"bounds": [["a", 1]] * (CONDITIONS_MAX + 1), "group": []},
    ],
    ids=repr,
)
def test_a_document_that_is_no_punctuation_is_one_error(document: Any) -> None:
    with pytest.raises(DecodeError):
        Punctuation.from_document(document)
