"""One row that is far ahead of all others does not move a journal's watermark."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal.batch import TaskWriter, commit_batch, writing_epoch
from gapless.journal.commit import Commits
from gapless.journal.facts import facts_batch
from gapless.journal.head import Head, decode, encode
from gapless.journal.layout import Layout, establish
from gapless.journal.plausible import (
    DAY_TICKS,
    DOUBTED_MAX,
    TIME_MAX,
    WITNESSES_MAX,
    Plausible,
    Run,
    believed,
    reach_of,
    runs_of,
    runs_of_buckets,
)
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.schema import StreamSchema
from tests.journal.journals import Row, batch, layout, memory, read_all, writer

FAR = 9_000_000_000
REACH = 100
TIMES = st.lists(st.integers(-1_000, 1_000) | st.integers(BEGIN + 1, TIME_MAX), max_size=12)


def dated(*times: int) -> list[Row]:
    return [(t, "a", n) for n, t in enumerate(times)]


def test_one_row_of_the_far_future_is_rejected_and_the_rest_goes_on() -> None:
    disk = memory()
    out = writer(disk, ahead=REACH)
    out.append(batch(dated(1_000, 1_001)))
    made = out.append(batch(dated(1_002, FAR, 1_003)))
    assert (made.rows, made.rejected, made.late, made.stable) == (2, 1, 0, 998)
    assert out.append(batch(dated(1_004))).rows == 1
    assert [r[0] for r in read_all(disk)] == [1_000, 1_001, 1_002, 1_003, 1_004]
    lines = disk.read("rejects/0000000001-0000000000.jsonl", 0, 1_000).decode()
    said = "ahead: more than 100 beyond all others (see --ahead), the newest is 1003"
    assert f'"reason": "{said}"' in lines


def test_where_it_is_off_a_row_may_be_as_far_ahead_as_it_likes() -> None:
    out = writer(memory(), ahead=None)
    out.append(batch(dated(1_000)))
    assert out.append(batch(dated(FAR))).rows == 1


@pytest.mark.parametrize("times", [(FAR, 1_000, 1_001), (1_000, FAR), (1_000, 1_001, FAR, FAR + 1)])
def test_of_a_first_batch_the_majority_decides_and_the_past_where_there_is_none(
    times: tuple[int, ...],
) -> None:
    disk = memory()
    writer(disk, ahead=REACH).append(batch(dated(*times)))
    assert [r[0] for r in read_all(disk)] == [t for t in times if t < FAR]


def test_a_first_row_alone_is_believed() -> None:
    assert writer(memory(), ahead=REACH).append(batch(dated(FAR))).rows == 1


def test_a_first_row_of_1970_does_not_hold_up_those_of_today() -> None:
    disk = memory()
    writer(disk, ahead=REACH).append(batch(dated(0, FAR, FAR + 1)))
    assert [r[0] for r in read_all(disk)] == [0, FAR, FAR + 1]


def test_after_a_gap_of_three_reaches_the_third_row_is_believed_also_row_by_row() -> None:
    out = writer(memory(), ahead=REACH)
    out.append(batch(dated(1_000)))
    assert [out.append(batch(dated(1_300 + n))).rows for n in range(4)] == [0, 0, 1, 1]


def test_the_third_row_is_believed_also_where_each_comes_with_a_program_of_its_own() -> None:
    disk, taken = memory(), []
    for n, t in enumerate([1_000, 1_300, 1_301, 1_302, 1_303]):
        out = writer(disk, f"w{n}", ahead=REACH)
        taken.append(out.append(batch(dated(t))).rows)
        out.close()
    assert taken == [1, 0, 0, 1, 1]


@given(st.lists(st.lists(st.integers(0, 2_000) | st.just(FAR), max_size=4), max_size=12))
def test_programs_that_follow_one_another_take_what_one_that_goes_on_takes(
    batches: list[list[int]],
) -> None:
    disk = memory()
    whole = writer(memory(), ahead=REACH)
    for n, times in enumerate(batches):
        out = writer(disk, f"w{n}", ahead=REACH)
        assert out.append(batch(dated(*times))).rows == whole.append(batch(dated(*times))).rows
        out.close()


def micro_batch(disk: SimulatedDisk, number: int, *tasks: list[Row]) -> int:
    """Writes a batch in several tasks; how many rows were taken."""
    commits = Commits(disk, layout())
    epoch = writing_epoch(commits, "run", "run", 7, process="p", durable=False)
    head, results = commits.head, []
    for n, rows in enumerate(tasks):
        task = TaskWriter(
            disk,
            layout(),
            epoch,
            f"{number}.{n}",
            head.stable,
            batch=number,
            durable=False,
            reach=REACH,
            doubted=head.doubted,
        )
        if rows:
            task.add(batch(rows))
        results.append(task.finish())
    commit_batch(
        commits, epoch, f"c{number}", results, query="q", batch=number, now_ms=7, durable=False
    )
    return sum(map(len, tasks)) - sum(result.rejected for result in results)


def test_rows_behind_a_gap_are_believed_where_each_comes_with_a_task_of_its_own() -> None:
    disk = memory()
    establish(disk, layout(), "p")
    times = [1_000, 1_300, 1_301, 1_302, 1_303]
    taken = [micro_batch(disk, n, dated(t), []) for n, t in enumerate(times)]
    assert taken == [1, 0, 0, 1, 1]


def test_of_a_batch_that_is_spread_over_tasks_a_gap_costs_the_rows_of_one_batch() -> None:
    disk = memory()
    establish(disk, layout(), "p")
    micro_batch(disk, 0, dated(1_000))
    assert micro_batch(disk, 1, *(dated(1_300 + n) for n in range(5))) == 0
    assert micro_batch(disk, 2, *(dated(1_310 + n) for n in range(5))) == 5
    assert Commits(disk, layout()).head.doubted == ()


def test_a_wrong_clock_in_one_task_is_not_believed_as_long_as_another_is_right() -> None:
    disk = memory()
    establish(disk, layout(), "p")
    micro_batch(disk, 0, dated(1_000))
    for n in range(20):
        assert micro_batch(disk, n + 1, dated(1_001 + n), dated(FAR + n)) == 1


def test_a_row_in_the_middle_of_a_gap_does_not_hold_up_those_behind_it() -> None:
    out = writer(memory(), ahead=REACH)
    out.append(batch(dated(1_000)))
    assert out.append(batch(dated(1_450))).rows == 0
    assert [out.append(batch(dated(1_700 + n))).rows for n in range(8)] == [0] * 6 + [1, 1]


def test_a_wrong_clock_among_right_ones_is_never_believed_however_often_it_speaks() -> None:
    out = writer(memory(), ahead=REACH)
    out.append(batch(dated(1_000)))
    for n in range(20):
        assert out.append(batch(dated(FAR + n))).rows == 0
        assert out.append(batch(dated(1_001 + n))).rows == 1


def test_the_widest_gap_asks_for_so_many_witnesses_and_no_more() -> None:
    there = [Run(FAR, FAR, WITNESSES_MAX - 1)]
    assert believed(there, 0, 1) == 0
    assert believed([Run(FAR, FAR, WITNESSES_MAX)], 0, 1) == FAR


def test_so_many_witnesses_are_kept_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.journal.plausible.WITNESSES_MAX", 4)
    judge = Plausible(layout(), 1)
    for n in range(3):
        assert judge.top(np.array([FAR + n], np.int64), 0) < FAR
        assert judge.doubts.all == (Run(FAR, FAR + n, n + 1),)
    assert judge.top(np.array([FAR + 3], np.int64), 0) == TIME_MAX


def test_of_more_runs_than_are_kept_those_with_the_most_rows_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.journal.plausible.DOUBTED_MAX", 3)
    judge = Plausible(layout(), 1)
    for n in range(9):
        judge.top(np.array([10_000, FAR * (9 - n)], np.int64), 0)
    assert judge.doubts.all == (
        Run(10_000, 10_000, 9),
        Run(FAR, FAR, 1),
        Run(2 * FAR, 2 * FAR, 1),
    )


@pytest.mark.parametrize("newest", [None, 0])
@pytest.mark.parametrize("weeks", [2, 52])
def test_weekends_in_a_batch_of_weeks_are_crossed_to_its_end(
    weeks: int, newest: int | None
) -> None:
    """Also in its second half, where the rows beyond a gap are fewer than those before it."""
    days = [week * 7 + day for week in range(weeks) for day in range(5 if week else 6)]
    runs = runs_of(np.array(days, np.int64), 1)
    assert len(runs) == weeks
    assert believed(runs, newest, 1) == days[-1]


def test_a_few_in_a_long_batch_cross_no_gap_that_is_longer_than_what_the_others_span() -> None:
    week = [*range(7)]
    assert believed(runs_of(np.array([*week, 9], np.int64), 1), None, 1) == 6
    months = runs_of(np.array([*week, *range(40, 46)], np.int64), 1)
    assert believed(months, None, 1) == 6


@given(TIMES, st.integers(1, 500), st.none() | st.integers(-500, 500), st.randoms())
def test_the_verdict_does_not_depend_on_the_order_of_rows_or_on_buckets(
    times: list[int], reach: int, newest: int | None, rng: random.Random
) -> None:
    runs = runs_of(np.array(times, np.int64), reach)
    assert sum(run.rows for run in runs) == len(times)
    assert all(b.least - a.largest > reach for a, b in pairwise(runs))
    shuffled = [*times]
    rng.shuffle(shuffled)
    assert runs_of(np.array(shuffled, np.int64), reach) == runs
    by_bucket: dict[int, list[int]] = {}
    for t in times:
        by_bucket.setdefault(t // reach, []).append(t)
    buckets = [Run(min(ts), max(ts), len(ts)) for ts in by_bucket.values()]
    rng.shuffle(buckets)
    assert runs_of_buckets(buckets, reach) == runs
    top = believed(runs, newest, reach)
    assert newest is None or top >= newest


@given(st.lists(st.integers(0, 50), min_size=2, max_size=30), st.integers(200, 10**15))
def test_one_row_beyond_reach_of_all_others_is_the_only_one_that_is_ahead(
    times: list[int], far: int
) -> None:
    top = believed(runs_of(np.array([*times, 50 + far], np.int64), REACH), None, REACH)
    assert top == max(times)


@given(st.lists(TIMES, max_size=8))
def test_what_is_believed_is_in_and_what_is_ahead_moves_nothing(batches: list[list[int]]) -> None:
    """Against the plainest form of the rule for a writer: nothing that is rejected as ahead is in
    what readers get, and the watermark is that of what they get.
    """
    disk = memory()
    out = writer(disk, ahead=REACH)
    for times in batches:
        out.append(batch(dated(*times)))
    got = [int(r[0] or 0) for r in read_all(disk)]
    assert out.rows == len(got)
    assert out.stable == max([t - 5 for t in got], default=BEGIN) or min(got) < BEGIN + 10


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_day_is_the_reach_of_timestamps_and_integers_have_none(unit: str) -> None:
    stamps = Layout(StreamSchema({"ts": pa.timestamp(unit)}, unit), "ts")
    assert reach_of(stamps) == DAY_TICKS[unit]
    assert reach_of(stamps, 7) == 7
    assert reach_of(stamps, is_off=True) is None
    assert reach_of(layout()) is None
    assert reach_of(Layout(StreamSchema({"n": "int32"}))) is None
    with pytest.raises(Misuse, match="ahead 0: 1 at least"):
        reach_of(stamps, 0)


def test_a_journal_of_timestamps_has_it_by_itself() -> None:
    schema = StreamSchema({"ts": pa.timestamp("ms")}, "ms")
    disk = memory()
    out = Writer(disk, Layout(schema, "ts"), who="w", token="w", now_ms=lambda: 1)
    day = DAY_TICKS["ms"]
    out.append(_stamps(schema, [0, day, 2 * day + 1]))
    assert out.rejected == 1
    out.append(_stamps(schema, [2 * day, 200 * day]))
    assert out.stable == 2 * day
    reader = Reader(disk)
    assert reader.read() is not None


def _stamps(schema: StreamSchema, times: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(times, pa.timestamp("ms"))], schema=schema.payload)


HEAD = Head(number=1, full=1, rows=(0, 0, 0), first=(0, 0, 0))


def test_what_is_doubted_reads_back_and_a_head_without_it_is_that_of_an_earlier_release() -> None:
    doubted = (Run(-3, 9, 2), Run(FAR, FAR, WITNESSES_MAX))
    for head in (HEAD, replace(HEAD, doubted=doubted)):
        assert decode(encode(head, facts_batch([])), layout())[0] == head
    assert b"doubted" not in encode(HEAD, facts_batch([]))


@pytest.mark.parametrize(
    "wrong",
    [Run(9, 3, 1), Run(3, 9, 0), Run(3, 9, WITNESSES_MAX + 1), (1, 2), ("a", 2, 3)],
    ids=str,
)
def test_doubts_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(DecodeError, match="doubted"):
        decode(encode(replace(HEAD, doubted=(wrong,)), facts_batch([])), layout())
    many = tuple(Run(n, n, 1) for n in range(DOUBTED_MAX + 1))
    with pytest.raises(DecodeError, match="17 runs"):
        decode(encode(replace(HEAD, doubted=many), facts_batch([])), layout())
