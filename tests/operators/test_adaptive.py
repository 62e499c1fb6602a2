"""Adaptive: groups are lazy, eager or in transition, and no table shows which."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import adaptive
from gapless.operators.adaptive import Adaptive
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.answers import Grouping
from gapless.operators.aside import Aside
from gapless.operators.cells import Cells
from gapless.operators.eager_threshold import EagerThreshold
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.lazy_rows import LazyRows
from gapless.operators.panes import panes_of_windows
from gapless.operators.windows import Cut, Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, GaplessError, MemoryLimit
from gapless.protocol.frame import frames_of
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
    """Groups are looked at with each row that waits, and turn eager or lazy by a few rows."""
    monkeypatch.setattr(adaptive, "LOOK_ROWS_MIN", 1)
    monkeypatch.setattr(adaptive, "LOOK_SHARE", 1 << 20)
    monkeypatch.setattr(EagerThreshold, "rows", lambda self, lazy, cells: 2)
    monkeypatch.setattr(EagerThreshold, "rows_back", 2)


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


@pytest.mark.parametrize("most", [0, 5])
def test_whatever_the_threshold(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(most)
    monkeypatch.setattr(EagerThreshold, "rows", lambda self, lazy, cells: rng.randint(0, most))
    monkeypatch.setattr(EagerThreshold, "rows_back", 3)
    for seed in range(cases(40)):
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
    for name in ("windowed.facts", "windowed.lazy", "windowed.lazy.times", "windowed.eager"):
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
    return state["cells"].num_rows, state["lazy"].num_rows


def test_a_group_turns_eager_with_its_rows_and_lazy_once_they_expire() -> None:
    operator = grouped()
    tell(operator, "ins((A,1),1,2) ins((A,1),2,3) ins((B,1),3,4)")
    assert kept(operator) == (0, 3)
    tell(operator, "ins((A,1),6,7)")
    assert kept(operator) == (2, 1)  # A: panes 0 and 1
    tell(operator, "ins((A,1),7,8)")
    assert kept(operator) == (2, 1)  # counted as it comes
    answers = [part.answers for part in operator.answer(1)]
    assert [a.columns[1].to_pylist() for a in answers] == [[2, 1]] or len(answers) == 1
    operator.validate()
    assert kept(operator)[0] == 2


def test_a_group_in_transition_is_answered_from_cells_and_rows() -> None:
    operator = grouped()
    tell(operator, "ins((A,1),1,2) ins((A,1),2,3) ins((A,1),6,7)")
    assert kept(operator) == (2, 0)
    list(operator.answer(2))  # [0, 5) and [0, 10): pane 0 expires, one row is left
    operator.validate()
    tell(operator, "ins((A,1),11,12)")
    assert kept(operator) == (1, 1)
    (part,) = operator.answer(3)
    assert part.answers.columns[1].to_pylist() == [2]
    operator.validate()


def test_dense_groups_take_cells_and_sparse_ones_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rows = pa.schema([("src", pa.int64()), ("_vs", pa.int64())])
    one = Adaptive(Hopping(10, 1), Grouping(rows, ["src"], [calls.count()], Aside()))
    rng = np.random.default_rng(1)
    for t in range(10):
        sparse = 1_000 + rng.permutation(400) + 400 * t
        src = np.concatenate((rng.integers(0, 5, 2_000), sparse))
        times = np.full(len(src), t)
        batch = pa.RecordBatch.from_arrays([pa.array(src), pa.array(times)], schema=rows)
        one.add(times, batch, (t, t))
    one.validate()
    cells, waiting = kept(one)
    assert cells == 50
    assert waiting == 4_000
    (part,) = one.answer(10 - 9)
    assert len(part.answers.windows) == 405


def test_a_row_far_in_the_future_is_no_reason_to_answer_for_ever() -> None:
    operator = made(Hopping(1 << 30, 1), "adaptive")
    with pytest.raises(MemoryLimit, match="windows would be answered at once"):
        pushed(operator, "ins((A,1),1,2) stable(1073741824)")


def pushed(operator: HoppingAggregate, text: str) -> str:
    frames = frames_of(SOURCE, parse(text, SOURCE))
    return " ".join(format(operator.push(0, f).frame.elements()) for f in frames).strip()


# -- the condition --------------------------------------------------------------------------------


def condition(functions: list[AggregateFunction], window: Hopping) -> tuple[EagerThreshold, Cells]:
    rows = pa.schema([("src", pa.int64()), ("len", pa.int64()), ("_vs", pa.int64())])
    grouping = Grouping(rows, ["src"], functions, Aside())
    return EagerThreshold(grouping, panes_of_windows(window)), Cells(grouping)


def test_the_condition_is_that_of_the_thesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    none = LazyRows(pa.schema([("src", pa.int64())]))  # rows of 16 bytes, as long as there is none
    threshold, cells = condition([calls.count()], Hopping(10, 1))
    assert threshold.rows(none, cells) == 8 * 10 / 16
    assert threshold.rows_back < 8 * 10 / 16
    threshold.seen(25)
    threshold.closed(10)  # a window has been open from 0 to 25
    assert threshold.open == 25
    assert threshold.rows(none, cells) == 8 * 25 / 16
    threshold.closed(30)
    assert threshold.open == 10
    sketches, cells = condition(
        [calls.count_distinct("len", method="hll", precision=10)], Hopping(1, 1)
    )
    assert sketches.rows(none, cells) > 1024 / 16


# -- the checks can fail --------------------------------------------------------------------------


def noticed() -> bool:
    for seed in range(40):
        try:
            check(seed)
        except (AssertionError, GaplessError):
            return True
    return False


def test_one_that_expires_rows_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the count of a group's rows, which then falls below what is there."""

    def expire(self: Adaptive) -> None:
        first = min(self._panes.first(self._next), INF)
        found = self._cells.between(BEGIN, first)
        np.subtract.at(self._volumes.values, found.groups, self._cells.counts(found.ids))
        once(self)

    once = Adaptive._expire
    monkeypatch.setattr(Adaptive, "_expire", expire)
    assert noticed()


def test_one_that_expires_rows_of_the_next_window_too_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    once = Adaptive._expire

    def expire(self: Adaptive) -> None:
        once(self)
        self._next += 1
        once(self)
        self._next -= 1

    monkeypatch.setattr(Adaptive, "_expire", expire)
    assert noticed()


def test_a_group_in_transition_without_its_cells_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Adaptive._make_eager

    def forgets(self: Adaptive) -> None:
        right(self)
        self._eager.values[:] = 0

    monkeypatch.setattr(Adaptive, "_make_eager", forgets)
    monkeypatch.setattr(Adaptive, "_merge", lambda *_: None)
    assert noticed()


def test_rows_that_wait_where_they_are_counted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = grouped()
    monkeypatch.setattr(LazyRows, "keep", lambda self, kept: None)
    with pytest.raises(Bug, match="waits"):
        tell(operator, "ins((A,1),1,2) ins((A,1),2,3) ins((A,1),6,7)")
