"""Windows that count rows: what they say in any order, what breaks them, how to write them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gapless as gl
from gapless.engine.query import Query
from gapless.operators import answers_held, ranks, row_partitions, row_window, row_windows
from gapless.protocol.errors import GaplessError, Misuse
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.random_queries import Drawing, Taste
from tests.engine.oracles.random_streams import World, random_rows
from tests.engine.oracles.row_oracle import RowOracle, TooLarge
from tests.engine.oracles.running import Running, batch_of, run, stored

FLOWS = gl.source("flows", {"ts": "int64", "src": "string", "len": "int64"}, time="ts", lateness=3)
EVERY = 50
"""Cases of each property."""


def drawn(seed: int) -> Case:
    """Rows of one source, many of one time, and an aggregate of a window that counts them."""
    rng = random.Random(f"counted rows {seed}")
    drawing = Drawing(rng, Taste(depth=1, sources=1, odd=seed % 3 == 0))
    while True:
        try:
            node = drawing._counted(drawing.query(rng.choice((0, 0, 1))), 0)
            query = Query(node, "aside")
            break
        except (Misuse, gl.SchemaError):  # what the builder refuses is drawn again
            continue
    rows = {
        name: random_rows(rng, s.schema, s.time, rng.choice((5, 25, 40)), World())
        for name, s in query.sources.items()
    }
    try:
        RowOracle(rows).table(node)
    except TooLarge:  # a join of joins: fewer rows will do
        rows = {name: those[:5] for name, those in rows.items()}
    return Case(seed, query, rows)


# -- what they say --------------------------------------------------------------------------------


def check(seed: int) -> None:
    """The table is the definition's, whatever the order, the cuts and the parts; and also when it
    is taken up in the middle.
    """
    case = drawn(seed)
    for telling in range(2):
        running = run(case.plan(), case.told(telling))
        unlike = case.difference(running.tdb.events)
        assert not unlike, unlike
    told = case.told()
    old, half = Running(case.plan()), len(told) // 2
    for item in told[:half]:
        old.take(item)
    new = Running(case.plan())
    new.graph.restore(stored(old.graph.snapshot()))
    new.intakes, new.tdb = old.intakes, old.tdb
    for item in told[half:]:
        new.take(item)
    new.finish()
    unlike = case.difference(new.tdb.events)
    assert not unlike, unlike


def test_tables_are_those_of_the_definitions_in_any_order_and_taken_up_anywhere() -> None:
    for seed in seeds(EVERY):
        check(seed)


def test_parts_of_any_size_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "ENTRIES_MAX", 2)
    monkeypatch.setattr(row_window, "ANSWER_ROWS_MAX", 3)
    monkeypatch.setattr(row_window, "SWEEP_MIN", 1)
    for seed in seeds(EVERY, start=1_000):
        check(seed)


# -- broken on purpose ----------------------------------------------------------------------------

FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {}


def _with_low(change: int) -> Callable[..., Any]:
    closed = row_windows.SlideByTuple.closed

    def broken(window: Any, *columns: Any) -> Any:
        found = closed(window, *columns)
        return found._replace(low=found.low + change)

    return broken


def _with_high(window: Any, *columns: Any) -> Any:
    found = _CLOSED(window, *columns)
    return found._replace(high=found.high - 1)


_CLOSED = row_windows.SlideByTuple.closed
_NEEDED = row_windows.SlideByTuple.needed_from
_LAST = row_windows.last_of_each

FAULTS = {
    "ranks by arrival": (
        ranks,
        "by_time_and_payload",
        lambda vs, ve, payload: np.arange(len(vs)).astype(np.uint64),
    ),
    "a row at w - range counts": (row_windows.SlideByTuple, "closed", _with_low(-1)),
    "the row that ends a window does not count": (row_windows.SlideByTuple, "closed", _with_high),
    "no base is left by a purge": (
        row_windows.SlideByTuple,
        "needed_from",
        lambda window, time: time,
    ),
    "one row too many is dropped": (
        row_windows.RowHopping,
        "needed_from",
        lambda window, counts: counts // window.pane,
    ),
    "a window superseded within a tick is answered": (
        row_windows,
        "last_of_each",
        lambda *columns: np.ones(len(columns[0]), np.bool_),
    ),
    "partitions forget how many rows they had": (
        row_partitions.Partitions,
        "restore",
        lambda *_: None,
    ),
    "what is held is not taken up": (
        row_window.RowWindowAggregate,
        "_restore_held",
        lambda *_: None,
    ),
    "an answer is held from the start of its partition": (
        answers_held.AnswersHeld,
        "has",
        lambda held, groups: np.zeros(len(groups), np.bool_),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_build_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[name])
    for seed in range(300):
        try:
            check(seed)
        except (AssertionError, GaplessError, ValueError, IndexError):
            return
    pytest.fail(f"{name}: no case saw it")


# -- examples -------------------------------------------------------------------------------------


def answers(query: Query, rows: list[tuple[int, str, int]]) -> list[tuple[Any, ...]]:
    """Start, end, and columns of the answers."""
    tdb = gl.Tdb(query.schema)
    for frame in gl.execute(query, batch_of(FLOWS.schema, rows)):
        tdb.fold(frame)
    return sorted((e.vs, e.ve, *e.payload) for e in tdb.events)


ROWS = [(1, "A", 5), (2, "B", 7), (4, "A", 2), (4, "A", 9), (6, "A", 1), (9, "B", 3)]
INF = gl.INF


def test_every_second_row_answers_the_last_three() -> None:
    q = FLOWS.window(range=gl.rows(3), slide=gl.rows(2)).aggregate(n=gl.count(), top=gl.max("len"))
    assert answers(q, ROWS) == [(2, 4, 2, 7), (4, 9, 3, 9), (9, INF, 3, 9)]


def test_ranks_of_one_time_go_by_payload() -> None:
    q = FLOWS.window(range=gl.rows(1), slide=gl.rows(3)).aggregate(top=gl.max("len"))
    assert answers(q, ROWS) == [(4, 9, 2), (9, INF, 3)]  # (4, A, 2) is before (4, A, 9)


def test_partitions_count_for_themselves() -> None:
    q = FLOWS.window(range=gl.rows(2), slide=gl.rows(1), partition_by="src")
    assert answers(q.group_by("src").aggregate(n=gl.count(), sum=gl.sum("len")), ROWS) == [
        (1, 4, "A", 1, 5),
        (2, 9, "B", 1, 7),
        (4, 6, "A", 2, 11),
        (6, INF, "A", 2, 10),
        (9, INF, "B", 2, 10),
    ]


def test_every_row_ends_a_window_of_time() -> None:
    q = FLOWS.window(range=4, slide=gl.rows(1)).aggregate(n=gl.count())
    assert answers(q, ROWS) == [(1, 2, 1), (2, 4, 2), (4, 6, 4), (6, 9, 3), (9, INF, 2)]


def test_the_last_rows_are_answered_by_time_and_held() -> None:
    q = FLOWS.window(range=gl.rows(2), slide=5).aggregate(sum=gl.sum("len"))
    assert answers(q, ROWS) == [(5, 10, 11), (10, INF, 4)]


def test_a_landmark_slides_by_rows_and_answers_the_groups_with_news() -> None:
    q = FLOWS.window(range="all", slide=gl.rows(2)).group_by("src").aggregate(n=gl.count())
    assert answers(q, ROWS) == [(2, 4, "A", 1), (2, 9, "B", 1), (4, 9, "A", 3), (9, INF, "A", 4),
                                (9, INF, "B", 2)]  # fmt: skip


# -- writing them ---------------------------------------------------------------------------------

HALF: Any = 1.5
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no rows": (lambda: gl.rows(0), r"rows\(0\): a whole number of rows, 1 to"),
    "half a row": (lambda: gl.rows(HALF), r"rows\(1.5\)"),
    "another column": (
        lambda: FLOWS.window(range=gl.rows(10), slide=gl.rows(1), on="len"),
        "ranked by their time, which is the source's",
    ),
    "partitions of time": (
        lambda: FLOWS.window(range="10ms", slide="5ms", partition_by="src"),
        r"say group_by\('src'\) above them",
    ),
    "no such partition": (
        lambda: FLOWS.window(range=gl.rows(1), slide=gl.rows(1), partition_by="scr"),
        "no column 'scr'.*src",
    ),
    "partitions without groups": (
        lambda: FLOWS.window(range=gl.rows(1), slide=gl.rows(1), partition_by="src").aggregate(
            n=gl.count()
        ),
        r"say group_by\('src'\).aggregate",
    ),
    "early": (
        lambda: FLOWS.window(range=gl.rows(1), slide=gl.rows(1)).aggregate(
            n=gl.count(), early=True
        ),
        "leave early out",
    ),
    "a step above it": (
        lambda: FLOWS.window(range=gl.rows(1), slide=gl.rows(1)).where(gl.col("len") > 1),
        "put where, select, union and the like below the window",
    ),
    "a window above it": (
        lambda: FLOWS.window(range=gl.rows(1), slide=gl.rows(1)).window("5ms"),
        "answered by the aggregate directly above",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_meant_says_what_to_write(name: str) -> None:
    make, says = WRONG[name]
    with pytest.raises((Misuse, gl.SchemaError), match=says):
        make()


def test_a_window_alone_has_no_answer() -> None:
    window = FLOWS.window(range=gl.rows(1), slide=gl.rows(1))
    with pytest.raises(Misuse, match="put an aggregate above it"):
        gl.Plan(window).compile()


def test_rows_between_windows_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="3 rows, is longer than the range, 2 rows"):
        FLOWS.window(range=gl.rows(2), slide=gl.rows(3))


@pytest.mark.parametrize(
    ("span", "slide", "by", "context"),
    [
        (gl.rows(9), gl.rows(3), (), "CF"),
        (gl.rows(9), gl.rows(3), "src", "FCF"),
        ("all", gl.rows(3), "src", "FCF"),
        ("9ms", gl.rows(1), (), "FCA"),
        (gl.rows(9), "3ms", (), "FCA"),
    ],
)
def test_explain_says_what_the_windows_of_a_row_follow_from(
    span: Any, slide: Any, by: Any, context: str
) -> None:
    groups = [by] if by else ["src"]
    q = FLOWS.window(range=span, slide=slide, partition_by=by).group_by(*groups)
    [line] = [x for x in q.aggregate(n=gl.count()).explain().splitlines() if "window" in x]
    assert line.split()[-1] == context


def test_windows_of_time_are_context_free() -> None:
    said = FLOWS.window(range="10ms", slide="5ms").aggregate(n=gl.count()).explain()
    assert "window range 10 ms, slide 5 ms" in said
    assert said.splitlines()[1].split()[-1] == "CF"


def test_documents_keep_what_is_counted() -> None:
    def counted(slide: int) -> Query:
        window = FLOWS.window(range="5ms", slide=gl.rows(slide), partition_by="src")
        return window.group_by("src").aggregate(n=gl.count())

    again = Query.from_document(counted(3).to_document())
    assert again.same_as(counted(3))
    assert not again.same_as(counted(4))


def test_rows_that_are_late_go_aside_and_the_others_have_their_ranks() -> None:
    q = FLOWS.window(range=gl.rows(2), slide=gl.rows(1)).aggregate(n=gl.count()).on_error("aside")
    rows = [(1, "A", 1), (9, "A", 1), (2, "A", 1), (10, "A", 1)]
    execution = gl.execute(q, batch_of(FLOWS.schema, rows))
    tdb = gl.Tdb(q.schema)
    for frame in execution:
        tdb.fold(frame)
    assert Counter(e.payload[0] for e in tdb.events) == {1: 1, 2: 2}
    assert execution.aside.count == 1
