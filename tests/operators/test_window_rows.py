"""Top and heavy of windows: each window once, when it is complete, in an order that is decided."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.keys import Ids
from gapless.operators import window_rows
from gapless.operators.aside import Aside
from gapless.operators.operator import Operator
from gapless.operators.rank_keys import RankKey
from gapless.operators.window_choices import Heavy, Top
from gapless.operators.window_rows import WindowRows
from gapless.protocol.elements import INF, Insert, Payload
from gapless.protocol.errors import GaplessError, Misuse, RowError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import parse
from tests.effort import cases
from tests.operators.laws import (
    Told,
    holds_that_a_restored_one_goes_on_the_same,
    holds_that_fast_forward_spares_only_what_ends_before,
    recut,
    runs,
    tellings,
)

SCHEMA = StreamSchema({"g": "string", "n": "int64"})
SLIDE = 5


def top(k: int = 2, within: tuple[str, ...] = (), largest: bool = True) -> WindowRows:
    return WindowRows(
        SCHEMA, Top(SCHEMA, k, (RankKey(col("n"), largest),), within, "rank", Aside())
    )


def heavy(share: float = 0.4) -> WindowRows:
    return WindowRows(SCHEMA, Heavy(SCHEMA, "n", share))


def drawn(seed: int) -> tuple[random.Random, Tdb]:
    """Rows of windows of 5."""
    rng = random.Random(seed)
    events = []
    for _ in range(rng.randint(0, 25)):
        start = SLIDE * rng.randint(-2, 6)
        payload = rng.choice("AB"), rng.randint(0, 4)
        events.append(Event(payload, start, start + SLIDE))
    return rng, Tdb(SCHEMA, events)


def by_window(tdb: Tdb) -> dict[int, list[Payload]]:
    found: dict[int, list[Payload]] = {}
    for e in tdb.events:
        found.setdefault(e.vs, []).append(e.payload)
    return found


def wanted_top(tdb: Tdb, k: int, within: bool) -> list[Event]:
    out = []
    for start, payloads in by_window(tdb).items():
        for g in ("A", "B") if within else ("AB",):
            there = sorted((p for p in payloads if p[0] in g), key=lambda p: (-p[1], p[0]))
            out += [Event((*p, i), start, start + SLIDE) for i, p in enumerate(there[:k], 1)]
    return out


def wanted_heavy(tdb: Tdb, percent: int) -> list[Event]:
    out = []
    for start, payloads in by_window(tdb).items():
        total = sum(n for _, n in payloads)
        there = [p for p in payloads if 100 * p[1] >= percent * total]
        out += [Event(p, start, start + SLIDE) for p in there]
    return out


def told_in_order(operator: Operator, told: Told) -> list[Any]:
    """All that is put out, in the order in which it is."""
    return [e for source, f in told for e in operator.push(source, f).frame.elements()]


CASES: dict[str, tuple[Callable[[], WindowRows], Callable[[Tdb], list[Event]]]] = {
    "top 2": (top, lambda tdb: wanted_top(tdb, 2, False)),
    "top 1 within g": (lambda: top(1, ("g",)), lambda tdb: wanted_top(tdb, 1, True)),
    "heavy 40 %": (heavy, lambda tdb: wanted_heavy(tdb, 40)),
    "heavy 5 %": (lambda: heavy(0.05), lambda tdb: wanted_heavy(tdb, 5)),
}


def check(name: str, seed: int) -> None:
    make, wanted = CASES[name]
    rng, tdb = drawn(seed)
    told = recut(rng, [(0, frame) for frame in tellings(tdb, seed, inserts=True)])
    out = runs(make(), told)
    assert sorted(out.events, key=str) == sorted(wanted(tdb), key=str), seed
    assert out.stable == INF
    inserts = [e for e in told_in_order(make(), told) if isinstance(e, Insert)]
    again = [(0, frame) for frame in tellings(tdb, seed + 1, inserts=True)]
    assert inserts == [e for e in told_in_order(make(), again) if isinstance(e, Insert)], seed


@pytest.mark.parametrize("name", CASES)
def test_each_window_is_told_once_in_one_order_however_its_rows_come(name: str) -> None:
    for seed in range(cases(40)):
        check(name, seed)


@pytest.mark.parametrize("name", CASES)
def test_it_restarts_and_skips_as_every_operator_does(name: str) -> None:
    make, _ = CASES[name]
    for seed in range(cases(15)):
        rng, tdb = drawn(seed)
        told = [(0, frame) for frame in tellings(tdb, seed, inserts=True)]
        holds_that_a_restored_one_goes_on_the_same(make, told, rng.randint(0, len(told)))
        whole = runs(make(), told)
        holds_that_fast_forward_spares_only_what_ends_before(make, told, whole, rng)


def test_rows_that_cannot_be_chosen_any_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_rows, "THIN_ROWS_MIN", 8)
    for seed in range(cases(20)):
        for name in ("top 2", "top 1 within g"):
            check(name, seed)
    operator = top()
    rows = [(f"row {i}", i) for i in range(1_000)]
    for i in range(0, 1_000, 50):
        frames = frames_of(SCHEMA, [Insert(p, 0, 5) for p in rows[i : i + 50]])
        operator.push(0, next(iter(frames)))
        operator.validate()
    assert operator.nbytes < 8_000


def test_large_outputs_come_in_parts_of_whole_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_rows, "ANSWER_ROWS_MAX", 4)
    starts = np.repeat(np.arange(0, 50, 5), 3)
    columns = [pa.array(["A"] * 30), pa.array(np.arange(30))]
    frame = Frame.from_columns(SCHEMA, starts, starts + 5, columns, stable=INF)
    *parts, last = [out.frame for out in top(9).parts(0, frame)]
    assert [len(part) for part in parts] == [3] * 10
    assert (len(last), last.stable) == (0, INF)
    for seed in range(cases(20)):
        check("top 2", seed)


def test_what_cannot_be_told_is_refused_or_goes_aside() -> None:
    adjusted = Frame.from_elements(SCHEMA, parse("adj((A,1),0,5,3)", SCHEMA))
    with pytest.raises(Misuse, match="put Settle first"):
        top().push(0, adjusted)
    by = Top(SCHEMA, 1, (RankKey(1 // col("n"), True),), (), "rank", Aside())
    zero = Frame.from_elements(SCHEMA, parse("ins((A,0),0,5)", SCHEMA))
    with pytest.raises(RowError, match=r"top: .*divide by zero"):
        WindowRows(SCHEMA, by).push(0, zero)


# -- the checks can fail --------------------------------------------------------------------------


def _by_arrival(places: Ids, _: pa.RecordBatch) -> Ids:
    return np.argsort(places, kind="stable")


def noticed(name: str) -> bool:
    for seed in range(40):
        try:
            check(name, seed)
        except (AssertionError, GaplessError):
            return True
    return False


BREAKS: dict[str, tuple[str, str, Any]] = {
    "ties by arrival": ("top 2", "rank_order.by_places", _by_arrival),
    "heavy ones by arrival": ("heavy 5 %", "window_choices.by_places", _by_arrival),
}


@pytest.mark.parametrize("name", BREAKS)
def test_an_order_that_shows_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, target, instead = BREAKS[name]
    monkeypatch.setattr(f"gapless.operators.{target}", instead)
    assert noticed(case)


def test_a_window_that_is_told_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = WindowRows.parts

    def early(self: WindowRows, source: int, frame: Frame, marks: Any = ()) -> Any:
        stable = frame.stable
        if stable is not None and stable < INF:
            frame = frame.with_stable(stable + 1)
        yield from parts(self, source, frame, marks)

    monkeypatch.setattr(WindowRows, "parts", early)
    assert noticed("top 2")
