"""Windowed aggregates, both implementations: against a scan of each window's extent.

A third of the windows that are drawn cumulate, half have an origin.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest

from gapless.kernels.keys import Ids
from gapless.operators import cells, paned, wid
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.answers import Answers
from gapless.operators.aside import Aside
from gapless.operators.cumulative_window import CumulativeWindow
from gapless.operators.hopping_aggregate import HoppingAggregate, Implementation
from gapless.operators.operator import Marks
from gapless.operators.paned import Paned
from gapless.operators.panes import Panes
from gapless.operators.present_window import PresentWindow
from gapless.operators.told_answers import Revision, ToldAnswers
from gapless.operators.windows import Cumulating, Cut, Hopping
from gapless.protocol.elements import BEGIN, INF, Element, Insert, Stable
from gapless.protocol.errors import GaplessError, MemoryLimit, Misuse, RowError, SchemaError
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from tests.effort import cases

SOURCE = StreamSchema({"src": "string", "len": "int32"})
IMPLEMENTATIONS: list[Implementation] = ["paned", "wid"]
Row = tuple[str, int | None, int]
"""src, len, ts."""


def values(rows: list[Row]) -> list[int]:
    return [v for _, v, _ in rows if v is not None]


FUNCTIONS: dict[str, tuple[AggregateFunction, Callable[[list[Row]], object]]] = {
    "n": (calls.count(), len),
    "sum": (calls.sum_("len"), lambda rows: math.fsum(values(rows)) if values(rows) else None),
    "low": (calls.min_("len"), lambda rows: min(values(rows), default=None)),
    "high": (calls.max_("len"), lambda rows: max(values(rows), default=None)),
    "kinds": (calls.count_distinct("len"), lambda rows: len(set(values(rows)))),
    "first": (
        calls.first("len"),
        lambda rows: min(((t, v) for _, v, t in rows if v is not None), default=(0, None))[1],
    ),
}
AGGREGATES = [(name, function) for name, (function, _) in FUNCTIONS.items()]
COUNT: list[tuple[str, AggregateFunction]] = [("n", calls.count())]


def made(
    window: Cut = Hopping(10, 5),  # noqa: B008  # immutable
    implementation: Implementation = "paned",
    aggregates: list[tuple[str, AggregateFunction]] = COUNT,
    **options: object,
) -> HoppingAggregate:
    return HoppingAggregate(SOURCE, window, ["src"], aggregates, implementation, **options)  # type: ignore[arg-type]  # the caller's


def scanned(window: Cut, rows: list[Row]) -> Tdb:
    """The oracle: each window's extent is scanned for its rows."""
    events = []
    for w in range(-40, 80):
        start, end = window.extent(w)
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if start <= row[2] < end:
                groups[row[0]].append(row)
        for src, members in groups.items():
            payload = (src, *(of(members) for _, of in FUNCTIONS.values()))
            events.append(Event(payload, *window.answer(w)))
    return Tdb(made(window, aggregates=AGGREGATES).schema, events)


def stream(rng: random.Random, rows: list[Row], end: bool = True) -> list[Frame]:
    """The rows in any order, stables wherever they are true, an end."""
    rows = rng.sample(rows, len(rows))
    if rng.random() < 0.7:
        rows.sort(key=lambda row: row[2] + rng.randint(0, 10))
    elements: list[Element] = []
    stable = BEGIN
    for i, (src, v, ts) in enumerate(rows):
        elements.append(Insert((src, v), ts, ts + 1))
        floor = min((t for _, _, t in rows[i + 1 :]), default=ts)
        if rng.random() < 0.4 and floor > stable:
            stable = floor
            elements.append(Stable(floor))
    frames = frames_of(SOURCE, [*elements, Stable(INF)] if end else elements)
    return [piece for frame in frames for piece in pieces(rng, frame)]


def pieces(rng: random.Random, frame: Frame) -> list[Frame]:
    if len(frame) < 2 or rng.random() < 0.5:
        return [frame]
    cut = rng.randint(1, len(frame) - 1)
    return [frame.slice(0, cut), frame.slice(cut, None, frame.stable)]


def drawn(seed: int) -> tuple[random.Random, Cut, list[Row]]:
    rng = random.Random(seed)
    window: Cut = Hopping(rng.randint(1, 12), rng.randint(1, 12))
    if rng.random() < 1 / 3:
        window = Cumulating(window.slide * rng.randint(1, 6), window.slide)
    if rng.random() < 1 / 2:
        window = replace(window, origin=rng.randrange(window.slide))
    rows: list[Row] = [
        (rng.choice("abc"), rng.choice([None, *range(-3, 4)]), rng.randint(-20, 40))
        for _ in range(rng.randint(0, 40))
    ]
    return rng, window, rows


def run(operator: HoppingAggregate, frames: list[Frame]) -> Tdb:
    answers = Tdb(operator.schema)
    for frame in frames:
        answers.fold(operator.push(0, frame).frame)  # raises where a stable came too early
        operator.validate()
    return answers


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_row_counts_in_each_window_whose_extent_it_is_in(
    implementation: Implementation,
) -> None:
    frame = Frame.from_elements(SOURCE, parse("ins((A,1),7,8) stable(16)", SOURCE))
    out = made(implementation=implementation).push(0, frame).frame
    assert format(out.elements()) == "ins((A,1),10,15) ins((A,1),15,20) stable(20)"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("early", [None, 7, INF])
def test_any_order_and_cut_of_rows_gives_the_answers_of_a_scan(
    implementation: Implementation, early: int | None
) -> None:
    for seed in range(cases(80)):
        rng, window, rows = drawn(seed)
        operator = made(window, implementation, AGGREGATES, early=early)
        answers = run(operator, stream(rng, rows))
        wanted = scanned(window, rows)
        assert answers == wanted, f"seed {seed}: {window}\n{answers.difference(wanted)}"
        assert answers.stable == INF


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_cells_that_are_sparse_or_far_apart_make_no_difference(
    implementation: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("DENSE_CELLS_MIN", "DENSE_PLACES_MAX"):
        with monkeypatch.context() as patch:
            patch.setattr(cells, limit, 4)
            patch.setattr(cells, "DENSE_SHARE", 1)
            for seed in range(cases(40)):
                rng, window, rows = drawn(seed)
                operator = made(window, implementation, AGGREGATES)
                assert run(operator, stream(rng, rows)) == scanned(window, rows), f"seed {seed}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rows_at_the_two_ends_of_time_need_no_room_between(
    implementation: Implementation,
) -> None:
    window = Hopping(10, 5)
    operator = made(window, implementation)
    times = [BEGIN + 1, 0, window.latest]
    out = run(operator, stream(random.Random(1), [("a", 1, t) for t in times]))
    assert len(out.events) == sum(len(window.wids(t)) for t in times)
    assert operator.nbytes < 1 << 20


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_its_stable_is_as_early_as_it_may_be(implementation: Implementation) -> None:
    operator = made(implementation=implementation)
    for t, promised in [(-1, 0), (0, 5), (4, None), (5, 10), (9, None), (10, 15)]:
        assert operator.push(0, Frame.empty(SOURCE, t)).frame.stable == promised


def test_early_answers_come_at_the_stable_that_brings_them_near() -> None:
    operator = made(early=5)
    frame = Frame.from_elements(SOURCE, parse("ins((A,1),7,8) stable(7)", SOURCE))
    assert format(operator.push(0, frame).frame.elements()) == "ins((A,1),10,15) stable(10)"
    frame = Frame.from_elements(SOURCE, parse("ins((A,1),9,10) stable(10)", SOURCE))
    assert format(operator.push(0, frame).frame.elements()) == (
        "adj((A,1),10,15,10) ins((A,2),10,15) ins((A,2),15,20) stable(15)"
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("early", [None, 4])
def test_a_restored_one_goes_on_as_the_old_one_would(
    implementation: Implementation, early: int | None
) -> None:
    for seed in range(cases(40)):
        rng, window, rows = drawn(seed)
        frames = stream(rng, rows)
        at = rng.randint(0, len(frames))
        operator = made(window, implementation, AGGREGATES, early=early)
        answers = run(operator, frames[:at])
        again = made(window, implementation, AGGREGATES, early=early)
        again.restore(operator.snapshot())
        again.validate()
        for frame in frames[at:]:
            answers.fold(again.push(0, frame).frame)
        assert answers == scanned(window, rows), f"seed {seed}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_fast_forward_changes_no_answer_that_is_still_wanted(
    implementation: Implementation,
) -> None:
    for seed in range(cases(60)):
        rng, window, rows = drawn(seed)
        operator = made(window, implementation, AGGREGATES)
        told = Tdb(operator.schema)
        skipped = BEGIN
        for frame in stream(rng, rows):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(-20, 50))
                needed = operator.fast_forward(skipped)
                assert skipped - needed <= operator.reach
            told.fold(operator.push(0, frame).frame)
            operator.validate()
        assert told.since(skipped) == scanned(window, rows).since(skipped), f"seed {seed}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_starting_reach_before_t_gives_every_answer_from_t_on(
    implementation: Implementation,
) -> None:
    for seed in range(cases(60)):
        rng, window, rows = drawn(seed)
        t = rng.randint(-20, 40)
        operator = made(window, implementation, AGGREGATES)
        operator.fast_forward(t)
        late = [row for row in rows if row[2] >= t - operator.reach]
        assert run(operator, stream(rng, late)) == scanned(window, rows).since(t)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_state_goes_back_to_its_level_over_a_long_stream(implementation: Implementation) -> None:
    operator = made(Hopping(20, 10), implementation, AGGREGATES)
    sizes = []
    for i in range(200):
        rows: list[Element] = [
            Insert((f"k{k + i % 3}", k), 10 * i + k % 10, INF) for k in range(20)
        ]
        operator.push(0, Frame.from_elements(SOURCE, [*rows, Stable(10 * i + 9)]))
        sizes.append(operator.nbytes)
    assert max(sizes[100:]) <= max(sizes[:100])


def test_places_without_rows_between_others_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cells, "ROWS_A_PLACE", 0)
    operator = made(Hopping(20, 10), aggregates=AGGREGATES)
    sizes = []
    for i in range(200):
        rows: list[Element] = [Insert(("k", 1), 100 * i + t, INF) for t in (0, 5, 70)]
        answers = run(operator, [Frame.from_elements(SOURCE, [*rows, Stable(100 * i + 90)])])
        assert len(answers) == 4
        sizes.append(operator.nbytes)
    assert max(sizes[100:]) <= max(sizes[:100])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_grouping_by_nothing_counts_all_rows(implementation: Implementation) -> None:
    operator = HoppingAggregate(SOURCE, Hopping(10, 10), [], COUNT, implementation)
    frame = Frame.from_elements(SOURCE, parse("ins((A,1),7,8) ins((B,1),8,9) stable(10)", SOURCE))
    assert format(operator.push(0, frame).frame.elements()) == "ins(2,10,20) stable(20)"
    assert format(operator.push(0, Frame.empty(SOURCE, INF)).frame.elements()) == "stable(inf)"


# -- single groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_group_that_is_closed_is_answered_at_once_and_never_again(
    implementation: Implementation,
) -> None:
    operator = made(implementation=implementation)
    rows = Frame.from_elements(SOURCE, parse("ins((A,1),7,8) ins((B,1),7,8)", SOURCE))
    marks: Marks = (Punctuation.of({"src": "A"}, _vs=10),)
    assert format(operator.push(0, rows, marks).frame.elements()) == "ins((A,1),10,15)"
    operator.validate()
    out = operator.push(0, Frame.empty(SOURCE, 10)).frame
    assert format(out.elements()) == "ins((B,1),10,15) stable(15)"
    out = operator.push(0, Frame.empty(SOURCE, INF)).frame
    assert len(out) == 2


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_marks_of_groups_never_change_the_answers(implementation: Implementation) -> None:
    for seed in range(cases(60)):
        rng, window, rows = drawn(seed)
        operator = made(window, implementation, AGGREGATES)
        answers, left = Tdb(operator.schema), list(rows)
        for frame in stream(rng, rows):
            for e in frame.elements():
                if isinstance(e, Insert):
                    left.remove((e.payload[0], e.payload[1], e.vs))
            marks = []
            if rng.random() < 0.5:
                src = rng.choice("abc")
                t = min((row[2] for row in left if row[0] == src), default=INF)
                marks.append(Punctuation.of({"src": src}, _vs=t))
            answers.fold(operator.push(0, frame, tuple(marks)).frame)
            operator.validate()
        assert answers == scanned(window, rows), f"seed {seed}"


def test_a_progressing_column_is_complete_by_its_marks() -> None:
    schema = StreamSchema({"src": "string", "at": "int64"})
    operator = HoppingAggregate(schema, Hopping(5, 5), ["src"], COUNT, on="at")
    rows = Frame.from_elements(
        schema, parse("ins((A,7),70,80) ins((A,12),1,80) stable(60)", schema)
    )
    assert not operator.push(0, rows).frame
    out = operator.push(0, Frame.empty(schema), (Punctuation.of(at=10),)).frame
    assert format(out.elements()) == "ins((A,1),10,15) stable(15)"
    assert format(operator.push(0, Frame.empty(schema, INF)).frame.elements()) == (
        "ins((A,1),15,20) stable(inf)"
    )
    assert operator.reach == INF


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["int32", "int64", "timestamp[ms]"])
def test_a_row_that_is_null_in_the_column_that_is_read_goes_aside(column: str) -> None:
    schema = StreamSchema({"at": column, "src": "int32"})
    aside = Aside("aside")
    operator = HoppingAggregate(schema, Hopping(5, 5), ["src"], COUNT, on="at", aside=aside)
    rows: list[Element] = [Insert((None, 1), 3, 9), Insert((2, 1), 3, 9), Stable(INF)]
    out = operator.push(0, Frame.from_elements(schema, rows)).frame
    assert format(out.elements()) == "ins((1,1),5,10) stable(inf)"
    assert [(a.reason, a.rows.num_rows) for a in aside.take()] == [("at is no time", 1)]


def test_what_makes_no_sense_is_refused_when_the_query_is_made() -> None:
    with pytest.raises(SchemaError, match="group_by 'dst'"):
        HoppingAggregate(SOURCE, Hopping(10, 10), ["dst"], COUNT)
    with pytest.raises(SchemaError, match="on='dst'"):
        made(on="dst")
    with pytest.raises(Misuse, match="at least one aggregate"):
        made(aggregates=[])
    with pytest.raises(Misuse, match="paned"):
        made(implementation="fast")  # type: ignore[arg-type]  # on purpose
    made(Hopping(86_400, 1), "wid")
    with pytest.raises(Misuse, match="1000000000 windows"):
        made(Hopping(10**9, 1), "wid")
    made(Hopping(10**9, 1), "paned")


def test_an_adjust_is_refused() -> None:
    with pytest.raises(Misuse, match="Settle"):
        made().push(0, Frame.from_elements(SOURCE, parse("adj((A,1),7,8,9)", SOURCE)))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rows_that_count_nowhere_any_more_go_aside(implementation: Implementation) -> None:
    late = Frame.from_elements(SOURCE, parse("ins((A,1),3,4)", SOURCE))
    stops = made(implementation=implementation)
    stops.push(0, Frame.empty(SOURCE, 10))
    with pytest.raises(RowError, match=r"late.*'A'"):
        stops.push(0, late)
    aside = Aside("aside")
    goes_on = made(implementation=implementation, aside=aside)
    goes_on.push(0, Frame.empty(SOURCE, 10))
    goes_on.push(0, late)
    assert not len(goes_on.push(0, Frame.empty(SOURCE, INF)).frame)
    assert aside.count == 1


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rows_whose_answers_would_end_beyond_time_go_aside(
    implementation: Implementation,
) -> None:
    window = Hopping(10, 5)
    aside = Aside("aside")
    operator = made(window, implementation, aside=aside)
    rows: list[Element] = [Insert(("a", 1), t, INF) for t in (7, window.latest + 1)]
    run(operator, [Frame.from_elements(SOURCE, [*rows, Stable(INF)])])
    assert aside.count == 1
    assert str(window.latest) in aside.take()[0].reason


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_an_answer_beyond_int64_goes_aside_and_the_others_are_given(
    implementation: Implementation,
) -> None:
    schema = StreamSchema({"src": "string", "len": "int64"})
    aside = Aside("aside")
    sums: list[tuple[str, AggregateFunction]] = [("total", calls.sum_("len"))]
    operator = HoppingAggregate(schema, Hopping(5, 5), ["src"], sums, implementation, aside=aside)
    big = 2**62
    rows: list[Element] = [Insert(("a", big), 1, 2), Insert(("b", 1), 1, 2)]
    rows += [Insert(("a", big), 2, 3), Stable(INF)]
    out = operator.push(0, Frame.from_elements(schema, rows)).frame
    assert format(out.elements()) == "ins((b,1),5,10) stable(inf)"
    (kept,) = aside.take()
    assert kept.rows.to_pylist()[0]["src"] == "a"


def test_time_that_jumps_over_too_many_windows_is_an_error_and_no_endless_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paned, "WINDOWS_AT_ONCE_MAX", 50)
    rows: list[Element] = [Insert(("a", 1), t, INF) for t in (0, 10**12)]
    operator = made(Hopping(10**9, 1))
    with pytest.raises(MemoryLimit, match="far in the future"):
        operator.push(0, Frame.from_elements(SOURCE, [*rows, Stable(INF)]))


def test_rows_are_laid_out_only_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wid, "LAID_OUT_MAX", 7)
    for seed in range(cases(20)):
        rng, window, rows = drawn(seed)
        operator = made(window, "wid", AGGREGATES)
        assert run(operator, stream(rng, rows)) == scanned(window, rows)


# -- the checks above can fail ------------------------------------------------------------------


def _leaves_too_late(patch: pytest.MonkeyPatch) -> None:
    init = PresentWindow.__init__
    patch.setattr(
        PresentWindow,
        "__init__",
        lambda self, grouping, groups, panes: init(
            self, grouping, groups, replace(panes, span=panes.span + 1)
        ),
    )


def _never_begins_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CumulativeWindow, "_clear", lambda self: self._live()[:0])


def _begins_anew_a_window_late(patch: pytest.MonkeyPatch) -> None:
    first = Panes.first

    def late(panes: Panes, window: int) -> int:
        return first(panes, window - panes.cumulate)

    patch.setattr(Panes, "first", late)


def _restarts_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Panes, "windows", lambda panes, n: (n // panes.step, (n + panes.span) // panes.step)
    )


def _forgets_the_origin_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hopping, "relative", lambda _, ts: ts)


def _forgets_the_origin_of_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hopping, "ends", lambda w, windows: (windows + 1) * w.slide)


def _completes_too_early(patch: pytest.MonkeyPatch) -> None:
    below = Hopping.complete_below
    patch.setattr(Hopping, "complete_below", lambda w, t: t if t == INF else below(w, t) + 1)


def _pane_off_by_one(patch: pytest.MonkeyPatch) -> None:
    add = Paned.add
    patch.setattr(
        Paned,
        "add",
        lambda self, times, rows, ends: add(self, times + 1, rows, (ends[0] + 1, ends[1] + 1)),
    )


def _forgets_what_was_told(patch: pytest.MonkeyPatch) -> None:
    change = ToldAnswers._change

    def forgetful(self: ToldAnswers, windows: Ids, keys: Ids, now: Ids) -> Revision:
        revision = change(self, windows, keys, now)
        return revision._replace(gone=Answers(windows[:0], [c[:0] for c in revision.gone.columns]))

    patch.setattr(ToldAnswers, "_change", forgetful)


@pytest.mark.parametrize(
    ("broken", "early"),
    [
        (_leaves_too_late, None),
        (_forgets_the_origin_of_rows, None),
        (_forgets_the_origin_of_answers, None),
        (_never_begins_anew, None),
        (_begins_anew_a_window_late, None),
        (_restarts_are_not_told, None),
        (_restarts_are_not_told, INF),
        (_completes_too_early, None),
        (_pane_off_by_one, None),
        (_forgets_what_was_told, INF),
    ],
)
def test_the_checks_of_this_file_catch_a_broken_one(
    broken: Callable[[pytest.MonkeyPatch], None],
    early: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def caught(seed: int) -> bool:
        rng, window, rows = drawn(seed)
        wanted = scanned(window, rows)
        with monkeypatch.context() as patch:
            broken(patch)
            aside = Aside("aside")
            operator = made(window, "paned", AGGREGATES, early=early, aside=aside)
            try:
                return run(operator, stream(rng, rows)) != wanted or aside.count > 0
            except (GaplessError, IndexError, ValueError):
                return True

    assert any(caught(seed) for seed in range(40))
