"""The table of ends: what a frame writes to it, what a stable finds in it, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.kernels import KERNEL, ends, twin_ends
from gapless.kernels.columns import ROOM_MIN
from gapless.kernels.ends import INF, INPUTS, OUTPUT, STARTS, Ends
from tests.kernels.conftest import Kernel

Ints = npt.NDArray[np.int64]
SEEDS = st.integers(0, 2**32 - 1)
BEGIN = int(np.iinfo(np.int64).min)


def a_table(rng: np.random.Generator, inputs: int, room: int) -> Ints:
    """Some ids live, some free; ends near each other, so that comparisons fall both ways."""
    table = np.full((INPUTS + inputs, room), INF, np.int64)
    live = np.flatnonzero(rng.random(room) < 0.7)
    starts = rng.integers(0, 8, len(live))
    table[:, live] = starts + rng.integers(0, 5, (len(table), len(live)))
    table[:, live][1:, rng.random(len(live)) < 0.1] = INF
    table[STARTS, live] = starts
    return table


def some_rows(rng: np.random.Generator, table: Ints, mine: int, count: int) -> tuple[Any, ...]:
    """Rows that fit what the input has said, except for a few: ids, first, vs, ve, was."""
    now = table[[STARTS, mine]].copy()
    ids = rng.integers(-1, table.shape[1], count)
    first = np.zeros(count, np.bool_)
    vs, ve, was = (np.zeros(count, np.int64) for _ in range(3))
    for i, key in enumerate(ids):
        if key < 0:
            continue
        if now[0, key] == INF:
            first[i] = True
            now[:, key] = rng.integers(0, 8)
        start, end = now[:, key]
        vs[i], ve[i] = start, start + rng.integers(1, 6)
        was[i] = BEGIN if end == start else end
        if was[i] != BEGIN and rng.random() < 0.3:
            ve[i] = start
        if rng.random() < 0.01:
            was[i] = start + rng.integers(1, 6)
        now[1, key] = ve[i]
    return ids, first, vs, ve, was


@given(seed=SEEDS)
def test_differential_take(native: Kernel, twin: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, room = int(rng.integers(1, 5)), int(rng.integers(1, 40))
    table = a_table(rng, inputs, room)
    for _ in range(4):
        mine = int(rng.integers(INPUTS, INPUTS + inputs))
        rows = some_rows(rng, table, mine, int(rng.integers(0, 60)))
        policy = int(rng.integers(0, 8)), int(rng.integers(0, inputs + 1)), bool(rng.integers(2))
        other, found = table.copy(), np.full((3, len(rows[0])), -7)
        slow_found = found.copy()
        said = native.raw.take_ends(table, mine, *rows, *policy, found)
        assert said == twin.raw.take_ends(other, mine, *rows, *policy, slow_found)
        assert np.array_equal(table, other)
        if said[2] == len(rows[0]):
            chosen, settled = said[:2]
            assert np.array_equal(found[:2, :chosen], slow_found[:2, :chosen])
            assert np.array_equal(found[2, :settled], slow_found[2, :settled])


@given(seed=SEEDS)
def test_differential_sweep_and_clear(native: Kernel, twin: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, room = int(rng.integers(1, 5)), int(rng.integers(1, 60))
    table = a_table(rng, inputs, room)
    before = table.copy()
    count, mine = int(rng.integers(0, room + 1)), int(rng.integers(INPUTS, INPUTS + inputs))
    stable = int(rng.integers(0, 8))
    t = INF if rng.random() < 0.2 else stable + int(rng.integers(1, 6))
    found = np.zeros((2, room), np.int64)
    slow_found = found.copy()
    asked = (table, count, mine, t, stable, bool(rng.integers(2)))
    said = native.raw.sweep_ends(*asked, found)
    assert said == twin.raw.sweep_ends(*asked, slow_found)
    wrong, gone = said[:2]
    assert np.array_equal(found[0, :wrong], slow_found[0, :wrong])
    assert np.array_equal(found[1, :gone], slow_found[1, :gone])
    assert np.array_equal(table, before)
    native.raw.clear_ends(table, found[1, :gone])
    twin.raw.clear_ends(before, found[1, :gone])
    assert np.array_equal(table, before)


@given(seed=SEEDS)
def test_a_row_that_does_not_fit_leaves_the_table_as_it_was(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = a_table(rng, 3, 30)
    before = table.copy()
    ids, first, vs, ve, was = some_rows(rng, table, INPUTS, 50)
    ids[-1], first[-1], vs[-1], ve[-1], was[-1] = 0, False, 3, 5, 99
    found = np.empty((3, 50), np.int64)
    _, _, bad, held = kernel.raw.take_ends(
        table, INPUTS, ids, first, vs, ve, was, 2, 1, True, found
    )
    assert bad < 50
    assert held != was[bad]
    assert np.array_equal(table, before)


def arguments() -> dict[str, Any]:
    """A call of `take_ends` that is right."""
    n = 4
    return {
        "ends": np.full((3, 8), INF, np.int64),
        "mine": INPUTS,
        "ids": np.arange(n),
        "first": np.ones(n, np.bool_),
        "vs": np.arange(n),
        "ve": np.arange(n) + 1,
        "was": np.full(n, BEGIN),
        "stable": 0,
        "quorum": 1,
        "adjusts": False,
        "found": np.empty((3, n), np.int64),
    }


ARRAYS = [name for name, value in arguments().items() if isinstance(value, np.ndarray)]


def test_a_call_that_is_right_takes_its_rows(kernel: Kernel) -> None:
    assert kernel.raw.take_ends(**arguments()) == (4, 0, 4, 0)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: a.astype(np.float64),
        lambda a: a.astype(np.int32),
        lambda a: a.astype(np.uint64),
        lambda a: a[None],
        list,
    ],
    ids=["float64", "int32", "uint64", "another dimension", "a list"],
)
def test_another_type_is_refused(kernel: Kernel, name: str, spoil: Any) -> None:
    right = arguments()
    wrong = right | {name: spoil(right[name])}
    with pytest.raises(TypeError):
        kernel.raw.take_ends(**wrong)
    assert (right["ends"] == INF).all()


@pytest.mark.parametrize("name", [n for n in ARRAYS if n not in ("ends", "ids")])
def test_another_length_is_refused(kernel: Kernel, name: str) -> None:
    right = arguments()
    wrong = right | {name: np.ascontiguousarray(right[name][..., :-1])}
    with pytest.raises(ValueError, match="the same length"):
        kernel.raw.take_ends(**wrong)
    assert (right["ends"] == INF).all()


@pytest.mark.parametrize("bad", [8, 2**40, 2**63 - 1, -2, -(2**40), -(2**63)])
def test_an_id_beyond_the_table_is_refused(kernel: Kernel, bad: int) -> None:
    right = arguments()
    right["ids"][-1] = bad
    with pytest.raises(ValueError, match="take: an id has no column"):
        kernel.raw.take_ends(**right)
    for id in (bad, -1):
        with pytest.raises(ValueError, match="clear: an id has no column"):
            kernel.raw.clear_ends(right["ends"], np.array([0, id]))
    assert (right["ends"] == INF).all()


@pytest.mark.parametrize("row", [STARTS, OUTPUT, 3])
def test_a_row_that_is_not_an_inputs_is_refused(kernel: Kernel, row: int) -> None:
    right = arguments()
    with pytest.raises(ValueError, match=f"take: row {row} is not an input's"):
        kernel.raw.take_ends(**right | {"mine": row})
    with pytest.raises(ValueError, match=f"sweep: row {row} is not an input's"):
        kernel.raw.sweep_ends(right["ends"], 8, row, 5, 0, False, np.empty((2, 8), np.int64))


def test_a_sweep_stays_inside_the_table_and_its_answer(kernel: Kernel) -> None:
    table = np.full((3, 8), INF, np.int64)
    for count, shape in ((9, (2, 9)), (8, (2, 7)), (8, (1, 8))):
        with pytest.raises(ValueError, match="sweep"):
            kernel.raw.sweep_ends(table, count, INPUTS, 5, 0, False, np.empty(shape, np.int64))


@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (2, 8), (3, 0)])
def test_a_table_without_an_input_or_a_column_has_nowhere_to_write(
    kernel: Kernel, shape: tuple[int, int]
) -> None:
    table = np.full(shape, INF, np.int64)
    with pytest.raises(ValueError, match="take"):
        kernel.raw.take_ends(**arguments() | {"ends": table})


@pytest.mark.parametrize("name", ["ends", "found"])
def test_what_cannot_be_written_to_is_refused(native: Kernel, name: str) -> None:
    right = arguments()
    right[name].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        native.raw.take_ends(**right)


# -- the table over both --------------------------------------------------------------------------


def test_a_row_opens_with_no_event_and_the_last_takes_the_place_of_one_that_goes() -> None:
    table = Ends()
    first, second = table.add_row(), table.add_row()
    assert (first, second) == (INPUTS, INPUTS + 1)
    table.values[:, 3] = 7
    table.values[second, 3] = 9
    third = table.add_row()
    assert table.values[third, 3] == 7
    table.drop_row(first)
    assert table.values[:, 3].tolist() == [7, 7, 7, 9]
    table.drop_row(third - 1)
    assert table.values[:, 3].tolist() == [7, 7, 7]


def test_who_joins_and_who_goes_has_a_row_copied_and_not_the_table() -> None:
    table = Ends()
    table.fit(1000)
    rows = [table.add_row() for _ in range(3)]
    table.fit(2000)  # as it grows there is room for those that come
    at = table.values.ctypes.data
    for _ in range(5):
        rows.append(table.add_row())
        table.drop_row(rows[0])
        rows.pop()
        assert table.values.ctypes.data == at
    [table.add_row() for _ in range(ends.SPARE_ROWS + 1)]
    assert table.values.ctypes.data != at  # and where there is none it is copied once


def test_room_follows_the_capacity_up_and_down() -> None:
    table = Ends()
    table.add_row()
    small = table.nbytes
    table.fit(10_000)
    table.values[:, 5] = 1
    assert table.values.shape == (3, 12_500)
    assert (table.values[:, 6:] == INF).all()
    table.fit(6)
    assert table.nbytes <= small + 8 * ROOM_MIN  # a spare row
    assert table.values[:, 5].tolist() == [1, 1, 1]


def small_pages(patch: pytest.MonkeyPatch) -> None:
    """All that holds of a large table holds from a few ids on."""
    patch.setattr(ends, "PAGED_IDS_MIN", 0)
    patch.setattr(ends, "PAGE_BITS", 2)
    patch.setattr(ends, "PAGES_MAX", 3)
    patch.setattr(ends, "LEARNED_MAX", 7)


def told(rng: np.random.Generator, table: Ends, rows: int, changed: bool = True) -> None:
    """What a merger does to its table between two stables, drawn."""
    room = table.values.shape[1]
    ids = rng.integers(0, room, rows)
    match rng.integers(0, 5):
        case 0:
            table.fit(int(rng.integers(1, 200)))
        case 1:
            table.clear(np.unique(ids))
        case 2 if len(table.values) < 6:
            table.add_row()
        case 3 if len(table.values) > INPUTS + 2:
            table.drop_row(int(rng.integers(INPUTS, len(table.values))))
        case _:
            table.values[STARTS, ids] = rng.integers(0, 50, rows)
            for row in range(1, len(table.values)):
                table.values[row, ids] = table.values[STARTS, ids] + rng.integers(0, 60, rows)
            if changed:
                table.changed(ids)


def unlike(seed: int, changed: bool = True) -> bool:
    """Whether some sweep of pages has found something else than one of the whole table."""
    rng, table = np.random.default_rng(seed), Ends()
    table.add_row()
    for t in range(30):
        told(rng, table, int(rng.integers(1, 9)), changed)
        count = int(rng.integers(0, table.values.shape[1] + 1))
        table.values[:, count:] = INF  # as all that is free
        mine = int(rng.integers(INPUTS, len(table.values)))
        paged = table.sweep(count, mine, t, t - 1, False)
        found = np.empty((2, table.values.shape[1]), np.int64)
        wrong, gone, contested = vars(ends)["sweep_ends"](
            table.values, count, mine, t, t - 1, False, found
        )
        if [a.tolist() for a in paged[:2]] != [found[0, :wrong].tolist(), found[1, :gone].tolist()]:
            return True
        if paged.contested != contested:
            return True
    return False


def test_a_sweep_of_pages_finds_what_one_of_the_whole_table_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_pages(monkeypatch)
    assert not any(unlike(seed) for seed in range(60))
    assert any(unlike(seed, changed=False) for seed in range(60))  # of one that does not say so


def test_a_stable_looks_at_the_pages_of_what_has_ended_and_not_at_all_that_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    real = vars(ends)["sweep_ends"]

    def counted(table: Ints, count: int, *rest: Any) -> tuple[int, int, bool]:
        looked.append(count)
        wrong, gone, contested = real(table, count, *rest)
        return wrong, gone, contested

    monkeypatch.setattr(ends, "sweep_ends", counted)
    table, live = Ends(), ends.PAGED_IDS_MIN + 1000
    table.fit(live)
    mine, ids = table.add_row(), np.arange(live)
    table.values[:, :live] = 5
    table.values[OUTPUT:, :live] = INF
    table.changed(ids)
    table.sweep(live, mine, 6, 5, False)  # from here on it knows the pages
    for t in range(7, 17):
        looked.clear()
        table.values[OUTPUT:, 1000 * t] = t
        table.changed(np.array([1000 * t]))
        assert table.sweep(live, mine, t + 1, t, False).gone.tolist() == [1000 * t]
        table.clear(np.array([1000 * t]))
        assert sum(looked) <= 4 << ends.PAGE_BITS


def test_where_many_pages_are_due_they_are_swept_and_not_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Frames that have gathered end rows all over the table: a sweep of all of it would take so
    long that more of them gather."""
    looked: list[int] = []
    real = vars(ends)["sweep_ends"]

    def counted(table: Ints, count: int, *rest: Any) -> tuple[int, int, bool]:
        looked.append(count)
        wrong, gone, contested = real(table, count, *rest)
        return wrong, gone, contested

    monkeypatch.setattr(ends, "sweep_ends", counted)
    monkeypatch.setattr(ends, "PAGES_MAX", 8)
    table, pages = Ends(), 2 * (ends.PAGED_IDS_MIN >> ends.PAGE_BITS)
    live = pages << ends.PAGE_BITS
    table.fit(live)
    mine = table.add_row()
    table.values[:, :live] = 5
    table.values[OUTPUT:, :live] = INF
    for _ in range(1 + pages // ends.LEARNED_MAX):
        table.sweep(live, mine, 6, 5, False)  # it learns the pages
    for share, whole in ((2 * ends.DUE_SHARE, False), (ends.DUE_SHARE - 1, True)):
        looked.clear()
        ended = np.arange(0, live, share << ends.PAGE_BITS)
        table.values[:, ended] = 6
        table.values[STARTS, ended] = 5
        table.changed(ended)
        assert table.sweep(live, mine, 7, 6, False).gone.tolist() == ended.tolist()
        table.clear(ended)
        assert (live in looked) == whole
        assert whole or max(looked) <= 8 << ends.PAGE_BITS  # that much is copied at once


def test_the_table_uses_the_kernel_that_was_chosen(native: Kernel) -> None:
    chosen = native.raw if KERNEL == "native" else twin_ends
    assert vars(ends)["take_ends"] is chosen.take_ends
