import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.engine import closed
from gapless.engine.intake import FRAME_ROWS, TIME_MAX, Intake, Item
from gapless.engine.lateness import KLate, Lateness, TimeLate, Watermarks
from gapless.engine.nodes import Source
from gapless.engine.verdicts import OutOfBound, OutOfPlace, Verdict
from gapless.operators.aside import Aside
from gapless.operators.operator import Marks
from gapless.protocol.elements import BEGIN, INF, Insert
from gapless.protocol.errors import MemoryLimit, Misuse, RowError, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

S = StreamSchema({"ts": "int64", "src": "int32"})
LATENESSES: list[Lateness] = [TimeLate(0), TimeLate(5), KLate(0), KLate(1), KLate(7), Watermarks()]

times = st.one_of(
    st.integers(0, 60), st.sampled_from([None, BEGIN, BEGIN + 1, BEGIN + 3, TIME_MAX, INF])
)
inputs = st.lists(
    st.one_of(
        st.tuples(st.just("row"), times, st.integers(0, 3)),
        st.tuples(st.just("all"), st.integers(1, 70), st.none()),
        st.tuples(st.just("group"), st.integers(1, 70), st.integers(0, 3)),
        st.tuples(st.just("row"), st.integers(0, 60), st.integers(0, 3)),
    ),
    max_size=40,
)


def source(lateness: Lateness, schema: StreamSchema = S) -> Source:
    return Source("s", schema, "ts", lateness)


def batch(rows: Iterable[tuple[Any, ...]], schema: StreamSchema = S) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema.payload, strict=True)],
        schema=schema.payload,
    )


def intake(lateness: Lateness = LATENESSES[-1], mode: Any = "aside", **options: Any) -> Intake:
    return Intake(source(lateness), Aside(mode), **options)


def take(into: Intake, *items: Item) -> list[tuple[Frame, Marks]]:
    return [each for item in items for each in into.take(item)]


def rows_aside(aside: Aside) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for kept in aside.take() for row in kept.rows.to_pylist()]


def items(steps: list[tuple[str, Any, Any]], cuts: set[int]) -> list[Item]:
    """What an input says, its rows cut into batches at these places and at punctuations."""
    out: list[Item] = []
    rows: list[tuple[Any, Any]] = []
    for i, (kind, t, group) in enumerate(steps):
        if rows and (kind != "row" or i in cuts):
            out.append(batch(rows))
            rows = []
        if kind == "row":
            rows.append((t, group))
        else:
            out.append(Punctuation.of({} if kind == "all" else {"src": group}, ts=t))
    return [*out, batch(rows)] if rows else out


class RowByRow:
    """The rules of docs/engine.md, as they are written there."""

    def __init__(self, steps: list[tuple[str, Any, Any]], lateness: Lateness) -> None:
        self.good: list[tuple[int, int]] = []
        self.bad: list[tuple[Any, int]] = []
        self.late = 0
        self.stables: list[int] = []  # after each step
        seen: list[int] = []
        said, groups = BEGIN, dict.fromkeys(range(4), BEGIN)
        for kind, t, group in steps:
            if kind == "all":
                said = max(said, t)
            elif kind == "group":
                groups[group] = max(groups[group], t)
            elif t is None or not BEGIN < t <= TIME_MAX:
                self.bad.append((t, group))
            else:
                late = t < max(said, self._promise(seen, lateness), groups[group])
                (self.bad if late else self.good).append((t, group))
                self.late += late
                seen.append(t)
            self.stables.append(max(said, self._promise(seen, lateness)))

    @staticmethod
    def _promise(seen: list[int], lateness: Lateness) -> int:
        match lateness:
            case TimeLate(bound):
                return max(BEGIN, max(seen, default=BEGIN) - bound)
            case KLate(rows):
                return max(seen[: len(seen) - rows] if rows < len(seen) else [], default=BEGIN)
        return BEGIN


@pytest.mark.parametrize("lateness", LATENESSES, ids=str)
@given(steps=inputs, cuts=st.sets(st.integers(0, 40)), rows=st.integers(1, 5))
def test_the_verdict_is_by_row_whatever_the_cut_into_batches_and_frames(
    lateness: Lateness, steps: list[tuple[str, Any, Any]], cuts: set[int], rows: int
) -> None:
    expected = RowByRow(steps, lateness)
    aside = Aside("aside")
    into = Intake(source(lateness), aside, frame_rows=rows)
    frames = [frame for frame, _ in take(into, *items(steps, cuts))]
    table = Tdb(S)
    for frame in [*frames, into.finish()]:
        table.fold(frame)  # raises where a row comes below a stable
    inserts = [e for f in frames for e in f.elements() if isinstance(e, Insert)]
    assert inserts == [Insert((t, g), t, t + 1) for t, g in expected.good]
    assert sorted(map(repr, rows_aside(aside))) == sorted(map(repr, expected.bad))
    assert (into.late, into.rows) == (expected.late, len(inserts) + len(expected.bad))


@pytest.mark.parametrize("lateness", LATENESSES, ids=str)
@given(steps=inputs, cuts=st.sets(st.integers(0, 40)))
def test_a_stable_after_each_batch_is_the_largest_that_is_true(
    lateness: Lateness, steps: list[tuple[str, Any, Any]], cuts: set[int]
) -> None:
    into = intake(lateness)
    given_so_far, expected = BEGIN, RowByRow(steps, lateness)
    read = 0
    for item in items(steps, cuts):
        for frame, _ in into.take(item):
            if frame.stable is not None:
                assert frame.stable > given_so_far
                given_so_far = frame.stable
        read += item.num_rows if isinstance(item, pa.RecordBatch) else 1
        assert given_so_far == into.stable == expected.stables[read - 1]
    assert into.finish() == Frame.empty(S, INF)


class Forgetful(OutOfPlace):
    """Deliberately wrong: forgets what came before each batch."""

    def judge(self, times: Any, least: int, most: int) -> Any:
        self.largest = self.stable = BEGIN
        self._line[:] = BEGIN
        return super().judge(times, least, most)


class Hasty(OutOfBound):
    """Deliberately wrong: judges a batch by its own largest time."""

    def judge(self, times: Any, least: int, most: int) -> Any:
        super().judge(times, least, most)
        return np.full(len(times), self.stable) if least < self.stable else None


@pytest.mark.parametrize(
    ("verdict", "lateness"), [(Forgetful(2), KLate(2)), (Hasty(5), TimeLate(5))]
)
def test_a_verdict_that_depends_on_the_cut_would_be_seen(
    verdict: Verdict, lateness: Lateness
) -> None:
    rng = random.Random(1)
    steps = [("row", t + rng.randrange(20), 0) for t in range(40)]
    into = intake(lateness)
    into._verdict = verdict
    take(into, *items(steps, set(range(0, 40, 3))))
    assert into.late != RowByRow(steps, lateness).late


@given(
    rows=st.lists(st.integers(0, 1000), min_size=1, max_size=60),
    k=st.integers(0, 9),
    sizes=st.lists(st.integers(1, 20), min_size=1),
)
def test_k_late_remembers_the_same_however_large_its_batches(
    rows: list[int], k: int, sizes: list[int]
) -> None:
    verdict = OutOfPlace(k)
    start = 0
    while start < len(rows):
        size = sizes[start % len(sizes)]
        part = np.array(rows[start : start + size], np.int64)
        verdict.judge(part, int(part.min()), int(part.max()))
        start += len(part)
        known = rows[: max(0, start - k)]
        assert verdict.stable == max(known, default=BEGIN)
    assert len(verdict._line) <= 2 * (k + 1) + 21


# -- frames and stables -----------------------------------------------------------------------


def test_rows_live_for_one_tick_and_keep_their_columns() -> None:
    [(frame, marks)] = take(intake(TimeLate(5)), batch([(7, 1), (9, None), (12, 3)]))
    assert frame.elements()[:2] == [Insert((7, 1), 7, 8), Insert((9, None), 9, 10)]
    assert (frame.stable, frame.insert_only, marks) == (7, True, ())


def test_large_batches_become_frames_of_a_size_each_with_its_own_stable() -> None:
    rows = batch([(t, 0) for t in range(2 * FRAME_ROWS + 1)])
    frames = [frame for frame, _ in take(intake(TimeLate(0)), rows)]
    assert [len(f) for f in frames] == [FRAME_ROWS, FRAME_ROWS, 1]
    assert [f.stable for f in frames] == [FRAME_ROWS - 1, 2 * FRAME_ROWS - 1, 2 * FRAME_ROWS]


@given(
    rows=st.lists(st.integers(-50, 200), min_size=1),
    grid=st.integers(1, 20),
    lateness=st.sampled_from([TimeLate(0), TimeLate(30), KLate(2)]),
)
def test_stables_are_thinned_to_a_grid_and_say_no_less(
    rows: list[int], grid: int, lateness: Lateness
) -> None:
    thin, full = intake(lateness, grid=grid), intake(lateness)
    last = {id(thin): BEGIN, id(full): BEGIN}
    for t in rows:
        for into in (thin, full):
            for frame, _ in take(into, batch([(t, 0)])):
                if frame.stable is not None:
                    assert frame.stable // into._grid * into._grid == frame.stable
                    last[id(into)] = frame.stable
        assert last[id(thin)] // grid == last[id(full)] // grid or last[id(full)] == BEGIN
    assert (thin.late, thin.stable) == (full.late, full.stable)
    assert thin.finish().stable == full.finish().stable == INF


def test_watermarks_become_stables_and_promises_about_groups_become_marks() -> None:
    into = intake(Watermarks())
    assert take(into, Punctuation.of(ts=5)) == [(Frame.empty(S, 5), ())]
    assert take(into, Punctuation.of(ts=4)) == []
    group = Punctuation.of({"src": 3}, ts=9)
    assert take(into, group) == [(Frame.empty(S), (group, Punctuation.of({"src": 3}, _vs=9)))]
    everything = Punctuation.of({"src": 4})
    assert take(into, everything) == [(Frame.empty(S), (everything,))]
    assert take(into, Punctuation.of()) == [(Frame.empty(S, INF), ())]
    assert take(into, batch([(100, 1)])) == []
    assert into.late == 1


def test_a_promise_on_another_column_holds_its_rows_to_it() -> None:
    into = intake(Watermarks())
    take(into, Punctuation.of(src=5), Punctuation.of(src=4))
    [(frame, _)] = take(into, batch([(1, 4), (2, 5), (3, None), (4, 6)]))
    assert frame.payload.column("src").to_pylist() == [5, None, 6]
    assert into.late == 1


def test_a_promise_about_what_the_source_does_not_have_is_misuse() -> None:
    with pytest.raises(Misuse, match="no column 'len'"):
        take(intake(), Punctuation.of(len=3))
    with pytest.raises(Misuse, match="punctuation: src"):
        take(intake(), Punctuation.of({"src": "A"}, ts=3))


def test_closed_groups_are_forgotten_once_everybody_is_as_far() -> None:
    into = intake(TimeLate(0))
    take(into, *(Punctuation.of({"src": n}, ts=100) for n in range(50)))
    [groups] = into._closed._groups.values()
    assert len(groups) == 50
    take(into, batch([(100, 60)]))
    assert len(groups) == 0


def test_closing_more_groups_than_can_be_remembered_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "CLOSED_GROUPS_MAX", 10)
    with pytest.raises(MemoryLimit, match="11 groups of src"):
        take(intake(), *(Punctuation.of({"src": n}) for n in range(20)))


# -- what is no row ---------------------------------------------------------------------------


def test_a_late_row_stops_a_query_that_says_so_with_the_row_and_by_how_much() -> None:
    into = intake(TimeLate(5), mode="stop")
    with pytest.raises(
        RowError, match=r"source s: late by 3 ms; .*lateness 5 ms; the row: ts=2, src=1"
    ):
        take(into, batch([(10, 1), (2, 1), (1, 1)]))


def test_reasons_say_what_was_wrong() -> None:
    aside = Aside("aside")
    into = Intake(source(TimeLate(5)), aside)
    take(into, Punctuation.of({"src": 9}, ts=50))
    take(into, batch([(10, 1), (2, 1), (None, 1), (1, 1), (INF, 1), (11, 9)]))
    assert {(kept.reason, kept.rows.num_rows) for kept in aside.take()} == {
        ("late by 3 to 4 ms; the source was declared: lateness 5 ms", 2),
        ("ts is null: no time", 1),
        ("ts is beyond the times of rows", 1),
        ("late: the source had said that no such row would come", 1),
    }


def test_columns_are_found_by_name_and_cast_where_nothing_is_lost() -> None:
    schema = StreamSchema(
        {"ts": "timestamp[ms]", "p": "string", "n": "int16", "x": "float64"}, "ms"
    )
    raw = pa.record_batch(
        {
            "n": pa.array([1, 2], pa.int64()),
            "other": pa.array([[1], [2]]),
            "p": pa.array(["A", None]).dictionary_encode(),
            "x": pa.array([1, 2], pa.int32()),
            "ts": pa.array([3, 4], pa.timestamp("s")),
        }
    )
    [(frame, _)] = Intake(source(TimeLate(0), schema), Aside()).take(raw)
    assert [(e.payload, e.vs) for e in frame.elements() if isinstance(e, Insert)] == [
        ((3000, "A", 1, 1.0), 3000),
        ((4000, None, 2, 2.0), 4000),
    ]


def test_a_value_that_does_not_fit_its_column_is_a_bad_row_and_shown_as_it_came() -> None:
    aside = Aside("aside")
    raw = pa.record_batch({"src": pa.array([1, 1 << 40, 3]), "ts": pa.array([1, 2, 3])})
    [(frame, _)] = Intake(source(TimeLate(0)), aside).take(raw)
    assert [e.payload for e in frame.elements()[:2] if isinstance(e, Insert)] == [(1, 1), (3, 3)]
    [kept] = aside.take()
    assert kept.reason == "src: the value is no int32"
    assert kept.rows.to_pylist() == [{"src": 1 << 40, "ts": 2}]


def test_a_null_where_none_may_be_is_a_bad_row() -> None:
    payload = pa.schema([("ts", pa.int64()), pa.field("src", pa.int32(), nullable=False)])
    aside = Aside("aside")
    into = Intake(source(TimeLate(0), StreamSchema(payload)), aside)
    raw = pa.record_batch({"ts": [1, 2], "src": pa.array([None, 5], pa.int32())})
    [(frame, _)] = into.take(raw)
    assert len(frame) == 1
    assert [kept.reason for kept in aside.take()] == ["src is null"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ts": [1]}, "column 'src' is not in its input, which has ts"),
        ({"ts": [1], "src": ["A"]}, "column 'src' is string in its input; the source says int32"),
        ({"ts": [1.5], "src": [1]}, "column 'ts' is double in its input; the source says int64"),
    ],
)
def test_a_column_that_is_missing_or_of_another_kind_is_named(
    columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(SchemaError, match=f"source s: {message}"):
        take(intake(), pa.record_batch(columns))


def test_what_is_no_batch_is_misuse() -> None:
    with pytest.raises(Misuse, match="gives list, and not record batches"):
        take(intake(), [1, 2])
    with pytest.raises(Misuse, match="frame_rows 0"):
        intake(frame_rows=0)


def test_groups_close_early_only_where_the_plan_knows_that_they_may() -> None:
    group = Punctuation.of({"src": 3}, ts=9)
    for lateness in (TimeLate(5), KLate(3)):
        into = intake(lateness)
        assert take(into, group) == []
        take(into, batch([(8, 3), (8, 4)]))
        assert into.late == 1
