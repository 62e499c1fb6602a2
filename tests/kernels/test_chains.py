"""What chains promise, held by the native ones and by their twin alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.conftest import Kernel

IDS = st.integers(0, 6) | st.integers(0, 100_000)
ROWS = st.integers(0, 30) | st.integers(-(2**63), 2**63 - 1)


def test_probe_gives_every_pair_in_probe_order_and_then_in_order_of_insertion(
    kernel: Kernel,
) -> None:
    chains = kernel.Chains()
    chains.add([7, 3, 7], [30, 10, 20])
    chains.add([3], [40])
    probe_row, stored_row = chains.probe([3, 9, 7, 3])
    assert probe_row.tolist() == [0, 0, 2, 2, 3, 3]
    assert stored_row.tolist() == [10, 40, 30, 20, 10, 40]
    assert (probe_row.dtype, stored_row.dtype) == (np.int64, np.int64)
    assert len(chains) == 4
    chains.validate()


def test_what_find_gives_for_an_absent_key_matches_nothing(kernel: Kernel) -> None:
    chains = kernel.Chains()
    chains.add([0], [1])
    probe_row, stored_row = chains.probe([-1, 10**12, 0])
    assert (probe_row.tolist(), stored_row.tolist()) == ([2], [1])
    assert chains.probe([])[0].tolist() == []


@pytest.mark.parametrize("order", [[1, 2, 3], [3, 2, 1], [2, 1, 3], [2, 3, 1]])
def test_rows_leave_a_chain_in_any_order(kernel: Kernel, order: list[int]) -> None:
    chains = kernel.Chains()
    chains.add([5, 5, 5], [1, 2, 3])
    left = [1, 2, 3]
    for row in order:
        chains.remove([row])
        left.remove(row)
        assert chains.probe([5])[1].tolist() == left
        chains.validate()
    chains.add([5], [4])
    assert chains.probe([5])[1].tolist() == [4]


def test_a_row_that_was_removed_may_be_stored_again(kernel: Kernel) -> None:
    chains = kernel.Chains()
    chains.add([5, 5], [1, 2])
    chains.remove([1])
    chains.add([6], [1])
    assert chains.probe([5, 6])[1].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("ids", "rows", "message"),
    [
        ([1, 2], [20, 10], "add: row 10 is stored already"),
        ([1, 2], [20, 20], "add: row 20 is stored already"),
        ([1, -1], [20, 21], "add: id -1 is not one of a KeyTable"),
        ([1, 2**31], [20, 21], "add: id 2147483648 is not one of a KeyTable"),
        ([1, 2], [20], "2 ids and 1 rows"),
    ],
)
def test_a_bad_add_is_an_error_that_changes_nothing(
    kernel: Kernel, ids: list[int], rows: list[int], message: str
) -> None:
    chains = kernel.Chains()
    chains.add([1], [10])
    with pytest.raises(ValueError, match=message):
        chains.add(ids, rows)
    assert len(chains) == 1
    assert chains.probe([1, 2])[1].tolist() == [10]
    chains.validate()


@pytest.mark.parametrize(
    ("rows", "message"),
    [([10, 12], "remove: row 12 is not stored"), ([11, 10, 11], "remove: row 11 comes twice")],
)
def test_a_bad_remove_is_an_error_that_changes_nothing(
    kernel: Kernel, rows: list[int], message: str
) -> None:
    chains = kernel.Chains()
    chains.add([1, 1], [10, 11])
    with pytest.raises(ValueError, match=message):
        chains.remove(rows)
    assert chains.probe([1])[1].tolist() == [10, 11]
    chains.validate()


def test_ids_and_rows_are_integers(kernel: Kernel) -> None:
    chains = kernel.Chains()
    with pytest.raises(TypeError, match="rows: "):
        chains.add([1], [1.5])
    with pytest.raises(TypeError, match="ids: "):
        chains.probe([[1]])
    with pytest.raises(TypeError, match="rows: "):
        chains.remove(["a"])


@given(data=st.data())
def test_oracle_chains_are_lists_of_rows_by_id(kernel: Kernel, data: st.DataObject) -> None:
    chains = kernel.Chains()
    stored: list[tuple[int, int]] = []
    for _ in range(data.draw(st.integers(1, 6))):
        rows = data.draw(st.lists(ROWS, unique=True, max_size=12))
        rows = [row for row in rows if row not in {r for _, r in stored}]
        ids = data.draw(st.lists(IDS, min_size=len(rows), max_size=len(rows)))
        chains.add(ids, rows)
        stored += zip(ids, rows, strict=True)
        gone = data.draw(st.lists(st.sampled_from(stored), unique=True)) if stored else []
        chains.remove(np.array([row for _, row in gone], np.int64))
        stored = [pair for pair in stored if pair not in gone]
        chains.validate()
        probe = data.draw(st.lists(IDS, max_size=8))
        expected = [(i, row) for i, id in enumerate(probe) for at, row in stored if at == id]
        assert list(zip(*(a.tolist() for a in chains.probe(probe)), strict=True)) == expected
        assert len(chains) == len(stored)


def test_rows_may_count_up_for_ever(kernel: Kernel) -> None:
    chains = kernel.Chains()
    most = 0
    for turn in range(50):
        rows = np.arange(1000) + turn * 1000 + 2**40
        chains.add(rows % 300, rows)
        if turn >= 5:
            chains.remove(rows - 5000)
        most = max(most, chains.nbytes) if turn < 10 else most
    assert len(chains) == 5000
    assert chains.nbytes <= 2 * most
    chains.validate()


def test_memory_comes_back_after_a_peak(kernel: Kernel) -> None:
    peak = 300_000 if kernel.name == "native" else 30_000
    chains = kernel.Chains()
    chains.add(np.arange(peak) // 3, np.arange(peak))
    most = chains.nbytes
    assert most > peak * 20
    kept = np.arange(0, peak, peak // 10)
    chains.remove(np.setdiff1d(np.arange(peak), kept))
    assert chains.probe(kept // 3)[1].tolist() == kept.tolist()
    assert chains.nbytes < most / 20
    chains.remove(kept)
    assert chains.nbytes < 4096
    chains.validate()
