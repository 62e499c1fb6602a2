"""Scatters by id: the kernel against its twin, exact sums, keys in order, and what is refused."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.kernels import twin_scatter
from gapless.kernels.scatter import HIGHEST, LOWEST, WORDS, keys_of, values_of, widen
from tests.kernels.conftest import NATIVE_MISSING, Kernel

SEEDS = st.integers(0, 2**32 - 1)
INTEGERS: list[np.dtype[Any]] = [
    np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)
]
FLOATS: list[np.dtype[Any]] = [np.dtype("f4"), np.dtype("f8")]
NUMBERS = INTEGERS + FLOATS
ROOM = 7

Array = npt.NDArray[Any]


@pytest.fixture(params=[pytest.param("native", marks=NATIVE_MISSING), "twin"], scope="session")
def scatter(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "twin":
        return twin_scatter
    from gapless.kernels import _native

    return _native


def some(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Numbers from all over a type, its ends and small ones among them."""
    if dtype.kind == "f":
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.5, -1.5, 1e-42], dtype)
        return rng.choice(np.append(special, rng.normal(size=5).astype(dtype)), count)
    ends = np.iinfo(dtype)
    near = [ends.min, ends.min + 1, ends.max - 1, ends.max, 0, 1, 2, 3]
    far = rng.integers(ends.min, ends.max, 6, dtype, endpoint=True)
    return rng.choice(np.append(np.array(near, dtype), far), count)


def some_ids(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.integers(0, ROOM, int(rng.integers(0, 40)))


def bits(array: Array) -> bytes:
    return array.tobytes()


@given(seed=SEEDS)
def test_differential_sums(native: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(4):
        ids, dtype = some_ids(rng), INTEGERS[rng.integers(len(INTEGERS))]
        values = some(rng, dtype, len(ids))
        if rng.random() < 0.5:
            values = np.where(np.abs(values.astype(np.float64)) < 100, values, dtype.type(1))
        acc = rng.choice(np.array([0, 5, -9, HIGHEST - 3, LOWEST + 3]), ROOM)
        wide = rng.integers(LOWEST, HIGHEST, (WORDS, ROOM), endpoint=True)
        other = rng.integers(LOWEST, HIGHEST, (WORDS, len(ids)), endpoint=True)
        sign, squared = bool(rng.integers(2)), bool(rng.integers(2))
        states = []
        for kernel in (native.raw, twin_scatter):
            a, b, c, w = acc.copy(), acc.copy(), acc.copy(), wide.copy()
            said = kernel.count_at(c, ids) if acc.max() < 100 else None
            fits = kernel.add_at(a, ids, values, sign), kernel.square_at(b, ids, values)
            kernel.add_wide_at(w, ids, values, squared)
            kernel.merge_wide_at(w, ids, other, sign)
            states.append((said, fits, bits(a), bits(b), bits(c), bits(w)))
        assert states[0] == states[1]


@given(seed=SEEDS)
def test_differential_float_sums(native: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids, dtype = some_ids(rng), FLOATS[rng.integers(2)]
    values = some(rng, dtype, len(ids))
    values = np.where(np.isnan(values), dtype.type(0), values)
    fast, slow = np.zeros((2, ROOM))
    sign = bool(rng.integers(2))
    with np.errstate(invalid="ignore"):
        assert native.raw.add_at(fast, ids, values, sign)
        assert twin_scatter.add_at(slow, ids, values, sign)
    np.testing.assert_array_equal(fast, slow)


@given(seed=SEEDS)
def test_differential_extremes(native: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids, dtype = some_ids(rng), NUMBERS[rng.integers(len(NUMBERS))]
    values, when = some(rng, dtype, len(ids)), rng.integers(-2, 3, len(ids))
    states = []
    for kernel in (native.raw, twin_scatter):
        low, high = np.full(ROOM, HIGHEST), np.full(ROOM, LOWEST)
        first, last = np.full((2, ROOM), HIGHEST), np.full((2, ROOM), LOWEST)
        met = kernel.min_at(low, ids, values), kernel.max_at(high, ids, values)
        kernel.first_at(first[0], first[1], ids, when, values)
        kernel.last_at(last[0], last[1], ids, when, values)
        states.append((met, bits(low), bits(high), bits(first), bits(last)))
    assert states[0] == states[1]


@given(seed=SEEDS)
def test_oracle_integer_sums(scatter: ModuleType, seed: int) -> None:
    """The sum in Python's integers, whether the narrow one holds it or the wide one has to."""
    rng = np.random.default_rng(seed)
    ids, dtype = some_ids(rng), INTEGERS[rng.integers(len(INTEGERS))]
    values = some(rng, dtype, len(ids))
    acc, squares = np.zeros((2, ROOM), np.int64)
    wide, wide_squares = np.zeros((2, WORDS, ROOM), np.int64)
    fits, squares_fit = scatter.add_at(acc, ids, values), scatter.square_at(squares, ids, values)
    scatter.add_wide_at(wide, ids, values)
    scatter.add_wide_at(wide_squares, ids, values, True)
    for i in range(ROOM):
        mine = [int(v) for v, at in zip(values, ids, strict=True) if at == i]
        assert whole(wide[:, i]) == sum(mine)
        assert whole(wide_squares[:, i]) == sum(v * v for v in mine)
        assert acc[i] == (sum(mine) if fits else 0)
        assert squares[i] == (sum(v * v for v in mine) if squares_fit else 0)


def whole(words: npt.NDArray[np.int64]) -> int:
    return int.from_bytes(words.astype("<i8").tobytes(), "little", signed=True)


@pytest.mark.parametrize("value", [0, 1, -1, HIGHEST, LOWEST])
def test_a_widened_sum_is_the_same_number(value: int) -> None:
    assert whole(widen(np.array([value]))[:, 0]) == value


def test_a_sum_that_leaves_int64_and_comes_back_changes_nothing_while_narrow(
    scatter: ModuleType,
) -> None:
    acc = np.array([HIGHEST - 1, 4])
    ids = np.array([1, 0, 0, 0])
    assert not scatter.add_at(acc, ids, np.array([9, 1, 1, -5]))
    assert acc.tolist() == [HIGHEST - 1, 4]
    assert scatter.add_at(acc, ids, np.array([9, 1, -1, -5]))
    assert acc.tolist() == [HIGHEST - 6, 13]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_keys_ascend_as_values_do_and_give_them_back(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "f":
        values = np.array([-np.inf, -1.5, -1e-40, 0.0, 1e-40, 2.5, np.inf, np.nan], dtype)
        assert keys_of(np.array([-0.0], dtype)) == keys_of(np.array([0.0], dtype))
        assert keys_of(np.array([-np.nan], dtype)) == keys_of(np.array([np.nan], dtype))
    else:
        ends = np.iinfo(dtype)
        values = np.array(sorted({ends.min, 0, 1, ends.max}), dtype)
    keys = keys_of(values)
    assert (np.diff(keys.astype(object)) > 0).all()
    np.testing.assert_array_equal(values_of(keys, dtype), values)
    assert values_of(keys, dtype).dtype == dtype


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_a_value_whose_key_stands_for_none_is_reported(scatter: ModuleType, dtype: str) -> None:
    ends = np.iinfo(dtype)
    for offer, end, other in (("min_at", ends.max, ends.min), ("max_at", ends.min, ends.max)):
        for value, reported in ((end, True), (other, False), (7, False)):
            acc = np.full(1, HIGHEST if offer == "min_at" else LOWEST)
            said = getattr(scatter, offer)(acc, np.array([0]), np.array([value], dtype))
            assert said is reported


CALLS: dict[str, tuple[Any, ...]] = {
    "count_at": (np.zeros(3, np.int64),),
    "add_at": (np.zeros(3, np.int64), np.ones(2, np.int16)),
    "square_at": (np.zeros(3, np.int64), np.ones(2, np.uint32)),
    "add_wide_at": (np.zeros((WORDS, 3), np.int64), np.ones(2, np.int64)),
    "merge_wide_at": (np.zeros((WORDS, 3), np.int64), np.ones((WORDS, 2), np.int64)),
    "min_at": (np.zeros(3, np.int64), np.full(2, -1.5)),
    "max_at": (np.zeros(3, np.int64), np.ones(2, np.uint8)),
    "first_at": (*np.zeros((2, 3), np.int64), np.full(2, -1), np.ones(2)),
    "last_at": (*np.zeros((2, 3), np.int64), np.ones(2, np.int64), np.ones(2)),
}
STATES = {"first_at": 2, "last_at": 2}


def split(name: str) -> tuple[list[Array], list[Array]]:
    """Copies of a call's state, and of what comes after its ids."""
    n = STATES.get(name, 1)
    arrays = [a.copy() for a in CALLS[name]]
    return arrays[:n], arrays[n:]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_right_changes_the_state(scatter: ModuleType, name: str) -> None:
    state, rest = split(name)
    getattr(scatter, name)(*state, np.array([0, 2]), *rest)
    assert any(a.any() for a in state)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("bad", [3, -1, 2**40, HIGHEST, LOWEST])
def test_an_id_beyond_the_state_is_refused(scatter: ModuleType, name: str, bad: int) -> None:
    state, rest = split(name)
    with pytest.raises(ValueError, match=f"{name}: an id has no place"):
        getattr(scatter, name)(*state, np.array([0, bad]), *rest)
    assert not any(a.any() for a in state)


@pytest.mark.parametrize("name", [n for n in CALLS if n != "count_at"])
def test_another_length_is_refused(scatter: ModuleType, name: str) -> None:
    state, rest = split(name)
    with pytest.raises(ValueError, match="the same length"):
        getattr(scatter, name)(*state, np.array([0, 1, 2]), *rest)
    assert not any(a.any() for a in state)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    "spoil",
    [lambda a: a.astype("S8"), lambda a: a.astype(np.bool_), lambda a: a[None], list],
    ids=["bytes", "bool", "another dimension", "a list"],
)
def test_another_type_is_refused(scatter: ModuleType, name: str, place: int, spoil: Any) -> None:
    state, rest = split(name)
    arguments = [*state, np.array([0, 2]), *rest]
    if place >= len(arguments):
        return
    arguments[place] = spoil(arguments[place])
    with pytest.raises(TypeError):
        getattr(scatter, name)(*arguments)
    assert not any(a.any() for a in state)


@pytest.mark.parametrize("name", ["square_at", "add_wide_at", "add_at"])
def test_an_integer_sum_takes_no_floats(scatter: ModuleType, name: str) -> None:
    state, _ = split(name)
    with pytest.raises(TypeError):
        getattr(scatter, name)(*state, np.array([0]), np.ones(1))
    with pytest.raises(TypeError):
        scatter.add_at(np.zeros(3), np.array([0]), np.ones(1, np.int64))


def test_a_wide_sum_has_three_words(scatter: ModuleType) -> None:
    two = np.zeros((2, 3), np.int64)
    with pytest.raises(ValueError, match="3 words"):
        scatter.add_wide_at(two, np.array([0]), np.ones(1, np.int64))
    with pytest.raises(ValueError, match="3 words"):
        scatter.merge_wide_at(np.zeros((3, 3), np.int64), np.arange(3), two)


def test_no_rows_change_nothing_even_where_there_is_no_room(scatter: ModuleType) -> None:
    none = np.empty(0, np.int64)
    scatter.count_at(none.copy(), none)
    assert scatter.add_at(none.copy(), none, none)
