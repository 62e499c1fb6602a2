"""Windows of hundreds of panes that are answered at once: as ranges of cells, not one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators import pane_answers, paned, together
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.answers import Answers
from gapless.operators.hopping_aggregate import HoppingAggregate, Implementation
from gapless.operators.present_window import Arriving, PresentWindow
from gapless.operators.ranges import over_ranges
from gapless.operators.sparse_cells import Found
from gapless.operators.together import Together
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

SOURCE = StreamSchema({"len": "int32"})
AGGREGATES = [
    ("n", calls.count()),
    ("most", calls.max_("len")),
    ("total", calls.sum_("len")),
]
WINDOW = Hopping(600, 2)


def made(implementation: Implementation, window: Hopping = WINDOW) -> HoppingAggregate:
    return HoppingAggregate(SOURCE, window, [], AGGREGATES, implementation)


def frames(seed: int) -> list[Frame]:
    """Rows of which some are nulls and some times have none, each frame with its stable."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(-500, 3_000), 1_500))
    cuts = sorted(rng.sample(range(1, len(times)), 4))
    out = []
    for start, end in zip([0, *cuts], [*cuts, len(times)], strict=True):
        vs = np.array(times[start:end])
        values = pa.array([rng.choice([None, *range(-9, 9)]) for _ in vs], pa.int32())
        stable = INF if end == len(times) else times[end]
        out.append(Frame.from_columns(SOURCE, vs, vs + 1, [values], stable=stable))
    return out


def answers(told: list[Frame], window: Hopping = WINDOW) -> Tdb:
    """All of them; a snapshot of each push goes on in another operator."""
    operator = made("paned", window)
    table = Tdb(operator.schema)
    for frame in told:
        again = made("paned", window)
        again.restore(operator.snapshot())
        table.fold(again.push(0, frame).frame)
        again.validate()
        operator = again
    return table


def scanned(told: list[Frame], window: Hopping = WINDOW) -> Tdb:
    """Each row counts in each of its windows."""
    operator = made("wid", window)
    table = Tdb(operator.schema)
    for frame in told:
        table.fold(operator.push(0, frame).frame)
    return table


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each push that is answered so."""
    monkeypatch.setattr(together, "ALL_CELLS_MAX", 1 << 13)
    monkeypatch.setattr(paned, "TURN_WINDOWS_MAX", 200)
    calls_of: list[int] = []
    real = Together._by_range

    def seen(
        self: Together, panes: Found, partials: list[pa.RecordBatch], first: int, complete: int
    ) -> Answers:
        calls_of.append(complete)
        return real(self, panes, partials, first, complete)

    monkeypatch.setattr(Together, "_by_range", seen)
    return calls_of


def test_answers_are_those_of_every_implementation_also_after_restarts(taken: list[int]) -> None:
    for seed, slide in enumerate((2, 7, 599)):
        window = Hopping(600, slide)
        assert answers(frames(seed), window) == scanned(frames(seed), window), f"seed {seed}"
    assert taken


def test_no_number_of_windows_is_too_many_to_be_put_together_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slid: list[int] = []
    real = PresentWindow.slide

    def seen(self: PresentWindow, window: int, arriving: Arriving) -> list[Ids]:
        slid.append(window)
        return real(self, window, arriving)

    monkeypatch.setattr(PresentWindow, "slide", seen)
    times = np.arange(2 * paned.TURN_WINDOWS_MAX + 100)
    frame = Frame.from_columns(SOURCE, times, times + 1, [pa.array(times % 1_000, pa.int32())])
    operator = made("paned", Hopping(300, 1))
    operator.push(0, frame)
    out = [part.frame for part in operator.parts(0, Frame.empty(SOURCE, int(times[-1])))]
    assert sum(map(len, out)) == len(times) - 1
    assert out[0].stable == paned.TURN_WINDOWS_MAX + 1, "answers of a turn go before the next one's"
    assert not slid


def test_turns_that_leave_a_window_out_are_found(
    taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Together._by_range

    def from_next(
        self: Together, panes: Found, partials: list[pa.RecordBatch], *at: int
    ) -> Answers:
        return real(self, panes, partials, at[0] + 1, at[1])

    monkeypatch.setattr(Together, "_by_range", from_next)
    with pytest.raises(AssertionError):
        assert answers(frames(0)) == scanned(frames(0))
    assert taken


def test_a_window_that_is_a_pane_short_is_found(
    taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(
        states: Sequence[Accumulator],
        scratch: Sequence[Accumulator],
        partials: Sequence[pa.RecordBatch],
        low: Ids,
        high: Ids,
    ) -> None:
        over_ranges(states, scratch, partials, np.minimum(low + 1, high), high)

    monkeypatch.setattr(pane_answers, "over_ranges", short)
    with pytest.raises(AssertionError):
        assert answers(frames(0)) == scanned(frames(0))
    assert taken
