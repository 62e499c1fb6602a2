"""What windows cost, counted: cells merged for a pane or an answer, rows of a part."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators import ahead, cells, paned, together, two_stacks, wid
from gapless.operators import answers as columns_of_answers
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.answers import Answers, Grouping
from gapless.operators.cells import Cells
from gapless.operators.hopping_aggregate import HoppingAggregate, Implementation
from gapless.operators.operator import ANSWER_ROWS_MAX, Out
from gapless.operators.present_window import PaneCells, PresentWindow
from gapless.operators.session_aggregate import SessionAggregate
from gapless.operators.told_answers import Revision, ToldAnswers
from gapless.operators.two_stacks import Pane, TwoStacks
from gapless.operators.windows import Cumulating, Cut, Hopping
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.effort import cases

SOURCE = StreamSchema({"src": "int64", "len": "int64", "x": "float64"})
COUNT: list[tuple[str, AggregateFunction]] = [("n", calls.count())]
MAX: list[tuple[str, AggregateFunction]] = [("m", calls.max_("len")), ("s", calls.sum_("len"))]
FLOATS: list[tuple[str, AggregateFunction]] = [("f", calls.sum_("x")), ("mean", calls.mean("x"))]


def rows(times: Ids, keys: int, stable: int | None = None, seed: int = 1) -> Frame:
    rng = np.random.default_rng(seed)
    n = len(times)
    columns = [rng.integers(0, keys, n), rng.integers(0, 1000, n), rng.random(n)]
    return Frame.made(SOURCE, times, times + 1, [pa.array(c) for c in columns]).with_stable(stable)


def made(
    window: Cut,
    aggregates: list[tuple[str, AggregateFunction]],
    implementation: Implementation = "paned",
) -> HoppingAggregate:
    return HoppingAggregate(SOURCE, window, ["src"], aggregates, implementation)


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sub-aggregates merged into states or taken out, by call."""
    counted: list[int] = []
    for name in ("merge", "unmerge"):
        honest = getattr(OfParts, name)

        def counting(
            self: OfParts,
            ids: Ids,
            partial: pa.RecordBatch,
            honest: Callable[..., None] = honest,
        ) -> None:
            counted.append(len(ids))
            honest(self, ids, partial)

        monkeypatch.setattr(OfParts, name, counting)
    return counted


@pytest.mark.parametrize("aggregates", [COUNT, MAX, FLOATS])
def test_a_cell_is_merged_a_few_times_however_many_windows_it_is_in(
    aggregates: list[tuple[str, AggregateFunction]], merged: list[int]
) -> None:
    frame = rows(np.arange(0, 1200), keys=3, stable=INF)
    for part in made(Hopping(600, 1), aggregates).parts(0, frame):
        assert len(part.frame) <= ANSWER_ROWS_MAX
    cells = 1200
    states = len(aggregates) + 1
    assert sum(merged) <= 10 * cells * states, sum(merged) / cells / states


def test_one_row_after_a_lull_lays_out_no_more_than_is_alive(merged: list[int]) -> None:
    operator = made(Hopping(600, 1), COUNT)
    operator.push(0, rows(np.arange(0, 600), keys=20, stable=600))
    merged.clear()
    out = operator.push(0, rows(np.array([1000]), keys=20, stable=1000)).frame
    assert len(out) > 3000
    assert sum(merged) <= 3 * 600


def test_windows_between_which_no_pane_comes_or_goes_are_put_together_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    honest = columns_of_answers.results

    def asking(grouping: Grouping, windows: Times, *rest: Any, **named: Any) -> Answers:
        asked.append(windows)
        return honest(grouping, windows, *rest, **named)

    monkeypatch.setattr(columns_of_answers, "results", asking)
    monkeypatch.setattr(together, "ALL_CELLS_MAX", 0)
    out = made(Hopping(50_000, 1), MAX).push(0, rows(np.array([5, 40_000]), 1, INF)).frame
    assert (len(out), len(asked)) == (89_995, 4)


def test_a_window_that_cumulates_holds_each_of_its_groups_once() -> None:
    operator = made(Cumulating(1_000, 1), MAX)
    sizes = []
    for t in range(300):
        operator.push(0, rows(np.array([t, t]), 2, t + 1, seed=t))
        sizes.append(operator.nbytes)
    assert max(sizes[100:]) <= max(sizes[:100])


@pytest.mark.parametrize("implementation", ["paned", "wid"])
@pytest.mark.parametrize("rows_max", [1, 7])
def test_parts_are_bounded_and_promise_what_they_have_answered(
    implementation: Implementation, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (paned, columns_of_answers, wid):
        monkeypatch.setattr(module, "ANSWER_ROWS_MAX", rows_max)
    monkeypatch.setattr(together, "ALL_CELLS_MAX", 0)
    frame = rows(np.arange(0, 60), keys=3, stable=INF)
    whole = Tdb(made(Hopping(20, 5), MAX).schema)
    whole.fold(made(Hopping(20, 5), MAX).push(0, frame).frame)
    stables: set[int | None] = set()
    parts, answers = 0, Tdb(whole.schema)
    for out in made(Hopping(20, 5), MAX, implementation).parts(0, frame):
        answers.fold(out.frame)  # which raises where a part has promised too much
        assert len(out.frame) < rows_max + 3
        parts += 1
        stables.add(out.frame.stable)
    assert answers == whole
    assert parts >= len(whole.events) // (rows_max + 3)
    assert len(stables) >= 5


def told(seed: int, window: Cut) -> Iterator[Frame]:
    """Rows in bursts and lulls, and stables now and then, as the seed says."""
    rng = random.Random(seed)
    at, covers = rng.randint(-50, 50), window.reach - window.slide
    for _ in range(rng.randint(2, 8)):
        at += rng.choice([0, 1, covers // 2, 3 * covers])
        n = rng.choice([1, 5, 40])
        times = np.array([at + rng.randint(0, 2 * covers) for _ in range(n)])
        at = int(times.min())
        yield rows(times, 3, at if rng.random() < 0.7 else None, seed)
    yield Frame.empty(SOURCE, INF)


def cut(seed: int, frames: list[Frame]) -> Iterator[Frame]:
    """The same rows of each time in the same order, with more stables between."""
    rng = random.Random(seed)
    table = Frame.concat([frame.with_stable(None) for frame in frames])
    order = np.argsort(table.vs, kind="stable")
    table = table.take(order)
    while len(table):
        n = rng.randint(1, len(table))
        rest = table.slice(n)
        yield table.slice(0, n, int(rest.vs.min()) if len(rest) and rng.random() < 0.9 else None)
        table = rest
    yield Frame.empty(SOURCE, INF)


def differs(seed: int) -> bool:
    """Whether sums of floats have other bits where windows are asked for at other times."""
    rng = random.Random(seed)
    window: Cut = Hopping(rng.randint(1, 40), rng.randint(1, 12))
    if seed % 4 == 3:
        window = Cumulating(window.slide * rng.randint(1, 8), window.slide)
    first = list(told(seed, window))
    tables = []
    for frames in (list(cut(seed + i, first)) for i in range(3)):
        operator, answers = made(window, FLOATS), Tdb(made(window, FLOATS).schema)
        for frame in frames:
            answers.fold(operator.push(0, frame).frame)
            operator.validate()
            if rng.random() < 0.3:
                again = made(window, FLOATS)
                again.restore(operator.snapshot())
                operator = again
        tables.append(answers)
    return not tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("panes_at_once", [1, 256])
def test_sums_of_floats_have_the_same_bits_whenever_windows_are_asked_for(
    panes_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_stacks, "PANES_AT_ONCE", panes_at_once)
    for seed in range(cases(40)):
        assert not differs(seed), f"seed {seed}"


def test_splits_that_lie_where_a_window_was_asked_for_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def used_up(self: TwoStacks, end: int) -> bool:
        return self._split == INF or end - self._span >= self._split

    monkeypatch.setattr(TwoStacks, "split_of", lambda _, end: end)
    monkeypatch.setattr(TwoStacks, "begins_anew_at", used_up)
    assert any(differs(seed) for seed in range(60))


def test_the_front_of_a_long_range_is_made_of_blocks() -> None:
    operator = made(Hopping(90_000, 1), MAX)
    times = np.arange(0, 91_000, 7)
    worst = 0
    before = 0
    for at in range(0, len(times), 200):
        stable = int(times[min(at + 200, len(times) - 1)])
        operator.push(0, rows(times[at : at + 200], 1, stable))
        stacks = operator._windowed._present._stacks  # type: ignore[attr-defined]  # what it counts
        worst, before = max(worst, stacks.merges - before), stacks.merges
    assert worst < 2_500
    assert isinstance(operator.push(0, Frame.empty(SOURCE, 95_000)), Out)


def test_a_look_ahead_says_only_what_has_news_and_looks_at_nothing_else(
    merged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = HoppingAggregate(SOURCE, Hopping(600, 1), ["src"], MAX, early=INF)
    operator.push(0, rows(np.arange(0, 600), keys=10, stable=600))
    asked: list[int] = []
    revise = ToldAnswers.revise

    def asking(self: ToldAnswers, windows: Ids, groups: list[pa.Array], now: Answers) -> Revision:
        asked.append(len(windows))
        return revise(self, windows, groups, now)

    monkeypatch.setattr(ToldAnswers, "revise", asking)
    merged.clear()
    out = operator.push(0, rows(np.array([600]), keys=10, stable=600)).frame
    assert sum(asked) == 600, "the windows of one row, and of its group alone"
    assert len(out) <= 2 * 600
    cells = 600 // 10 + 600
    assert sum(merged) <= 3 * cells * 2 * (600).bit_length()
    asked.clear()
    assert not len(operator.push(0, Frame.empty(SOURCE, 600)).frame)
    assert not asked, "nothing is new, so nothing is looked at"


@pytest.mark.parametrize("implementation", ["paned", "wid"])
def test_early_answers_come_in_parts(
    implementation: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "ANSWER_ROWS_MAX", 12)
    frame = rows(np.arange(0, 60), keys=3, stable=30)
    one = HoppingAggregate(SOURCE, Hopping(20, 5), ["src"], MAX, implementation, early=INF)
    parts = [len(out.frame) for out in one.parts(0, frame)]
    assert max(parts) <= 12 + 18
    assert len(parts) > 3


def test_an_early_that_reaches_too_far_is_refused_before_anything_is_laid_out(
    monkeypatch: pytest.MonkeyPatch, merged: list[int]
) -> None:
    monkeypatch.setattr(ahead, "EARLY_WINDOWS_MAX", 100)
    operator = HoppingAggregate(SOURCE, Hopping(600, 1), ["src"], COUNT, early=INF)
    with pytest.raises(Misuse, match="early='10s'"):
        operator.push(0, rows(np.array([7]), keys=1, stable=0))
    assert not sum(merged)


def test_a_look_ahead_lays_out_panes_that_have_entered_since_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = HoppingAggregate(SOURCE, Hopping(600, 1), ["src"], COUNT, early=10)
    operator.push(0, rows(np.arange(0, 600), keys=2, stable=600))
    laid_out: list[int] = []
    honest = PresentWindow._joined

    def laying(self: PresentWindow, known: PaneCells | None, panes: list[Pane]) -> PaneCells:
        laid_out.append(len(panes))
        return honest(self, known, panes)

    monkeypatch.setattr(PresentWindow, "_joined", laying)
    for t in range(600, 700):
        operator.push(0, rows(np.array([t]), keys=2, stable=t + 1))
    assert max(laid_out) <= 2


def test_a_session_that_goes_on_is_not_merged_again(merged: list[int]) -> None:
    operator = SessionAggregate(SOURCE, 20, [], ["src"], COUNT)
    operator.push(0, rows(np.repeat(0, 500), keys=1_000_000, stable=10))
    for at in range(10, 60, 5):
        operator.push(0, rows(np.array([at]), keys=1_000_000, stable=at + 5, seed=at))
        operator.validate()
    states = 2  # the count, and from when to when
    assert 500 * states <= sum(merged) <= 520 * states  # each cell once
    merged.clear()
    assert len(operator.push(0, Frame.empty(SOURCE, INF)).frame) == 510
    assert sum(merged) > 500


def test_cells_are_not_laid_out_anew_for_each_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = []
    honest = Cells._lay_out

    def counting(self: Cells, *given: Any) -> None:
        layouts.append(given)
        honest(self, *given)

    monkeypatch.setattr(Cells, "_lay_out", counting)
    monkeypatch.setattr(cells, "DENSE_CELLS_MIN", 100)
    operator = made(Hopping(10, 10), COUNT)
    for at in range(0, 400, 10):
        operator.push(0, rows(np.repeat(np.arange(at, at + 10), 50), keys=200, stable=at - 30))
        operator.validate()
    assert len(layouts) < 12
