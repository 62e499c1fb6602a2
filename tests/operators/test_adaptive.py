"""Adaptive: groups are lazy, eager or in transition in each pane, and no answer shows which."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import adaptive, lazy_rows
from gapless.operators.adaptive import Adaptive
from gapless.operators.aggregates import calls
from gapless.operators.answers import Grouping
from gapless.operators.aside import Aside
from gapless.operators.eager_threshold import EagerThreshold
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.keyed_cells import KeyedCells
from gapless.operators.lazy_rows import LazyRows
from gapless.operators.windows import Cut, Hopping
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug, DecodeError, GaplessError, MemoryLimit
from gapless.protocol.frame import Times, frames_of
from gapless.protocol.text import format, parse
from tests.effort import cases
from tests.operators.laws import (
    holds_that_a_restored_one_goes_on_the_same,
    holds_that_a_start_at_reach_gives_all_that_is_wanted,
    holds_that_fast_forward_spares_only_what_ends_before,
)
from tests.operators.test_hopping_aggregate import (
    AGGREGATES,
    SOURCE,
    drawn,
    made,
    run,
    scanned,
    stream,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are looked at with few rows that wait, and turn eager by a few rows."""
    monkeypatch.setattr(adaptive, "LOOK_ROWS_MIN", 1)
    monkeypatch.setattr(adaptive, "AGAIN_ROWS_MIN", 1)
    monkeypatch.setattr(lazy_rows, "PIECES_MAX", 2)
    threshold(monkeypatch, lambda: 2)


def threshold(monkeypatch: pytest.MonkeyPatch, rows: Callable[[], float]) -> None:
    monkeypatch.setattr(EagerThreshold, "rows", property(lambda self: rows()))
    monkeypatch.setattr(EagerThreshold, "spares", lambda self, made, known, rows: True)


def check(seed: int, early: int | None = None) -> None:
    rng, window, rows = drawn(seed)
    operator = made(window, "adaptive", AGGREGATES, early=early)
    answers = run(operator, stream(rng, rows))
    wanted = scanned(window, rows)
    assert answers == wanted, f"seed {seed}: {window}\n{answers.difference(wanted)}"
    assert answers.stable == INF


@pytest.mark.parametrize("early", [None, 7])
def test_any_order_and_cut_gives_the_answers_of_a_scan(early: int | None) -> None:
    for seed in range(cases(60)):
        check(seed, early)


@pytest.mark.parametrize("most", [0, 1, 5])
@pytest.mark.parametrize("tallied", [0, adaptive.TALLIED_MAX])
def test_whatever_the_threshold(most: int, tallied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(most)
    threshold(monkeypatch, lambda: rng.randint(0, most))
    monkeypatch.setattr(adaptive, "TALLIED_MAX", tallied)
    for seed in range(cases(12)):
        check(seed)


def test_it_restarts_skips_and_starts_in_the_middle_as_every_implementation_does() -> None:
    for seed in range(cases(30)):
        rng, window, rows = drawn(seed)
        told = [(0, frame) for frame in stream(rng, rows)]

        def make(window: Cut = window) -> HoppingAggregate:
            return made(window, "adaptive", AGGREGATES)

        holds_that_a_restored_one_goes_on_the_same(make, told, rng.randint(0, len(told)))
        wanted = scanned(window, rows)
        holds_that_fast_forward_spares_only_what_ends_before(make, told, wanted, rng)
        t = rng.randint(-10, 50)
        holds_that_a_start_at_reach_gives_all_that_is_wanted(make, told, wanted, t)


def test_a_snapshot_that_is_none_is_refused() -> None:
    operator = made(implementation="adaptive")
    state = dict(operator.snapshot())
    for name in ("windowed.new", "windowed.lazy", "windowed.lazy.times", "windowed.cells"):
        with pytest.raises(DecodeError):
            made(implementation="adaptive").restore({n: b for n, b in state.items() if n != name})


# -- lazy, eager, in transition -------------------------------------------------------------------


def grouped(window: Hopping = Hopping(10, 5)) -> Adaptive:  # noqa: B008  # immutable
    return Adaptive(window, Grouping(SOURCE.arrow, ["src"], [calls.count()], Aside()))


def tell(operator: Adaptive, text: str) -> None:
    for frame in frames_of(SOURCE, parse(text, SOURCE)):
        if len(frame):
            operator.add(frame.vs, frame.batch, (int(frame.vs.min()), int(frame.vs.max())))
    operator.validate()


def kept(operator: Adaptive) -> tuple[int, int]:
    """Cells, and rows that wait."""
    state = operator.snapshot()
    return state["cells"].num_rows, state["lazy"].num_rows + state["new"].num_rows


def test_a_group_is_eager_in_a_pane_with_its_rows_and_lazy_in_the_next() -> None:
    operator = grouped()
    tell(operator, "ins((A,1),1,2) ins((A,1),2,3) ins((B,1),3,4)")
    assert kept(operator) == (0, 3)
    tell(operator, "ins((A,1),6,7)")  # looks at those before
    assert kept(operator) == (1, 2)
    (part,) = operator.answer(1)
    assert [c.to_pylist() for c in part.answers.columns] == [["A", "B"], [2, 1]]
    operator.validate()
    assert kept(operator) == (1, 2)
    (part,) = operator.answer(2)
    assert [c.to_pylist() for c in part.answers.columns] == [["A", "B"], [3, 1]]
    assert kept(operator) == (0, 1)  # pane 0 expires


def test_a_group_in_transition_is_answered_from_cells_and_rows() -> None:
    operator = grouped()
    tell(operator, "ins((A,1),1,2) ins((A,1),2,3)")
    tell(operator, "ins((A,1),3,4)")
    assert kept(operator) == (1, 1)
    (part,) = operator.answer(1)
    assert part.answers.columns[1].to_pylist() == [3]
    operator.validate()
    assert kept(operator) == (1, 0)  # what comes to a cell joins it


def test_dense_groups_take_cells_and_sparse_ones_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(adaptive, "LOOK_ROWS_MIN", 1_000)
    monkeypatch.setattr(adaptive, "AGAIN_ROWS_MIN", 1)
    rows = pa.schema([("src", pa.int64()), ("len", pa.int64()), ("_vs", pa.int64())])
    one = Adaptive(Hopping(10, 1), Grouping(rows, ["src"], [calls.sum_("len")], Aside()))
    rng = np.random.default_rng(1)
    for t in range(10):
        sparse = 1_000 + rng.permutation(400) + 400 * t
        src = np.concatenate((rng.integers(0, 5, 2_000), sparse))
        times = np.full(len(src), t)
        columns = [pa.array(src), pa.array(src), pa.array(times)]
        one.add(times, pa.RecordBatch.from_arrays(columns, schema=rows), (t, t))
    one.validate()
    list(one.answer(9))
    (part,) = one.answer(10)
    assert len(part.answers.windows) == 4_005
    one.validate()
    cells, waiting = kept(one)
    assert cells == 45  # pane 0 has expired
    assert waiting == 9 * 400


def test_sub_aggregates_that_turn_out_larger_than_their_rows_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(adaptive, "LOOK_ROWS_MIN", 100)
    rows = pa.schema([("src", pa.int64()), ("len", pa.int64()), ("_vs", pa.int64())])
    sketch = calls.count_distinct("len", method="hll")
    one = Adaptive(Hopping(10, 10), Grouping(rows, ["src"], [sketch], Aside()))
    values = pa.array(np.arange(100))
    for _ in range(3):
        columns = [pa.array(np.arange(100) % 9), values, values]
        batch = pa.RecordBatch.from_arrays(columns, schema=rows)
        one.add(np.zeros(100, np.int64), batch, (0, 0))
    one.validate()
    assert kept(one) == (0, 300)


def test_a_row_far_in_the_future_is_no_reason_to_answer_for_ever() -> None:
    operator = made(Hopping(1 << 30, 1), "adaptive")
    with pytest.raises(MemoryLimit, match="windows would be answered at once"):
        pushed(operator, "ins((A,1),1,2) stable(1073741824)")


def pushed(operator: HoppingAggregate, text: str) -> str:
    frames = frames_of(SOURCE, parse(text, SOURCE))
    return " ".join(format(operator.push(0, f).frame.elements()) for f in frames).strip()


# -- the condition --------------------------------------------------------------------------------


def test_the_condition_is_that_of_the_thesis_in_one_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    schema = pa.schema([("src", pa.int64()), ("len", pa.int64()), ("_vs", pa.int64())])
    condition = EagerThreshold(Grouping(schema, ["src"], [calls.count()], Aside()))
    assert condition.rows == 8 / 16  # a count, a row as long as there is none
    rows, numbers = LazyRows(schema), pa.array([1, 2])
    batch = pa.RecordBatch.from_arrays([numbers, numbers, numbers], schema=schema)
    rows.put(numbers.to_numpy(), batch)
    condition.waiting(rows)
    assert condition.rows == 8 / 24
    counts = pa.record_batch({"count": numbers})
    keys = pa.record_batch({"src": numbers})
    none = KeyedCells.of(np.empty(0, np.int64), keys.slice(2), [counts.slice(2)])
    made = KeyedCells.of(np.array([0, 0]), keys, [counts, counts, counts])
    assert not condition.spares(made, none, 2)  # 64 bytes, and 48
    assert condition.spares(made, none, 3)
    assert condition.spares(made, made, 0)
    assert condition.rows == 32 / 24


# -- cells ----------------------------------------------------------------------------------------


def test_cells_that_are_left_over_say_what_they_hold_and_give_it_back() -> None:
    counts = pa.record_batch({"count": pa.array(np.arange(12))})
    cells = KeyedCells.of(np.repeat([7, 5, 6], 4), counts, [counts])
    assert cells.panes.tolist() == [7, 5, 6]
    assert cells.sizes.tolist() == [4, 4, 4]
    some = cells.of_panes(cells.panes < 7)
    assert (some.number, some.held) == (8, 12)
    assert some.nbytes > 12 * 16
    one = some.of_panes(some.panes == 6)
    assert (one.number, one.held) == (4, 4)
    assert one.partials[0].column(0).to_pylist() == [8, 9, 10, 11]
    joined = one.joined(cells.of_panes(cells.panes == 5))
    assert joined.ordered().partials[0].column(0).to_pylist() == [4, 5, 6, 7, 8, 9, 10, 11]
    for each in (some, one, joined, joined.ordered()):
        each.validate()
    with pytest.raises(Bug, match="two places"):
        one.joined(one).validate()
    with pytest.raises(Bug, match="different lengths"):
        one._replace(keys=counts).validate()


# -- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [2, 1_000])
def test_waiting_rows_are_those_of_a_list(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_rows, "PIECES_MAX", pieces)
    schema = pa.schema([("len", pa.int64()), ("_vs", pa.int64())])
    rng, waiting, twin = random.Random(3), LazyRows(schema), list[tuple[int, int]]()
    for i in range(200):
        low = rng.randint(0, 20)
        end = low + rng.randint(0, 12)
        what = rng.random()
        if what < 0.6:
            rows = [(i, rng.randint(0, 30)) for _ in range(rng.randint(0, 4))]
            lens, at = ([row[i] for row in rows] for i in (0, 1))
            columns = [pa.array(lens, pa.int64()), pa.array(at, pa.int64())]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            waiting.put(np.array(at, np.int64), batch)
            twin += rows
        elif what < 0.9:
            asked = waiting.take if what < 0.75 else waiting.between
            times, given = asked(low, end)
            wanted = [row for row in twin if low <= row[1] < end]
            assert sorted(tuple(row.values()) for row in given.to_pylist()) == sorted(wanted)
            assert sorted(times.tolist()) == sorted(t for _, t in wanted)
            twin = [row for row in twin if what >= 0.75 or row not in wanted]
        else:
            waiting.forget_below(low - 10)
            twin = [row for row in twin if row[1] >= low - 10]
        waiting.validate()
        assert len(waiting) == len(twin)
        assert waiting.nbytes == 16 * len(twin)


# -- the checks can fail --------------------------------------------------------------------------


def noticed() -> bool:
    for seed in range(40):
        try:
            check(seed)
        except (AssertionError, GaplessError):
            return True
    return False


def test_one_that_expires_rows_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their own window, and with the next one's."""
    once = Adaptive._expire

    def expire(self: Adaptive) -> None:
        once(self)
        self._next += 1
        once(self)
        self._next -= 1

    monkeypatch.setattr(Adaptive, "_expire", expire)
    assert noticed()


def test_one_that_never_expires_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adaptive, "_expire", lambda self: None)
    assert noticed()


def test_a_group_in_transition_without_its_cells_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adaptive, "_merge", lambda *_: None)
    assert noticed()


def test_rows_that_wait_where_they_are_counted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: LazyRows, low: int, end: int) -> tuple[Times, pa.RecordBatch]:
        return self.between(low, end)

    monkeypatch.setattr(LazyRows, "take", take)
    assert noticed()


def test_a_group_with_two_cells_in_a_pane_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = grouped()
    monkeypatch.setattr(adaptive, "LOOK_ROWS_MIN", 1)
    tell(operator, "ins((A,1),1,2) ins((A,1),2,3)")
    monkeypatch.setattr(KeyedCells, "of_panes", lambda self, wanted: self)
    tell(operator, "ins((A,1),3,4)")
    with pytest.raises(Bug, match="two places"):
        tell(operator, "ins((A,1),4,5)")
