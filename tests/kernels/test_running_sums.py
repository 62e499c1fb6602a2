"""What running sums promise: the native ones against their twin, which adds up every range."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.kernels.twin_running_sums import RunningSums as Twin
from tests.kernels.conftest import NATIVE_MISSING

Make = Callable[[int], Any]


def _native() -> Any:
    from gapless.kernels.native_running_sums import RunningSums

    return RunningSums


@pytest.fixture(params=[pytest.param("native", marks=NATIVE_MISSING), "twin"])
def make(request: pytest.FixtureRequest) -> Make:
    return Twin if request.param == "twin" else _native()


def test_a_range_has_the_cells_from_its_first_place_to_below_its_last(make: Make) -> None:
    sums = make(2)
    assert sums.add([3, 3, 3, 4], [2, 5, 9, 5], [[4, 1, 6, 8], [1, 1, 1, 1]])
    found = sums.sums([3, 3, 3, 3, 4, 7], [3, 0, 2, 6, 5, 0], [10, 9, 3, 9, 6, 9])
    assert found.tolist() == [[7, 5, 4, 0, 8, 0], [2, 2, 1, 0, 1, 0]]
    sums.validate()


def test_a_cell_at_the_last_place_joins_the_one_there(make: Make) -> None:
    sums = make(1)
    sums.add([0], [2], [[4]])
    sums.add([0, 0], [2, 3], [[5, -1]])
    assert [column.tolist() for column in sums.cells()] == [[0, 0], [2, 3], [[9, -1]]]
    assert len(sums) == 2


def test_what_is_dropped_is_in_no_range_and_its_memory_comes_back(make: Make) -> None:
    sums = make(1)
    empty = sums.nbytes
    n = 3_000
    sums.add(np.arange(n) // 1_000, np.arange(n) % 1_000, [np.ones(n, np.int64)])
    full = sums.nbytes
    sums.drop([1], [990])
    assert sums.sums([0, 1], [0, 0], [1_000, 1_000]).tolist() == [[1_000, 10]]
    sums.drop_before(995)
    assert sums.sums([0, 1, 2], [0, 0, 0], [n, n, n]).tolist() == [[5, 5, 5]]
    sums.validate()
    assert sums.nbytes < full / 4
    sums.drop_before(1_000)
    assert (len(sums), sums.has([0, 1, 2, 9, -1]).tolist()) == (0, [False] * 5)
    assert sums.nbytes <= empty + 1_000
    sums.validate()


def test_what_leaves_int64_is_said_and_what_only_does_so_on_the_way_is_right(make: Make) -> None:
    most = 2**63 - 1
    sums = make(1)
    assert sums.add([0, 0, 0], [1, 2, 3], [[most, most, -most]])
    assert sums.sums([0], [1], [3]) is None
    assert sums.sums([0], [1], [4]).tolist() == [[most]]
    assert not sums.add([0, 1], [3, 0], [[-2, 5]])
    assert (len(sums), sums.has([1]).tolist()) == (3, [False])
    sums.validate()


@pytest.mark.parametrize(
    ("ids", "places", "message"),
    [
        ([2, 1], [9, 9], "ids are out of order"),
        ([1, 1], [9, 9], "places are out of order"),
        ([1], [6], "a place lies before the last one of its id"),
        ([0, -1], [9, 9], "id -1 is not one of a KeyTable"),
        ([1], [-(2**63)], "the least place is none"),
        ([1], [9, 10], "same length"),
    ],
)
def test_a_bad_add_is_an_error_that_changes_nothing(
    make: Make, ids: list[int], places: list[int], message: str
) -> None:
    sums = make(1)
    sums.add([1], [7], [[5]])
    with pytest.raises(ValueError, match=message):
        sums.add(ids, places, [[1] * len(ids)])
    assert [column.tolist() for column in sums.cells()] == [[1], [7], [[5]]]
    sums.validate()


VALUES = st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62)])


@pytest.mark.skipif(find_spec("gapless.kernels._native") is None, reason="no native kernel here")
@given(st.data())
@settings(max_examples=40)
def test_differential_with_the_twin(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 3))
    native: Any = _native()(columns)
    twin: Any = Twin(columns)
    place = dict.fromkeys(range(3), 0)
    for _ in range(data.draw(st.integers(1, 8))):
        cells = []
        for key in sorted(data.draw(st.sets(st.integers(0, 2)))):
            place[key] += data.draw(st.integers(0, 2))
            for _ in range(data.draw(st.integers(1, 30))):
                row = data.draw(st.lists(VALUES, min_size=columns, max_size=columns))
                cells.append((key, place[key], *row))
                place[key] += data.draw(st.integers(1, 2))
        table = np.array(cells, np.int64).reshape(-1, 2 + columns).T
        added = [sums.add(table[0], table[1], table[2:]) for sums in (native, twin)]
        assert added[0] == added[1]
        place = {key: last + 1 for key, last in place.items()}
        if data.draw(st.booleans()):
            key, before = data.draw(st.integers(0, 3)), data.draw(st.integers(-1, 60))
            for sums in (native, twin):
                sums.drop([key], [before]) if key < 3 else sums.drop_before(before)
        asked = data.draw(st.lists(st.tuples(*[st.integers(0, 80)] * 2, st.integers(0, 3))))
        ids, low, high = (np.array([each[i] for each in asked], np.int64) for i in (2, 0, 1))
        got, wanted = native.sums(ids, low, high), twin.sums(ids, low, high)
        assert (got is None) == (wanted is None)
        assert got is None or got.tolist() == wanted.tolist()
        assert [c.tolist() for c in native.cells()] == [c.tolist() for c in twin.cells()]
        assert native.has([0, 1, 2, 3]).tolist() == twin.has([0, 1, 2, 3]).tolist()
        native.validate()
        twin.validate()
