"""The runtime bench measures what it says: pauses, bars, when a job is whole, latency, sections."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.actors.host import About
from gapless.bench import runtime, runtime_kills
from gapless.bench.harness import Bench, Context, Row, measure, wanted
from gapless.bench.netflow import FLOW_LATENESS_MS, FLOW_RATE
from gapless.bench.runtime import Section, measured
from gapless.bench.runtime_feed import FEED, STAMP, Fed, Pool, feed
from gapless.bench.runtime_kills import fine, in_slots, windows
from gapless.bench.runtime_latency import by_row, by_window
from gapless.bench.runtime_pauses import (
    Account,
    Bars,
    Outcome,
    longest_pause_s,
    pause_bar_s,
    rows_of,
)
from gapless.bench.runtime_run import _seeing_frames_as_they_come, is_whole
from gapless.chaos.judge.answer import Compared
from gapless.chaos.judge.history import Verdict
from gapless.chaos.judge.judgement import Judgement, Ruling
from gapless.chaos.judge.recording import Arrived
from gapless.failover.job.desired import Desired
from gapless.failover.job.state import JobState, SlotState
from gapless.failover.messages import Life
from gapless.failover.subscriber.effects import Emit
from gapless.journal.disk import LocalDisk
from gapless.journal.reader import Reader
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import BadData, JobError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

# -- pauses ---------------------------------------------------------------------------------------

TICKS = np.arange(0, 10, 0.1)
"""A result every 100 ms for ten seconds."""


def without(begin: float, end: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """TICKS with a silence."""
    return TICKS[(begin >= TICKS) | (end <= TICKS)]


def test_an_undisturbed_output_pauses_as_long_as_from_result_to_result() -> None:
    assert longest_pause_s(TICKS, 2, 5) == pytest.approx(0.1)


def test_a_pause_that_begins_before_the_kill_and_ends_after_it_counts_whole() -> None:
    assert longest_pause_s(without(3.95, 4.75), 4.05, 8) == pytest.approx(0.9)


def test_a_pause_that_begins_in_the_window_and_ends_after_it_counts_whole() -> None:
    assert longest_pause_s(without(4.95, 6.95), 4.0, 5.5) == pytest.approx(2.1)


@pytest.mark.parametrize(("begin", "end"), [(0.95, 1.95), (7.95, 8.95)])
def test_pauses_of_other_strikes_are_not_this_ones(begin: float, end: float) -> None:
    assert longest_pause_s(without(begin, end), 3, 7) == pytest.approx(0.1)


def test_an_output_that_never_comes_back_is_a_pause_until_the_window_ends() -> None:
    assert longest_pause_s(TICKS[TICKS <= 4.05], 4.05, 60) == pytest.approx(56)


def test_gaps_between_results_alone_would_take_that_silence_for_health() -> None:
    seen = TICKS[TICKS <= 4.05]
    assert np.diff(seen).max() == pytest.approx(0.1)


def test_a_window_before_the_first_result_measures_nothing() -> None:
    with pytest.raises(BadData, match="wait for the first"):
        longest_pause_s(TICKS + 100, 3, 7)


@pytest.mark.parametrize(("undisturbed_ms", "bar_ms"), [(10, 20), (50, 60), (60, 72), (200, 240)])
def test_the_bar_is_a_fifth_more_and_ten_milliseconds_at_least(
    undisturbed_ms: float, bar_ms: float
) -> None:
    assert 1000 * pause_bar_s(undisturbed_ms / 1000) == pytest.approx(bar_ms)


def test_the_worst_of_all_strikes_is_judged() -> None:
    outcomes = [Outcome(0.2, 1.0)] * 19 + [Outcome(0.25, 3.5)]
    worst, median, back, _ = rows_of("killed", outcomes, Bars(0.24, 3.0, "whole"))
    assert (worst.value, worst.unit, worst.bar, worst.holds) == (250, "ms", 240, False)
    assert median.value == 200
    assert (back.value, back.unit, back.bar, back.holds) == (3.5, "s", 3, False)


def test_what_has_no_bar_is_measured_all_the_same() -> None:
    rows = list(rows_of("killed", [Outcome(0.2, 1.0)], Bars(None, None, "whole")))
    assert [row.holds for row in rows] == [None] * 4


def test_no_strikes_are_no_success() -> None:
    with pytest.raises(BadData, match="there was no strike"):
        list(rows_of("killed", [], Bars(1, 1, "whole")))


# -- whole again ----------------------------------------------------------------------------------


def life(slot: str, number: int = 1) -> Life:
    return Life(slot, Incarnation(1, number))


def slot(name: str, number: int = 1, **other: Any) -> SlotState:
    state = SlotState(name, "running", life(name, number), "n", "", "", None, qualified_ms=40)
    return replace(state, **other)


SLOTS = (slot("m0.0", qualified_ms=-1), slot("r0.0"), slot("r0.1"))


class View:
    """Of a job, what the bench looks at."""

    def __init__(self, *slots: SlotState) -> None:
        self.desired = Desired(2, ("p",), 1, 1)
        self.state = JobState(1, False, "", "", (("m0.0",),), slots)
        self.hosts = {state.life: About(state.life, "n", 7) for state in slots if state.life}


def whole(*slots: SlotState, gone: frozenset[Life] = frozenset()) -> bool:
    return is_whole(View(*slots), gone)  # type: ignore[arg-type]  # has all that is looked at


def test_a_job_is_whole_when_all_its_slots_run_and_its_replicas_may_act() -> None:
    assert whole(*SLOTS)


@pytest.mark.parametrize(
    "slots",
    [
        SLOTS[:2],
        (*SLOTS[:2], slot("r0.1", state="suspected")),
        (*SLOTS[:2], slot("r0.1", state="empty", life=None)),
        (*SLOTS[:2], slot("r0.1", qualified_ms=-1)),
    ],
    ids=["a slot missing", "suspected", "empty", "not qualified"],
)
def test_a_job_is_not_whole_while(slots: tuple[SlotState, ...]) -> None:
    assert not whole(*slots)


def test_a_life_that_was_killed_does_not_count_though_nobody_has_noticed_yet() -> None:
    assert not whole(*SLOTS, gone=frozenset({life("r0.1")}))
    assert whole(*SLOTS[:2], slot("r0.1", 2), gone=frozenset({life("r0.1")}))


def test_an_empty_slot_cannot_be_struck() -> None:
    view: Any = View(*SLOTS[:2], slot("r0.1", state="empty", life=None))
    assert in_slots(view, ["r0.0"]) == {life("r0.0")}
    with pytest.raises(JobError, match=r"r0\.1 only 0 run"):
        in_slots(view, ["r0.1"])


# -- the account ----------------------------------------------------------------------------------


def judgement(*findings: Ruling, rows: int = 10, **wrong: int) -> Judgement:
    return Judgement(findings, (replace(Compared("subscriber", 9, rows), **wrong),), rows)  # type: ignore[arg-type]  # counts


def accounted(*judgements: Judgement) -> dict[str, Row]:
    account = Account()
    for i, each in enumerate(judgements):
        account.add(f"run {i}", each)
    return {row.name.removeprefix("over all faults: "): row for row in account.rows()}


def test_what_was_found_in_all_runs_is_summed_up() -> None:
    rows = accounted(judgement(lost=1), judgement(duplicated=2, contradicting=3))
    assert [rows[name].value for name in ("lost", "duplicated", "contradicting")] == [1, 2, 3]
    assert [rows[name].holds for name in ("lost", "duplicated", "contradicting")] == [False] * 3
    assert rows["results compared"].value == 20


def test_a_clean_account_holds() -> None:
    rows = accounted(judgement())
    assert all(row.holds for name, row in rows.items() if name != "results compared")


def test_an_objection_of_a_checker_is_no_clean_account() -> None:
    rows = accounted(judgement(Ruling("stable", Verdict.BROKEN, "it went back")))
    assert rows["objections of the simulator's checkers"].holds is False


def test_a_run_that_compared_nothing_is_no_success() -> None:
    with pytest.raises(BadData, match="no result was compared"):
        accounted(judgement(rows=0))


# -- the feed -------------------------------------------------------------------------------------


def test_the_feed_goes_on_where_its_flows_begin_anew() -> None:
    pool = Pool(500, 2_000)
    rows = pa.Table.from_batches([pool.batch(i) for i in range(12)])
    assert rows.schema == FEED
    assert rows.column("id").to_pylist() == list(range(6_000))
    ts = rows.column("ts").to_numpy()
    behind = np.maximum.accumulate(ts) - ts
    assert 0 < behind.max() < FLOW_LATENESS_MS
    assert ts[-500:].max() - ts[:500].max() == pytest.approx(5_500 * 1000 / FLOW_RATE, abs=1)
    assert pool.batch(7).equals(Pool(500, 2_000).batch(7))


def test_a_batch_that_does_not_fit_the_flows_is_refused() -> None:
    with pytest.raises(Misuse, match="are no whole number"):
        Pool(300, 2_000)


def test_a_feeder_stops_with_its_input_and_has_stamped_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stamps = tmp_path / "stamps"
    monkeypatch.setattr("sys.stdin", StringIO("go\n"))
    feed(str(tmp_path / "journal"), str(stamps), Pool(500, 2_000))
    assert capsys.readouterr().out == "ready\n"
    told = np.fromfile(stamps, STAMP)
    assert len(told)
    assert (told["rows"] == 500 * np.arange(1, len(told) + 1)).all()
    assert (told["due_ns"] <= told["before_ns"]).all()
    assert (told["before_ns"] <= told["after_ns"]).all()
    reader = Reader(LocalDisk(tmp_path / "journal"))
    found = 0
    while (read := reader.read()) is not None:
        found += len(read)
    assert found == told["rows"][-1]


# -- latency --------------------------------------------------------------------------------------

MS = 1_000_000
FED = Fed(
    np.array(
        [(10, 100, 0, 1 * MS, 2 * MS), (20, 110, 10, 11 * MS, 12 * MS), (30, 130, 20, 21, 22 * MS)],
        STAMP,
    ),
    batch_rows=10,
)


def arrived(at_ms: float, columns: dict[str, list[int]], vs: list[int]) -> Arrived:
    schema = StreamSchema(pa.schema([(name, pa.int64()) for name in columns]))
    starts = np.array(vs, np.int64)
    arrays = [pa.array(values, pa.int64()) for values in columns.values()]
    frame = Frame.from_columns(schema, starts, starts + 1, arrays)
    return Arrived(at_ms / 1000, Emit(frame, {}, False))


def test_a_row_s_latency_begins_when_its_batch_could_be_read() -> None:
    found = by_row(FED, [arrived(30, {"id": [9, 10, 29]}, [0, 0, 0])])
    assert found == pytest.approx([28, 18, 8])


def test_a_window_s_latency_begins_when_it_is_known_to_be_complete() -> None:
    found = by_window(FED, [arrived(30, {"n": [1, 1, 1]}, [100, 110, 111])])
    assert found == pytest.approx([28, 18, 8])


def test_windows_that_the_feed_has_not_completed_have_no_latency() -> None:
    with pytest.raises(Misuse, match="has not come as far"):
        by_window(FED, [arrived(30, {"n": [1]}, [131])])


def test_no_results_are_no_latency() -> None:
    with pytest.raises(BadData, match="no result came"):
        by_row(FED, [arrived(30, {"id": []}, [])])


def test_the_rate_and_the_delay_of_a_feed_are_those_of_its_stamps() -> None:
    assert FED.rate() == pytest.approx(20 / 0.020)
    assert FED.longest_delay_ms() == pytest.approx(22, abs=0.1)


# -- the queries ----------------------------------------------------------------------------------


def test_both_queries_read_the_feed_and_put_out_inserts_alone() -> None:
    for query in (fine(), windows()):
        (source,) = query.sources.values()
        assert source.schema.payload == FEED
    frame = fine().schema
    assert "id" in frame.payload.names


# -- sections -------------------------------------------------------------------------------------


def one_row(name: str, is_clean: bool = True) -> Callable[[Context, Account], Iterator[Row]]:
    def measure_it(context: Context, account: Account) -> Iterator[Row]:
        yield Row(name, context.kills, "times")
        account.add(name, judgement(lost=0 if is_clean else 1))

    return measure_it


SOME = {
    "one": Section("first", 1, one_row("one")),
    "two": Section("second", 2, one_row("two", is_clean=False)),
    "peers": Section("others", 1, one_row("peers")),
}


def context(**other: Any) -> Context:
    return Context(quick=False, plot_dir=None, **other)


def test_all_sections_run_but_for_peers_that_nobody_asked_for() -> None:
    assert wanted(context(), SOME) == ["one", "two"]
    assert wanted(context(with_peers=True), SOME) == ["one", "two", "peers"]
    assert wanted(context(only=("peers",)), SOME) == ["peers"]


def test_an_unknown_section_is_refused_with_those_there_are() -> None:
    with pytest.raises(Misuse, match="--only three: the sections are one, two, peers"):
        wanted(context(only=("three",)), SOME)


def test_the_sections_that_the_module_describes_are_those_there_are() -> None:
    text = str(runtime.__doc__)
    for name, section in runtime.SECTIONS.items():
        assert any(line.split()[:2] == [name, str(section.minutes)] for line in text.splitlines())


def test_strikes_are_counted_from_1() -> None:
    with pytest.raises(Misuse, match="--kills 0"):
        context(kills=0)


def test_a_report_of_sections_ends_with_the_account_and_a_lost_row_misses_its_bar() -> None:
    said: list[str] = []
    asked = context(kills=3, say=said.append)
    report = measure(Bench("runtime", "", lambda each: measured(each, SOME)), asked)
    document = json.loads(json.dumps(report.to_json()))
    rows = {row["name"]: row for row in document["rows"]}
    assert rows["one"]["value"] == 3
    assert rows["over all faults: results compared"]["value"] == 20
    assert rows["over all faults: lost"]["holds"] is False
    assert [row.name for row in report.missed] == ["over all faults: lost"]
    assert any("two: subscriber: 10 rows settled, 1 lost" in line for line in said)


def test_the_process_that_measures_collects_no_garbage_while_it_does() -> None:
    collects = gc.isenabled()
    with _seeing_frames_as_they_come():
        assert not gc.isenabled()
    assert gc.isenabled() == collects


def test_no_two_sections_of_strikes_measure_under_one_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []

    def seen(on: str, *_: Any, mergers: int, **__: Any) -> Iterator[Row]:
        names.append(f"{on}, {mergers} mergers")
        return iter(())

    monkeypatch.setattr(runtime_kills, "_measure", seen)
    strikes = [runtime.SECTIONS[name] for name in ("kills", "row", "merger", "windows", "nodes")]
    for section in strikes:
        list(section.measure(context(), Account()))
    assert len(names) == len(strikes) == len(set(names))
