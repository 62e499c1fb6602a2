"""Slide-by-tuple windows: the operator, figure 6-7 as corrected, and the figure as printed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gapless.engine.plan import Plan
from gapless.engine.row_counts import rows
from gapless.engine.source import source
from gapless.operators.aggregates.calls import count, sum_
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from tests.effort import cases
from tests.engine.oracles.running import batch_of
from tests.operators.slide_by_tuple_figure import SlideByTuple

QUERY = source("a", {"ts": "int64", "x": "int64"}, time="ts", time_unit="ms")
Told = list[tuple[list[tuple[int, int]], int]]
"""Rows, in any order, and the stable that follows them."""


def told(seed: int) -> tuple[int, Told]:
    """A range, and rows by and by: some of one time, some a range apart, some after a lull."""
    rng = random.Random(f"figure {seed}")
    covers, stable, out = rng.choice((1, 2, 3, 5, 8)), rng.choice((0, -20)), []
    for _ in range(6):
        ahead = rng.choice((3, 8, 20))
        times = [stable + rng.randrange(ahead) for _ in range(rng.randint(0, 5))]
        stable += rng.choice((0, 1, 4, 9, 15))
        out.append(([(ts, rng.randrange(100)) for ts in times], stable))
    return covers, out


def of_the_figure(covers: int, given: Told, **broken: Any) -> dict[float, list[int]]:
    """What is answered: by when a window ends, its rows."""
    figure = SlideByTuple(covers, **broken)
    answers: dict[float, list[int]] = {}
    for some, stable in given:
        for ts, x in some:
            figure.insert(ts, x)
        answers.update((at, sorted(x)) for at, x in figure.stable(stable))
    answers.update((at, sorted(x)) for at, x in figure.stable(INF))
    return answers


def by_definition(covers: int, given: Told) -> dict[float, list[int]]:
    """The same, by Eq. 5.11: w - range < ts <= w."""
    all_rows = [row for some, _ in given for row in some]
    return {w: sorted(x for ts, x in all_rows if w - covers < ts <= w) for w, _ in all_rows}


def of_the_operator(covers: int, given: Told) -> Tdb:
    """The table of count and sum."""
    query = QUERY.window(range=covers, slide=rows(1)).aggregate(n=count(), x=sum_("x"))
    graph = Plan(query).compile()
    tdb = Tdb(graph.schema)
    for some, stable in [*given, ([], INF)]:
        batch = batch_of(QUERY.schema, some)
        vs = batch.column(0).to_numpy()
        frame = Frame.from_columns(QUERY.schema, vs, vs + 1, batch, stable=stable)
        tdb.fold(graph.push("a", frame))
        graph.validate()
    return tdb


def test_the_operator_says_what_figure_6_7_says_as_corrected() -> None:
    for seed in range(cases(150)):
        covers, given = told(seed)
        wanted = of_the_figure(covers, given)
        assert wanted == by_definition(covers, given), f"seed {seed}"
        got = {e.vs: e for e in of_the_operator(covers, given).events}
        ends = dict(zip(sorted(wanted), [*sorted(wanted)[1:], INF], strict=True))
        assert {at: (len(x), sum(x)) for at, x in wanted.items()} == {
            at: e.payload for at, e in got.items()
        }, f"seed {seed}"
        assert all(e.ve == ends[at] for at, e in got.items()), f"seed {seed}"


@pytest.mark.parametrize("printed", ["finds_its_own", "end_bins_in_e", "keeps_a_base"])
def test_each_correction_of_the_figure_is_needed(printed: str) -> None:
    broken: dict[str, Any] = {printed: False}
    wrong = sum(
        of_the_figure(*told(seed), **broken) != by_definition(*told(seed)) for seed in range(60)
    )
    assert wrong > 10


def test_the_bins_of_figure_6_5() -> None:
    figure = SlideByTuple(10)
    for ts, name in ((1, "t1"), (6, "t2"), (8, "t3"), (12, "t4")):
        figure.insert(ts, name)
    assert [len(figure.starts[at]) for at in (1, 6, 8, 12)] == [1, 2, 3, 3]  # (a) to (d)
    assert len(figure.ends[11]) == 2
    figure.insert(4, "t5")  # (e): out of order
    assert [len(figure.starts[at]) for at in (1, 4, 6, 8, 12)] == [1, 2, 3, 4, 4]
    assert [at for at, _ in figure.stable(7)] == [1, 4, 6]
    given: Told = [([(1, 0), (6, 0), (8, 0), (12, 0), (4, 0)], 7)]
    table = of_the_operator(10, given)
    assert [(e.vs, e.payload[0]) for e in sorted(table.events, key=lambda e: e.vs)] == [
        (1, 1),
        (4, 2),
        (6, 3),
        (8, 4),
        (12, 4),
    ]
