"""Worked examples that the thesis prints, as our windows, panes and bins answer them."""

from __future__ import annotations

import pytest

import gapless as gl
from gapless.engine.plan import Plan
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from tests.engine.oracles.running import batch_of
from tests.operators.slide_by_tuple_figure import BEFORE_ALL, SlideByTuple

S = 1_000
MINUTE = 60 * S


# -- 5.1.1: the first fifteen windows of Q5-1, range 10 minutes, slide 1 minute -------------------


def test_the_first_nine_windows_are_partial_and_the_others_ten_minutes_long() -> None:
    window = Hopping(10 * MINUTE, MINUTE)
    covered = [
        (max(start, 0) // MINUTE, end // MINUTE) for start, end in map(window.extent, range(15))
    ]
    assert covered == [
        *((0, end) for end in range(1, 11)),
        (1, 11),
        (2, 12),
        (3, 13),
        (4, 14),
        (5, 15),
    ]


def test_a_row_five_seconds_in_belongs_to_windows_0_to_9() -> None:
    assert Hopping(10 * MINUTE, MINUTE).wids(5 * S) == range(10)


# -- 6.2: range 9 minutes, slide 6 minutes --------------------------------------------------------


@pytest.mark.parametrize("implementation", ["paned", "wid"])
def test_three_panes_of_three_minutes_of_which_windows_share_one(implementation: str) -> None:
    """One row a minute, each in its pane: windows have 9, and each shares 3 with the next."""
    flows = gl.source("flows", {"ts": "int64", "x": "int64"}, time="ts")
    query = flows.window(range="9m", slide="6m").aggregate(
        first=gl.min("x"), last=gl.max("x"), panes=gl.count_distinct("x")
    )
    plan = Plan(query.where(gl.col("panes") == 3), implementation)  # type: ignore[arg-type]  # drawn from a list of names
    graph = plan.compile()
    rows = [(minute * MINUTE, minute // 3) for minute in range(30)]
    batch = batch_of(flows.schema, rows)
    vs = batch.column(0).to_numpy()
    table = Tdb(graph.schema)
    table.fold(graph.push("flows", Frame.from_columns(flows.schema, vs, vs + 1, batch, stable=INF)))
    assert [(e.vs // MINUTE, e.payload[:2]) for e in table.events] == [
        (12, (1, 3)),
        (18, (3, 5)),
        (24, (5, 7)),
        (30, (7, 9)),
    ]


# -- fig. 6-5: the bins of slide-by-tuple counts as tuples arrive ---------------------------------

S1, S2, S3, S4, S5 = 10, 14, 17, 23, 12
COVERS = 10
E1, E2, E3, E4, E5 = (s + COVERS for s in (S1, S2, S3, S4, S5))


def counts(figure: SlideByTuple) -> dict[float, int]:
    """By bin, whether it is of S or of E, how many rows count in it."""
    return {at: len(rows) for at, rows in {**figure.ends, **figure.starts}.items()}


def test_bins_are_opened_from_the_one_before_and_counted_in() -> None:
    figure = SlideByTuple(COVERS)
    assert counts(figure) == {BEFORE_ALL: 0}
    figure.insert(S1, "t1")
    a = {BEFORE_ALL: 0, S1: 1, E1: 0}
    assert counts(figure) == a, "(a)"
    figure.insert(S2, "t2")
    b = a | {S2: 2, E1: 1, E2: 0}
    assert counts(figure) == b, "(b)"
    figure.insert(S3, "t3")
    c = b | {S3: 3, E1: 2, E2: 1, E3: 0}
    assert counts(figure) == c, "(c)"
    figure.insert(S4, "t4")
    d = c | {S4: 3, E2: 2, E3: 1, E4: 0}
    assert counts(figure) == d, "(d): S4 begins from E1, without t1"
    figure.insert(S5, "t5")
    e = d | {S5: 2, S2: 3, S3: 4, E1: 3, E5: 2}
    assert counts(figure) == e, "(e): t5 comes out of order"
    answers = {at: len(rows) for at, rows in figure.stable(S2 + 1)}
    assert answers == {S1: 1, S5: 2, S2: 3}


def test_our_operator_answers_as_the_figure_does() -> None:
    flows = gl.source("flows", {"ts": "int64"}, time="ts")
    graph = Plan(flows.window(range=COVERS, slide=gl.rows(1)).aggregate(n=gl.count())).compile()
    table = Tdb(graph.schema)
    for some, stable in (([S1, S2, S3, S4, S5], S2 + 1), ([], INF)):
        batch = batch_of(flows.schema, [(ts,) for ts in some])
        vs = batch.column(0).to_numpy()
        frame = Frame.from_columns(flows.schema, vs, vs + 1, batch, stable=stable)
        table.fold(graph.push("flows", frame))
        if stable < INF:
            assert [(e.vs, e.payload[0]) for e in table.events] == [(S1, 1), (S5, 2), (S2, 3)]
    assert [(e.vs, e.payload[0]) for e in table.events][3:] == [(S3, 4), (S4, 3)]
