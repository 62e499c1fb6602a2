"""Individual and joint punctuation: true of all that follows, and the best that is."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import join_marks
from gapless.operators.join import Join
from gapless.operators.join_marks import JoinMarks, JoinProgress
from gapless.operators.operator import Marks
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from tests.effort import cases
from tests.operators import laws

LEFT = StreamSchema({"k": "int64", "ts": "int64"})
RIGHT = StreamSchema({"k": "int64", "ts": "int64"})
OUTPUT = ("ts", "ts_right")


class Sliding:
    """`[ts, ts+r)`: the stable is the bound on ts."""

    grain = 1

    def __init__(self, r: int) -> None:
        self.lag = r

    def lifetimes(self, ts: Times) -> tuple[Times, Times]:
        return ts, ts + self.lag

    def stable(self, bound: int) -> int:
        return bound


class Tumbling:
    """Windows of R, one after the other."""

    def __init__(self, r: int) -> None:
        self.grain, self.lag = r, 2 * r
        self._window = Hopping(r, r)

    def lifetimes(self, ts: Times) -> tuple[Times, Times]:
        start = (self._window.first(ts) + 1) * self.grain
        return start, start + self.grain

    def stable(self, bound: int) -> int:
        return self._window.stable(bound)


Window = Sliding | Tumbling


def joined(left: Window, right: Window, on: Any = (), how: Any = "inner") -> Join:
    progressing = [JoinProgress(i, "ts", w.lag, w.grain) for i, w in enumerate((left, right))]
    return Join(LEFT, RIGHT, on, how=how, progressing=progressing, final_ends=(True, True))


def rows(window: Window, ts: list[int], keys: list[int], bound: int | None) -> tuple[Frame, Marks]:
    """A frame of rows at these times; after it, that no row below the bound comes."""
    times = np.array(ts, np.int64)
    vs, ve = window.lifetimes(times)
    payload = [pa.array(keys, pa.int64()), pa.array(times)]
    stable = None if bound is None else window.stable(bound)
    marks = () if bound is None else (Punctuation.of(ts=bound),)
    return Frame.from_columns(LEFT, vs, ve, payload, stable=stable), marks


def tell(join: Join, source: int, window: Window, bound: int) -> list[str]:
    return [str(m) for m in join.push(source, *rows(window, [], [], bound)).marks]


# -- the figures ----------------------------------------------------------------------------------


def test_figure_7_1_sliding_windows_of_two_ranges() -> None:
    left, right = Sliding(10), Sliding(3)
    join = joined(left, right)
    assert tell(join, 0, left, 100) == []
    # A left row below 95-10+1 has ended by 95; a right one below 95 has not come for long.
    assert tell(join, 1, right, 95) == [
        "no more (ts < 86)",
        "no more (ts_right < 95)",
    ]
    # The right's own bound is more than what 100 - 3 + 1 says.
    assert tell(join, 1, right, 99) == [
        "no more (ts < 90)",
        "no more (ts_right < 98)",
        "no more (ts < 100 and ts_right < 99)",
    ]


def test_figure_7_2_and_7_4_tumbling_windows() -> None:
    window = Tumbling(10)
    join = joined(window, window)
    tell(join, 0, window, 27)
    assert tell(join, 1, window, 14) == ["no more (ts < 10)", "no more (ts_right < 14)"]
    assert tell(join, 1, window, 23) == [
        "no more (ts < 20)",
        "no more (ts_right < 20)",
        "no more (ts < 27 and ts_right < 23)",
    ]
    assert tell(join, 0, window, 30) == ["no more (ts_right < 23)"]


def test_figure_7_3_bounds_have_to_be_within_each_others_windows_both_ways() -> None:
    for b0, b1, near in ((50, 50, 1), (50, 59, 1), (50, 60, 0), (50, 48, 1), (50, 47, 0)):
        left, right = Sliding(10), Sliding(3)
        join = joined(left, right)
        tell(join, 0, left, b0)
        joint = f"no more (ts < {b0} and ts_right < {b1})"
        assert (joint in tell(join, 1, right, b1)) == bool(near), (b0, b1)


def test_figure_7_5_a_box_is_complete_before_a_slab_is() -> None:
    window = Sliding(3)  # |S0.ts - S1.ts| <= 2
    join = joined(window, window)
    tell(join, 1, window, 1)
    box = tell(join, 0, window, 2)
    assert "no more (ts < 2 and ts_right < 1)" in box
    assert "no more (ts_right < 1)" not in box
    assert "no more (ts_right < 1)" in tell(join, 0, window, 3)


# -- true, and the best that is -------------------------------------------------------------------


def told(window: Window, rng: random.Random) -> list[tuple[Frame, Marks]]:
    """Rows that come up to 6 late, and bounds that are as good as can be, or a little less."""
    frames = []
    times = [[4 * i + rng.randint(-6, 0) for _ in range(rng.randrange(4))] for i in range(12)]
    for i, ts in enumerate(times):
        later = [t for other in times[i + 1 :] for t in other]
        bound = min(later, default=60) - rng.choice((0, 0, 3)) if rng.random() < 0.7 else None
        frames.append(rows(window, ts, [rng.randrange(2) for _ in ts], bound))
    return best_so_far(frames)


def best_so_far(frames: list[tuple[Frame, Marks]]) -> list[tuple[Frame, Marks]]:
    """Bounds that went back are left out."""
    best, kept = -(2**60), []
    for frame, marks in frames:
        bound = marks[0].bounds[0][1] if marks else best
        ok = bound > best
        best = max(best, bound)
        kept.append((frame, marks) if ok else (frame.with_stable(None), ()))
    return kept


def check(join: Join, windows: tuple[Window, Window], seed: int) -> int:
    """Pushes random rows; every mark holds of every row that follows. How many marks there were."""
    rng = random.Random(seed)
    left = [list(reversed(told(w, rng))) for w in windows]
    heard: list[Punctuation] = []
    while any(left):
        source = rng.choice([i for i in (0, 1) if left[i]])
        out = join.push(source, *left[source].pop())
        for mark in heard:
            assert not mark.matches(out.frame.payload).any(), (seed, str(mark))
        heard += out.marks
    return len(heard)


PAIRS: list[tuple[Window, Window]] = [
    (Sliding(5), Sliding(5)),
    (Sliding(1), Sliding(12)),
    (Tumbling(8), Tumbling(8)),
]


@pytest.mark.parametrize("windows", PAIRS)
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_marks_hold_of_all_that_follows(windows: tuple[Window, Window], how: Any) -> None:
    for seed in range(cases(40)):
        assert check(joined(*windows, [("k", "k")], how), windows, seed) > 5


@pytest.mark.parametrize("windows", PAIRS)
def test_marks_are_the_best_that_are_true(windows: tuple[Window, Window]) -> None:
    """Some row that may still come gives a result just at the bound, for each individual one."""
    for seed in range(cases(60)):
        rng = random.Random(seed)
        bounds = rng.randint(40, 60), rng.randint(40, 60)
        join = joined(*windows)
        # On both sides a row at each time so far is there; then the bounds are promised.
        for source, window in enumerate(windows):
            frame, _ = rows(window, [*range(20, bounds[source])], [0] * (bounds[source] - 20), None)
            join.push(source, frame)
        join.push(0, *rows(windows[0], [], [], bounds[0]))
        marks = join.push(1, *rows(windows[1], [], [], bounds[1])).marks
        individual = {m.bounds[0][0]: m.bounds[0][1] for m in marks if len(m.bounds) == 1}
        lowest = [10**9, 10**9]
        for source, window in enumerate(windows):
            ts = [*range(bounds[source], bounds[source] + 30)]
            frame, _ = rows(window, ts, [0] * 30, None)
            result = join.push(source, frame).frame.payload
            for i, name in enumerate(OUTPUT):
                found = result[name].to_numpy()
                lowest[i] = min(lowest[i], int(found.min()) if len(found) else 10**9)
        assert [individual[name] for name in OUTPUT] == lowest, (seed, bounds)


def test_nothing_is_said_twice_and_nothing_of_columns_that_nobody_named() -> None:
    window = Sliding(5)
    join = joined(window, window)
    tell(join, 0, window, 50)
    assert tell(join, 1, window, 50) != []
    assert tell(join, 1, window, 50) == []
    plain = Join(LEFT, RIGHT, [])
    tell(plain, 0, window, 50)
    assert tell(plain, 1, window, 50) == []


def test_only_marks_of_the_column_alone_count() -> None:
    window = Sliding(5)
    join = joined(window, window)
    tell(join, 0, window, 50)
    frame, _ = rows(window, [], [], 50)
    for mark in (Punctuation.of(ts=50, k=3), Punctuation.of({"k": 1}, ts=50), Punctuation.of(k=9)):
        marks = join.push(1, frame, (mark,)).marks
        assert OUTPUT[1] not in str(marks)


def test_the_end_of_an_input_is_a_bound_on_everything() -> None:
    window = Sliding(5)
    join = joined(window, window)
    tell(join, 0, window, 50)
    end = Frame.empty(RIGHT, INF)
    assert [str(m) for m in join.push(1, end).marks] == [
        "no more (ts < 50)",
        "no more (ts_right < 46)",
    ]


def test_of_a_key_column_nothing_is_said_where_the_other_sides_null_rows_have_it() -> None:
    how: Any
    for how, said in (("inner", 2), ("left", 1), ("right", 1), ("full", 0)):
        progressing = [JoinProgress(i, "ts", 5) for i in (0, 1)]
        join = Join(LEFT, RIGHT, [("ts", "ts")], how=how, progressing=progressing)
        tell(join, 0, Sliding(5), 50)
        assert len(tell(join, 1, Sliding(5), 50)) == said


def test_a_restored_join_says_the_same() -> None:
    for seed in range(cases(30)):
        rng = random.Random(seed)
        windows = PAIRS[seed % 3]
        streams = [list(reversed(told(w, rng))) for w in windows]
        at, said = rng.randint(1, 20), 0
        old = new = joined(*windows, [("k", "k")])
        while any(streams):
            source = rng.choice([i for i in (0, 1) if streams[i]])
            frame, marks = streams[source].pop()
            at -= 1
            if at == 0:
                new = joined(*windows, [("k", "k")])
                new.restore(old.snapshot())
            out = old.push(source, frame, marks)
            said += len(out.marks)
            if at <= 0:
                other = new.push(source, frame, marks)
                assert laws.rows_and_stable(other) == laws.rows_and_stable(out)
        assert said


@pytest.mark.parametrize(
    ("progressing", "kind", "problem"),
    [
        (lambda: JoinProgress(2, "ts", 5), Misuse, "side is 0 or 1"),
        (lambda: JoinProgress(0, "ts", 5, 0), Misuse, "grain at least 1"),
        (lambda: JoinProgress(0, "t", 5), SchemaError, "the columns are k, ts, x"),
        (lambda: JoinProgress(0, "x", 5), SchemaError, "a bound needs integers or times"),
    ],
)
def test_what_cannot_progress_is_refused(progressing: Any, kind: Any, problem: str) -> None:
    schema = StreamSchema({"k": "int64", "ts": "int64", "x": "float64"})
    with pytest.raises(kind, match=problem):
        Join(schema, schema, [("k", "k")], progressing=[progressing()])


# -- deliberately broken --------------------------------------------------------------------------


TOO_MUCH: dict[str, Callable[[JoinProgress, int], int]] = {
    "one more": lambda p, stable: stable + p.grain - p.lag + 1,
    "a grain more": lambda p, stable: stable + 2 * p.grain - p.lag,
    "no window": lambda p, stable: stable,
}


@pytest.mark.parametrize("wrong", TOO_MUCH)
def test_a_bound_that_says_too_much_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_marks, "_others_say", TOO_MUCH[wrong])

    def check_some() -> None:
        for seed in range(cases(30)):
            for windows in PAIRS:
                check(joined(*windows, [("k", "k")]), windows, seed)

    with pytest.raises(AssertionError):
        check_some()


def test_a_joint_mark_read_as_two_individual_ones_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tell_jointly = JoinMarks.tell

    def tell_apart(self: JoinMarks, stables: tuple[int, int]) -> Marks:
        marks = tell_jointly(self, stables)
        return tuple(Punctuation((bound,)) for m in marks for bound in m.bounds)

    monkeypatch.setattr(JoinMarks, "tell", tell_apart)

    def check_some() -> None:
        for seed in range(cases(30)):
            check(joined(*PAIRS[0], [("k", "k")]), PAIRS[0], seed)

    with pytest.raises(AssertionError):
        check_some()
