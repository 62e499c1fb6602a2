"""What a record shows: lanes, lines in pieces, rows that came, and the pauses between them."""

from __future__ import annotations

import numpy as np
import pytest

from gapless.chaos.judge.record import Record
from gapless.chaos.report.sights import Lane, Output, Sights, Stretch, role_of, sights
from gapless.chaos.report.timeline import bin_ms, edges_ms
from gapless.protocol.elements import INF
from tests.chaos.report import oracle
from tests.chaos.report.checks import check_progress
from tests.chaos.report.synthetic_run import Shape, synthetic

LOOK_MS = 250


def seen(record: Record, until_ms: int = 0) -> Sights:
    return sights(record.table(), until_ms)


def looks(*states: tuple[int, int, str, str]) -> Record:
    """Looks at slot r0.0: from, to, state, life."""
    record = Record()
    for begin, end, state, text in states:
        for at in range(begin, end, LOOK_MS):
            record.see("slot", "r0.0", at_ms=at, state=state, stable=at, lag_ms=at // 10, text=text)
    return record


def frames(*moments: int, end: int = 0, stable: int = 0) -> Record:
    """An output with a frame with rows at each moment; then its last stable; the record's end."""
    record = Record()
    for at in moments:
        record.see("output", "out", at_ms=at, rows=5, stable=at)
        record.see("output", "out", at_ms=at + 1, rows=0, stable=at)
    record.see("output", "out", at_ms=moments[-1] + 2, rows=0, stable=stable)
    record.see("note", "root", at_ms=max(end, moments[-1] + 2))
    return record


# -- lanes -----------------------------------------------------------------------------------------


def test_a_state_lasts_until_the_next_look() -> None:
    record = looks(
        (0, 1_000, "starting", "r0.0/1.1"),
        (1_000, 3_000, "running", "r0.0/1.1"),
        (3_000, 3_500, "empty", "it has died"),
        (3_500, 4_001, "running", "r0.0/1.2"),
    )
    (lane,) = seen(record).lanes
    assert lane.stretches == (
        Stretch("starting", "r0.0/1.1", 0, 1_000),
        Stretch("running", "r0.0/1.1", 1_000, 3_000),
        Stretch("empty", "it has died", 3_000, 3_500),
        Stretch("running", "r0.0/1.2", 3_500, 4_000),
    )
    assert lane.lives == {"r0.0/1.1": 0, "r0.0/1.2": 3_500}
    assert lane.share("running", 0) == pytest.approx(2_500 / 4_000)
    assert lane.lives_since(0) == 2
    assert lane.lives_since(3_100) == 1


def test_what_nobody_looked_at_is_in_no_state_and_counts_for_none() -> None:
    record = looks((0, 2_001, "running", "r0.0/1.1"), (9_000, 10_001, "joining", "r0.0/1.2"))
    (lane,) = seen(record).lanes
    assert lane.stretches == (
        Stretch("running", "r0.0/1.1", 0, 2_250),
        Stretch("joining", "r0.0/1.2", 9_000, 10_000),
    )
    assert lane.share("running", 0) == pytest.approx(2_250 / 3_250)


def test_a_slot_that_was_looked_at_until_it_was_whole_has_no_share_since() -> None:
    assert Lane("r0.0", (Stretch("running", "", -500, 0),)).share("running", 0) is None


def test_a_slot_without_a_state_is_unknown() -> None:
    record = Record()
    record.see("slot", "r0.0", at_ms=0)
    record.see("slot", "r0.0", at_ms=250)
    (lane,) = seen(record).lanes
    assert [each.state for each in lane.stretches] == ["unknown"]


def test_slots_are_in_the_order_in_which_people_count() -> None:
    record = Record()
    for who in ("m0.0", "r0.10", "root", "r0.2", "r1.0"):
        record.see("slot", who, at_ms=0, state="running")
    assert [lane.who for lane in seen(record).lanes] == ["r0.2", "r0.10", "r1.0", "m0.0", "root"]
    assert [role_of(who) for who in ("r0.2", "m1.0", "root", "")] == [
        "replica", "merger", "other", "other",
    ]  # fmt: skip


# -- lines -----------------------------------------------------------------------------------------


def test_a_line_is_broken_where_a_life_ends_and_where_nobody_looked() -> None:
    record = looks(
        (0, 1_000, "running", "r0.0/1.1"),
        (1_000, 2_000, "running", "r0.0/1.2"),
        (9_000, 10_000, "running", "r0.0/1.2"),
    )
    lag = seen(record).lag["r0.0"]
    pieces = {p: lag.at_ms[lag.piece == p].tolist() for p in np.unique(lag.piece)}
    assert [(each[0], each[-1]) for each in pieces.values()] == [
        (0, 750),
        (1_000, 1_750),
        (9_000, 9_750),
    ]


def test_what_is_not_known_and_what_is_never_are_no_places_on_a_line() -> None:
    record = Record()
    for at, lag in ((0, 5), (250, None), (500, INF), (750, 6)):
        record.see("slot", "r0.0", at_ms=at, state="running", lag_ms=lag, text="r0.0/1.1")
    assert seen(record).lag["r0.0"].value.tolist() == [5, 6]


@pytest.mark.parametrize("seed", range(4))
def test_progress_is_that_of_the_last_second_look_by_look(seed: int) -> None:
    check_progress(synthetic(seed, Shape(seconds=25, faults=5))[1])


def test_no_step_from_one_life_to_the_next_is_progress() -> None:
    record = looks((0, 2_000, "running", "r0.0/1.1"), (2_000, 4_000, "running", "r0.0/1.2"))
    check_progress(record)
    assert {2_000, 2_250}.isdisjoint(seen(record).progress["r0.0"].at_ms.tolist())


def test_a_replica_that_keeps_up_has_a_progress_of_one() -> None:
    progress = seen(looks((0, 5_000, "running", "r0.0/1.1"))).progress["r0.0"]
    assert set(progress.value.tolist()) == {1.0}
    assert int(progress.at_ms.min()) == 500, "a first step says nothing"


def test_several_sources_have_their_names_and_one_needs_none() -> None:
    record = Record()
    for at in range(0, 2_000, 250):
        record.see("source", "rows", at_ms=at, stable=at)
    assert list(seen(record).progress) == ["sources"]
    for at in range(0, 2_000, 250):
        record.see("source", "more", at_ms=at, stable=at)
    assert list(seen(record).progress) == ["source more", "source rows"]


# -- output ----------------------------------------------------------------------------------------


def test_a_pause_is_far_longer_than_usual_and_frames_without_rows_do_not_end_it() -> None:
    record = frames(0, 100, 200, 300, 1_300, 1_400, 1_550, stable=INF)
    record.see("output", "out", at_ms=800, rows=0, stable=500)
    (output,) = seen(record).outputs
    assert [(p.begin_ms, p.end_ms, p.ms, p.is_over) for p in output.pauses] == [
        (300, 1_300, 1_000, True)
    ]


def test_an_output_that_is_slow_by_its_nature_has_no_pauses() -> None:
    record = frames(*range(0, 20_000, 2_000), stable=INF)
    assert seen(record).pauses == []


def test_silence_of_an_output_that_has_not_ended_is_a_pause_without_an_end() -> None:
    moments = list(range(0, 3_000, 100))
    (pause,) = seen(frames(*moments, end=9_000)).pauses
    assert (pause.begin_ms, pause.end_ms, pause.is_over) == (2_900, 9_000, False)
    assert seen(frames(*moments, end=9_000, stable=INF)).pauses == [], "it came to its end"


@pytest.mark.parametrize("seed", range(6))
def test_pauses_are_those_that_a_loop_finds(seed: int) -> None:
    outcome, record = synthetic(seed, Shape(seconds=40, faults=8, ends=seed % 2 == 0))
    until = oracle.end_ms(record, outcome.strikes)
    found = [(p.who, p.begin_ms, p.end_ms, p.is_over) for p in seen(record, until).pauses]
    assert found == [tuple(each) for each in oracle.silences(record, outcome.strikes)]
    assert found or not any("merger" in s.fault for s in outcome.strikes)


def test_rates_are_rows_by_time_and_lose_none() -> None:
    at = np.array([0, 10, 199, 200, 950], dtype=np.int64)
    output = Output("out", at, np.array([1, 2, 3, 4, 5], dtype=np.int64), (), 0.0)
    edges = edges_ms(0, 950, 200)
    assert edges.tolist() == [0, 200, 400, 600, 950]
    rates = output.rates(edges)
    assert rates.tolist() == pytest.approx([30, 20, 0, 5 / 0.35])
    assert (rates * np.diff(edges) / 1000).sum() == pytest.approx(15)


@pytest.mark.parametrize("span_ms", [1, 150, 3_000, 1_800_000, 86_400_000])
def test_the_last_of_the_counted_times_is_no_stump_and_there_are_not_too_many(span_ms: int) -> None:
    width = bin_ms(0, span_ms, 200.0)
    edges = edges_ms(0, span_ms, width)
    assert (edges[0], edges[-1]) == (0, span_ms)
    assert len(edges) <= 272
    assert len(edges) == 2 or width <= edges[-1] - edges[-2] < 2 * width


# -- all of it -------------------------------------------------------------------------------------


def test_of_what_was_before_only_the_last_part_is_drawn() -> None:
    record = looks((-60_000, 10_000, "running", "r0.0/1.1"))
    assert (seen(record).begin_ms, seen(record).end_ms) == (-2_000, 9_750)
    assert seen(record, until_ms=100_000).begin_ms == -10_000


def test_nothing_is_seen_in_an_empty_record() -> None:
    assert seen(Record()).is_empty
    assert not seen(Record(), until_ms=500).is_empty
