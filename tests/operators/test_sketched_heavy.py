"""Heavy values by sketch: the same for one set of rows, however it comes, and none is missing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators import count_min, sketched_panes
from gapless.operators.aside import Aside
from gapless.operators.frequent_values import FrequentValues
from gapless.operators.sketched_heavy import SketchedHeavy
from gapless.operators.sketched_panes import SketchedPanes
from gapless.operators.waiting_rows import WaitingRows
from gapless.operators.window_choices import millionths
from gapless.operators.windows import Cumulating, Cut, Hopping
from gapless.protocol.elements import BEGIN, INF, Insert
from gapless.protocol.errors import DecodeError, GaplessError, Misuse, SchemaError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import parse
from tests.effort import cases
from tests.operators import heavy_twin
from tests.operators.heavy_twin import Row
from tests.operators.laws import (
    Told,
    holds_that_a_restored_one_goes_on_the_same,
    holds_that_a_start_at_reach_gives_all_that_is_wanted,
    holds_that_fast_forward_spares_only_what_ends_before,
    recut,
    runs,
    tellings,
)

SCHEMA = StreamSchema({"v": "int64", "x": "int64"})
WINDOWS: dict[str, Cut] = {
    "tumbling": Hopping(10, 10),
    "hopping": Hopping(12, 4, 1),
    "uneven": Hopping(9, 6),
    "apart": Hopping(4, 6),
    "cumulating": Cumulating(12, 4, 3),
}
SHARES = (0.15, 0.3, 0.5, 1)
LOT_ROWS, WIDTH = 3, 1


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Few counters and short lots: values collide, and candidates are cut."""
    with small_sketches():
        yield


@contextmanager
def small_sketches(lot_rows: int = LOT_ROWS, width: int = WIDTH) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketched_panes, "LOT_ROWS", lot_rows)
        patch.setattr(count_min, "WIDTH_OF_SHARE", width)
        patch.setattr(count_min, "WIDTH_MIN", 2)
        yield


def made(window: Cut, share: float, aside: Aside | None = None) -> SketchedHeavy:
    return SketchedHeavy(SCHEMA, window, ["v"], share, aside=aside)


def drawn(seed: int) -> tuple[random.Random, Cut, float, list[Row]]:
    """Rows, many of one time, of a few values some of which are frequent."""
    rng = random.Random(seed)
    window = WINDOWS[rng.choice(list(WINDOWS))]
    values = rng.choice((2, 6, 25))
    rows = [
        (rng.randint(-10, 40), min(rng.randrange(values), rng.randrange(values)))
        for _ in range(rng.randint(0, 50))
    ]
    return rng, window, rng.choice(SHARES), rows


def tdb_of(rows: list[Row]) -> Tdb:
    return Tdb(SCHEMA, [Event((v, i % 3), ts, ts + 1) for i, (ts, v) in enumerate(rows)])


def told_of(tdb: Tdb) -> dict[tuple[int, int], int]:
    """By the end of a window and value, how often it came."""
    found = {(e.vs, e.payload[0]): e.payload[1] for e in tdb.events}
    assert len(found) == len(tdb.events)
    return found


def check(seed: int) -> None:
    rng, window, share, rows = drawn(seed)
    told = recut(rng, [(0, frame) for frame in tellings(tdb_of(rows), seed, inserts=True)])
    out = runs(made(window, share), told)
    parts = millionths(share)
    width = count_min.width_of(parts)
    wanted = heavy_twin.heavy(rows, window, parts, width, LOT_ROWS)
    found = told_of(out)
    assert found == {(end, v): n for end, v, n in wanted}, seed
    assert out.stable == INF
    assert {e.ve - e.vs for e in out.events} <= {window.slide}
    for key, n in heavy_twin.exact(rows, window, parts).items():
        assert found.get(key, 0) >= n, seed  # none is missing, no count is too low
    again = recut(rng, [(0, frame) for frame in tellings(tdb_of(rows), seed + 1, inserts=True)])
    assert in_order(made(window, share), told) == in_order(made(window, share), again), seed


def in_order(operator: SketchedHeavy, told: Told) -> list[Any]:
    """All inserts, in the order in which they come."""
    out = [e for source, f in told for e in operator.push(source, f).frame.elements()]
    return [e for e in out if isinstance(e, Insert)]


def test_twin_says_the_same_in_every_order_and_cut_and_none_is_missing() -> None:
    for seed in range(cases(60)):
        check(seed)


def test_it_restarts_skips_and_starts_late_as_every_operator_does() -> None:
    for seed in range(cases(20)):
        rng, window, share, rows = drawn(seed)

        def make(window: Cut = window, share: float = share) -> SketchedHeavy:
            return made(window, share)

        told = [(0, frame) for frame in tellings(tdb_of(rows), seed, inserts=True)]
        holds_that_a_restored_one_goes_on_the_same(make, told, rng.randint(0, len(told)))
        whole = runs(make(), told)
        holds_that_fast_forward_spares_only_what_ends_before(make, told, whole, rng)
        at = rng.randint(-20, 60)
        holds_that_a_start_at_reach_gives_all_that_is_wanted(make, told, whole, at)


def test_most_frequent_values_come_first_and_windows_in_order() -> None:
    rows = [(1, 7), (1, 7), (2, 8), (3, 9), (3, 9), (4, 9)]
    with small_sketches(width=100):
        told = [(0, frame) for frame in tellings(tdb_of(rows), 0, inserts=True)]
        out = in_order(made(Hopping(10, 5), 0.15), told)
    assert [(e.vs, *e.payload) for e in out] == [
        (5, 9, 3), (5, 7, 2), (5, 8, 1), (10, 9, 3), (10, 7, 2), (10, 8, 1)
    ]  # fmt: skip


def frame_of(ts: Ids, values: Ids, stable: int | None) -> Frame:
    return Frame.from_columns(SCHEMA, ts, ts + 1, [pa.array(values)] * 2, stable=stable)


def held(operator: SketchedHeavy, values: int, lateness: int = 5) -> int:
    """The most bytes that it holds while so many different values come."""
    most = 0
    for start in range(0, values, 5_000):
        ts = np.arange(start, start + 5_000) * 600 // values
        frame = frame_of(ts, np.arange(start, start + 5_000), int(ts[-1]) - lateness)
        for out in operator.parts(0, frame):
            assert not len(out.frame)
        most = max(most, operator.nbytes)
    return most


def test_what_it_holds_does_not_grow_with_the_number_of_values() -> None:
    with small_sketches(1 << 13, 60):
        few, many = (held(made(Hopping(600, 60), 0.05), n, 0) for n in (50_000, 200_000))
    assert many < 1.2 * few < 500_000


def test_estimates_are_at_most_a_tenth_of_the_share_too_high() -> None:
    rng = np.random.default_rng(7)
    ts, values = np.sort(rng.integers(0, 600, 30_000)), rng.zipf(1.2, 30_000) % 100_000
    with small_sketches(1 << 13, 60):
        out = told_of(runs(made(Hopping(600, 60), 0.02), [(0, frame_of(ts, values, INF))]))
    for end in range(60, 1200, 60):
        counts = Counter(values[(ts < end) & (ts >= end - 600)].tolist())
        told = {v: n for (e, v), n in out.items() if e == end}
        assert {v for v, n in counts.items() if n >= 0.02 * counts.total()} <= told.keys()
        assert all(0 <= n - counts[v] <= 0.1 * 0.02 * counts.total() for v, n in told.items())


def colliding(share: float, count: int) -> list[int]:
    """Values that share all their counters."""
    width, found = count_min.width_of(millionths(share)), dict[Any, list[int]]()
    for v in range(100_000):
        same = found.setdefault(tuple(heavy_twin.places(v, width)), [])
        same.append(v)
        if len(same) == count:
            return same
    raise AssertionError("too few collide")


def test_values_that_are_chosen_to_collide_are_no_more_than_pane_candidates() -> None:
    share = 0.3
    chosen = colliding(share, 60)
    frequent = chosen[0]
    rows = [(t, v) for t in range(50) for v in (frequent, chosen[1 + t], chosen[59 - t])]
    for seed in range(cases(10)):
        told = [(0, frame) for frame in tellings(tdb_of(rows), seed, inserts=True)]
        operator = made(Hopping(50, 10), share)
        out = told_of(runs(operator, told))
        assert operator.nbytes < 20_000
        for end in range(10, 100, 10):
            values = [v for e, v in out if e == end]
            assert frequent in values
            assert len(values) <= 5 * 3  # panes of a window, and candidates of each


# -- bad input ------------------------------------------------------------------------------------


def test_rows_that_count_nowhere_are_aside() -> None:
    aside = Aside("aside")
    operator = made(Hopping(10, 5), 0.5, aside)
    operator.push(0, frame_of(np.array([3, 8]), np.array([1, 1]), 6))
    operator.push(0, frame_of(np.array([5, 7]), np.array([2, 1]), 7))
    operator.push(0, frame_of(np.array([INF - 12]), np.array([2]), INF))
    reasons = [(each.reason, each.rows.column("v").to_pylist()) for each in aside.take()]
    assert reasons == [
        ("late: rows of its time have been counted", [2]),
        (f"these windows take rows up to {INF - 16}: answers end before inf", [2]),
    ]
    adjusted = Frame.from_elements(SCHEMA, parse("adj((1,1),0,5,3)", SCHEMA))
    with pytest.raises(Misuse, match="put Settle first"):
        made(Hopping(10, 5), 0.5).push(0, adjusted)
    with pytest.raises(Misuse, match="name the columns"):
        SketchedHeavy(SCHEMA, Hopping(10, 5), [], 0.5)
    with pytest.raises(SchemaError, match="window on"):
        SketchedHeavy(SCHEMA, Hopping(10, 5), ["v"], 0.5, on="y")
    assert SketchedHeavy(SCHEMA, Hopping(10, 5), ["v"], 0.5, on="x").fast_forward(9) == BEGIN


def test_snapshots_that_no_operator_gives_are_refused() -> None:
    operator = made(Hopping(10, 5), 0.5)
    operator.push(0, frame_of(np.arange(12), np.arange(12) % 2, 12))
    state = dict(operator.snapshot())
    twice = {
        "panes.values": state["panes.values"].take([0] * state["panes.values"].num_rows),
        "panes.counts": state["panes.counts"].slice(1),
        "panes.candidates": state["panes.candidates"].slice(0, 1),
        "panes.cells": state["panes.cells"].slice(1),
        "panes.panes": state["panes.panes"].slice(1),
        "panes.lot": pa.concat_batches([state["panes.lot"]] * 9),
    }
    for name, batch in twice.items():
        with pytest.raises(GaplessError):  # as it is restored, or validated behind it
            restored({**state, name: batch})
    far = state["panes.cells"].set_column(1, "cell", pa.array([10**6] * len(state["panes.cells"])))
    with pytest.raises(DecodeError, match="a place where nothing is"):
        restored({**state, "panes.cells": far.cast(state["panes.cells"].schema)})


def restored(state: Any) -> None:
    again = made(Hopping(10, 5), 0.5)
    again.restore(state)
    again.validate()


# -- the checks can fail --------------------------------------------------------------------------


def noticed() -> bool:
    for seed in range(250):
        try:
            check(seed)
        except (AssertionError, GaplessError):
            return True
    return False


def _mid_time(_: Times, start: int) -> int:
    return start + LOT_ROWS


def _close_by_all_rows(self: SketchedPanes) -> None:
    """Prunes by the share of all rows that are there."""
    whole = sum(pane.rows for pane in self._closed)
    heavy = SketchedPanes._heavy

    def of_all(panes: Any, ids: Ids, sketch: Any, rows: int) -> Any:
        return heavy(panes, ids, sketch, rows + whole)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SketchedPanes, "_heavy", of_all)
        CLOSE(self)


CLOSE = SketchedPanes._close


def _in_all_panes(self: FrequentValues) -> Ids:
    found: Ids = (self.holders == max(1, self.holders.max(initial=0))).nonzero()[0]
    return found


def _at_once(self: WaitingRows, _: int) -> pa.RecordBatch:
    return TAKE(self, INF)


TAKE = WaitingRows.take


def _largest_stay(self: FrequentValues) -> None:
    live = self.counted
    if len(live) > self._most:
        gone = live[np.argsort(-self.counts(live), kind="stable")[self._most :]]
        self._counts.values[gone] = 0
        self._release(gone)


def _cut_too_deep(self: FrequentValues) -> None:
    self._most -= 1
    CUT(self)
    self._most += 1


CUT = FrequentValues.cut
BREAKS: dict[str, tuple[Any, str, Any]] = {
    "a lot ends before all rows of its time are in it": (sketched_panes, "_end_of_lot", _mid_time),
    "candidates are pruned by the rows of all panes": (SketchedPanes, "_close", _close_by_all_rows),
    "candidates of all panes": (FrequentValues, "held", property(_in_all_panes)),
    "rows are taken in before the stable": (WaitingRows, "take", _at_once),
    "of equal counts the first stay": (FrequentValues, "cut", _largest_stay),
    "one candidate too few": (FrequentValues, "cut", _cut_too_deep),
    "what is subtracted is forgotten": (count_min.CountMin, "minus", lambda *_: None),
    "lots are never cut": (FrequentValues, "cut", lambda _: None),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_builds_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of, attribute, instead = BREAKS[name]
    monkeypatch.setattr(of, attribute, instead)
    assert noticed()
