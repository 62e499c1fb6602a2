import random
from collections import Counter

import numpy as np
import pytest

from gapless.operators import aggregate
from gapless.operators.aggregate import CountByWindow
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF, Element, Insert, Stable
from gapless.protocol.errors import Misuse, SchemaError, StreamViolation
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse

SOURCE = StreamSchema({"src": "string", "len": "int32"})


def counts(window: Hopping, rows: list[tuple[str, int]]) -> Tdb:
    """The oracle: each window's extent is scanned for its rows."""
    schema = CountByWindow(SOURCE, window, ["src"]).schema
    answers: Counter[tuple[str, int]] = Counter()
    for w in range(-40, 80):
        start, end = window.extent(w)
        answers.update((src, w) for src, ts in rows if start <= ts < end)
    return Tdb(schema, (Event((src, n), *window.answer(w)) for (src, w), n in answers.items()))


def stream(rng: random.Random, rows: list[tuple[str, int]]) -> list[Frame]:
    """The rows in any order, stables wherever they are true, an end."""
    rows = rng.sample(rows, len(rows))
    if rng.random() < 0.7:
        rows.sort(key=lambda row: row[1] + rng.randint(0, 10))
    elements: list[Element] = []
    stable = BEGIN
    for i, (src, ts) in enumerate(rows):
        elements.append(Insert((src, i), ts, ts + 1))
        floor = min((t for _, t in rows[i + 1 :]), default=ts)
        if rng.random() < 0.4 and floor > stable:
            stable = floor
            elements.append(Stable(floor))
    return list(frames_of(SOURCE, [*elements, Stable(INF)]))


def drawn(seed: int) -> tuple[random.Random, Hopping, list[tuple[str, int]]]:
    rng = random.Random(seed)
    window = Hopping(rng.randint(1, 12), rng.randint(1, 12))
    rows = [(rng.choice("abc"), rng.randint(-20, 40)) for _ in range(rng.randint(0, 40))]
    return rng, window, rows


def test_a_row_counts_in_each_window_whose_extent_it_is_in() -> None:
    count = CountByWindow(SOURCE, Hopping(10, 5), ["src"])
    frame = Frame.from_elements(SOURCE, parse("ins((A,1),7,8) stable(16)", SOURCE))
    assert (
        format(count.push(0, frame).frame.elements())
        == "ins((A,1),10,15) ins((A,1),15,20) stable(20)"
    )


def test_any_order_of_rows_gives_the_counts_of_a_scan() -> None:
    for seed in range(120):
        rng, window, rows = drawn(seed)
        count = CountByWindow(SOURCE, window, ["src"])
        answers = Tdb(count.schema)
        for frame in stream(rng, rows):
            # raises where a stable was promised too early
            answers.fold(count.push(0, frame).frame)
            count.validate()
        wanted = counts(window, rows)
        assert answers == wanted, f"seed {seed}: {window}\n{answers.difference(wanted)}"
        assert answers.stable == INF


def test_its_stable_is_as_early_as_it_may_be() -> None:
    count = CountByWindow(SOURCE, Hopping(10, 5), ["src"])
    for t, promised in [(-1, 0), (0, 5), (4, 5), (5, 10), (9, 10), (10, 15)]:
        assert count.push(0, Frame.empty(SOURCE, t)).frame.stable == promised


def test_fast_forward_changes_no_answer_that_is_still_wanted() -> None:
    for seed in range(60):
        rng, window, rows = drawn(seed)
        count = CountByWindow(SOURCE, window, ["src"])
        told = Tdb(count.schema)
        skipped = BEGIN
        for frame in stream(rng, rows):
            if rng.random() < 0.3:
                skipped = max(skipped, rng.randint(-20, 50))
                needed = count.fast_forward(skipped)
                assert skipped - needed <= count.reach
            told.fold(count.push(0, frame).frame)
            count.validate()
        wanted = counts(window, rows)
        assert told.since(skipped) == wanted.since(skipped)


def test_starting_reach_before_t_gives_every_answer_from_t_on() -> None:
    for seed in range(60):
        rng, window, rows = drawn(seed)
        t = rng.randint(-20, 40)
        count = CountByWindow(SOURCE, window, ["src"])
        count.fast_forward(t)
        told = Tdb(count.schema)
        for frame in stream(rng, [row for row in rows if row[1] >= t - count.reach]):
            told.fold(count.push(0, frame).frame)
        assert told == counts(window, rows).since(t)


def test_state_goes_back_to_its_level_over_a_long_stream() -> None:
    count = CountByWindow(SOURCE, Hopping(10, 10), ["src"])
    sizes = []
    for i in range(200):
        rows: list[Element] = [Insert((f"k{k}", k), 10 * i + k % 10, INF) for k in range(20)]
        count.push(0, Frame.from_elements(SOURCE, [*rows, Stable(10 * i + 9)]))
        sizes.append(count.nbytes)
    assert max(sizes[20:]) <= max(sizes[:20])


def test_grouping_by_nothing_counts_all_rows() -> None:
    count = CountByWindow(SOURCE, Hopping(10, 10), [])
    frame = Frame.from_elements(SOURCE, parse("ins((A,1),7,8) ins((B,1),8,9) stable(10)", SOURCE))
    assert format(count.push(0, frame).frame.elements()) == "ins(2,10,20) stable(20)"


def test_unknown_columns_and_adjusts_are_refused() -> None:
    with pytest.raises(SchemaError, match="group_by 'dst'"):
        CountByWindow(SOURCE, Hopping(10, 10), ["dst"])
    count = CountByWindow(SOURCE, Hopping(10, 10), ["src"])
    with pytest.raises(Misuse):
        count.push(0, Frame.from_elements(SOURCE, parse("adj((A,1),7,8,9)", SOURCE)))


def test_rows_at_both_edges_of_time_are_counted_or_refused() -> None:
    for window in (Hopping(1, 1), Hopping(10, 5), Hopping(3, 7)):
        for ts in (BEGIN + 1, window.latest):
            count = CountByWindow(SOURCE, window, ["src"])
            assert not count.push(
                0, Frame.from_elements(SOURCE, [Insert(("a", 1), ts, ts + 1)])
            ).frame
            answers = count.push(0, Frame.empty(SOURCE, INF)).frame
            in_windows = window.last(np.array([ts])) - window.first(np.array([ts])) + 1
            assert len(answers) == max(0, int(in_windows[0]))
        count = CountByWindow(SOURCE, window, ["src"])
        late = [Insert(("a", 1), 7, 8), Insert(("a", 1), window.latest + 1, INF)]
        with pytest.raises(StreamViolation, match=str(window.latest)):
            count.push(0, Frame.from_elements(SOURCE, late))
        assert count.push(0, Frame.empty(SOURCE, INF)).frame == Frame.empty(count.schema, INF)


def test_rows_that_come_far_below_what_is_wanted_or_answered_count_nowhere() -> None:
    row = Frame.from_elements(SOURCE, [Insert(("a", 1), BEGIN + 3, 8)])
    for window in (Hopping(1, 1), Hopping(10, 5)):
        answered, skipped = (CountByWindow(SOURCE, window, ["src"]) for _ in range(2))
        answered.push(0, Frame.empty(SOURCE, INF))
        skipped.fast_forward(INF - 1)
        for count in (answered, skipped):
            count.push(0, row)
            count.validate()
            assert not len(count.push(0, Frame.empty(SOURCE, INF)).frame)


def test_a_row_in_too_many_windows_is_refused_when_the_query_is_made() -> None:
    CountByWindow(SOURCE, Hopping(86_400, 1), ["src"])
    with pytest.raises(Misuse, match="1000000000 windows"):
        CountByWindow(SOURCE, Hopping(10**9, 1), ["src"])


def test_frames_are_counted_in_pieces_that_bound_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate, "COUNTED_AT_ONCE_MAX", 7)
    for seed in range(20):
        rng, window, rows = drawn(seed)
        count, answers = CountByWindow(SOURCE, window, ["src"]), Tdb(counts(window, []).schema)
        for frame in stream(rng, rows):
            answers.fold(count.push(0, frame).frame)
            count.validate()
        assert answers == counts(window, rows)
