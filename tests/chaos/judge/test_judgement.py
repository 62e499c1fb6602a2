"""The judge of real runs: what is right it finds right, and each thing that is wrong it catches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.chaos.judge.answer import compare
from gapless.chaos.judge.history import Broken, Verdict
from gapless.chaos.judge.judgement import Judgement, judge
from gapless.chaos.judge.recording import Arrived, Recording, pauses
from gapless.engine.plan import Plan
from gapless.engine.splice import Splice
from gapless.failover.job.desired import Desired, Switch
from gapless.failover.job.directory import Job
from gapless.failover.job.files import JobRecord
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import Life, Token
from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.tokens import encode
from gapless.journal.disk import LocalDisk
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JobError
from gapless.protocol.frame import Frame

ROWS = 4_000
BATCHES = 8
FLOWS = gl.source("flows", {"ts": "timestamp[ms]", "src": "int32"}, time="ts", lateness="1s")
QUERY = FLOWS.window(range="2s", slide="1s").group_by("src").aggregate(n=gl.count())
Broke = Callable[[list[Frame]], list[Frame]]


def write_source(path: Path) -> None:
    with gl.JournalWriter(
        path,
        {"ts": "timestamp[ms]", "src": "int32"},
        time="ts",
        key="src",
        partitions=2,
        lateness="1s",
    ) as writer:
        for i in range(BATCHES):
            ts = np.arange(i * ROWS, (i + 1) * ROWS)
            src = (ts * 7919 % 20).astype(np.int32)
            times = ts.astype("datetime64[ms]")
            writer.append(pa.record_batch({"ts": pa.array(times), "src": pa.array(src)}))


@pytest.fixture
def job_dir(tmp_path: Path) -> Path:
    """A job that nobody has run yet, over a journal that goes on for 32 seconds."""
    write_source(tmp_path / "flows")
    where = tmp_path / "job"
    where.mkdir()
    record = JobRecord("job", {"flows": str(tmp_path / "flows")}, insert_only=True, case="r3")
    Job.create(LocalDisk(where), "t", record, {"plan0": Plan(QUERY)}, Desired(3, ("plan0",)))
    return where


def right(job_dir: Path) -> list[Frame]:
    """What a merger would put out, up to the last stable of the journal."""
    frames = list(gl.execute(QUERY, job_dir.parent / "flows", frame_rows=4_000))
    last = max(i for i, f in enumerate(frames) if f.stable is not None and f.stable < INF)
    assert last > 5
    return frames[: last + 1]


def put_out(
    job_dir: Path, frames: Sequence[Frame], *, lives: int = 2, slot: str = "m0.0"
) -> list[Emit]:
    """Writes them as the output of so many lives, and says what a subscriber was handed."""
    disk = LocalDisk(job_dir / Job.out(0, slot))
    emits, stable, rows = [], BEGIN, 0
    per_life = -(-len(frames) // lives)
    for i in range(lives):
        life = Life(slot, Incarnation(1, i + 1))
        out = OutputJournal(disk, frames[0].schema, life, f"t{i}", lambda: 0)
        out.recover()
        for frame in frames[i * per_life : (i + 1) * per_life]:
            out.append(frame)
            rows = out.sync().offset
            stable = stable if frame.stable is None else frame.stable
            emits.append(Emit(frame, {"0": Token(slot, out.epoch, rows, stable)}))
    return emits


class Played:
    """A subscription that hands out what it was given, and ends."""

    def __init__(self, emits: Sequence[Emit], *, error: Exception | None = None) -> None:
        self._emits = list(emits)
        self._error = error
        self.is_closed = False

    def next_emit(self, timeout_s: float | None = None) -> Emit | None:  # noqa: ARG002  # it never waits
        if self._emits:
            return self._emits.pop(0)
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        self.is_closed = True


def recorded(emits: Sequence[Emit], **how: object) -> Recording:
    recording = Recording(Played(emits), **how)  # type: ignore[arg-type]  # of this test's own
    assert recording.wait_for_end(10)
    recording.stop()
    return recording


def verdict(judgement: Judgement, name: str) -> Verdict:
    (found,) = [f.verdict for f in judgement.findings if f.name == name]
    return found


# -- what is right --------------------------------------------------------------------------------


def test_a_right_run_of_two_lives_is_clean_and_its_rows_are_counted(job_dir: Path) -> None:
    frames = right(job_dir)
    emits = put_out(job_dir, frames)
    found = judge(job_dir, [recorded(emits)])
    found.check()
    assert found.is_clean
    assert (found.lost, found.duplicated, found.contradicting) == (0, 0, 0)
    assert found.settled_rows == sum(map(len, frames)) > 500
    for name in ("stable", "prefix", "cut"):
        assert verdict(found, name) is Verdict.HOLDS
    assert verdict(found, "table") is Verdict.UNKNOWN  # the source has not ended
    assert "0 lost, 0 duplicated, 0 contradicting" in str(found)


def test_a_run_that_has_come_to_its_end_is_judged_whole(job_dir: Path) -> None:
    emits = put_out(job_dir, list(gl.execute(QUERY, job_dir.parent / "flows")))
    final = [Emit(e.frame, {"0": Token("", 0, 0, e.tokens["0"].stable)}) for e in emits]
    found = judge(job_dir, [recorded(emits), recorded(final, name="final", deliver="final")])
    found.check()
    assert verdict(found, "table") is verdict(found, "final") is Verdict.HOLDS
    assert found.settled_rows == found.answer_rows


def test_the_recomputed_answer_is_that_of_the_embedded_engine(job_dir: Path) -> None:
    put_out(job_dir, right(job_dir))
    answer = Frame.concat(
        [f.with_stable(None) for f in gl.execute(QUERY, job_dir.parent / "flows")]
    )
    assert str(judge(job_dir, answer=answer)) == str(judge(job_dir))


def test_a_job_that_has_put_out_nothing_is_clean_and_nothing_is_settled(job_dir: Path) -> None:
    found = judge(job_dir)
    assert found.is_clean
    assert found.settled_rows == 0


def test_after_a_cutover_to_another_answer_that_one_is_right(job_dir: Path) -> None:
    other = FLOWS.window(range="2s", slide="1s").group_by("src").aggregate(n=gl.sum("src"))
    job = Job(LocalDisk(job_dir), "u")
    desired = job.resume().desired
    splice = Splice(Plan(QUERY), Plan(other), 10_000)
    job.add_plan("changed", splice)
    frames = right(job_dir)
    put_out(job_dir, frames)
    assert judge(job_dir).is_clean
    job.write_desired(desired.changed(Switch(("changed",), 10_000)))
    assert judge(job_dir).lost > 0


def test_a_program_that_resumes_by_its_token_is_right(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    recording = recorded(emits[:5])
    recording.go_on(Played(emits[3:]), dropped=2)  # the program had kept the third
    assert recording.wait_for_end(10)
    recording.stop()
    found = judge(job_dir, [recording])
    found.check()
    assert encode(emits[2].tokens) == encode(recording.runs[1].resumed or {})


def test_a_program_that_began_now_is_owed_what_can_still_change(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    middle = len(emits) // 2
    since = emits[middle - 1].tokens["0"].stable
    before = [e.frame for e in emits[:middle]]
    held = Frame.concat([f.with_stable(None) for f in before])
    table = held.take(np.flatnonzero(held.ve >= since)).with_stable(since)
    reset = Emit(table, emits[middle - 1].tokens, reset=True, since=since)
    judge(job_dir, [recorded([reset, *emits[middle:]], since=None)]).check()
    found = judge(job_dir, [recorded([reset, *emits[middle + 2 :]], since=None)])
    assert found.lost > 0


# -- what is wrong --------------------------------------------------------------------------------


def lose_a_row(frames: list[Frame]) -> list[Frame]:
    return _changed(frames, lambda f: f.slice(1, stable=f.stable))


def double_a_row(frames: list[Frame]) -> list[Frame]:
    return _changed(frames, lambda f: Frame.concat([f.slice(0, 1), f]))


def contradict(frames: list[Frame]) -> list[Frame]:
    def other(frame: Frame) -> Frame:
        src, n = frame.payload.columns
        values = n.to_numpy().copy()
        values[0] += 1
        columns = [src, pa.array(values, n.type)]
        return Frame.from_columns(frame.schema, frame.vs, frame.ve, columns, stable=frame.stable)

    return _changed(frames, other)


def _changed(frames: list[Frame], change: Callable[[Frame], Frame]) -> list[Frame]:
    """The first frame that has rows and is followed by stables, changed."""
    at = next(i for i, frame in enumerate(frames) if len(frame) > 3)
    return [*frames[:at], change(frames[at]), *frames[at + 1 :]]


@pytest.mark.parametrize(
    ("broken", "counts"),
    [(lose_a_row, (1, 0, 0)), (double_a_row, (0, 1, 0)), (contradict, (1, 0, 1))],
)
def test_a_journal_that_is_not_the_answer_is_caught(
    job_dir: Path, broken: Broke, counts: tuple[int, int, int]
) -> None:
    put_out(job_dir, broken(right(job_dir)))
    found = judge(job_dir)
    assert (found.lost, found.duplicated, found.contradicting) == counts
    assert verdict(found, "prefix") is Verdict.BROKEN
    assert not found.is_clean
    with pytest.raises(Broken, match=r"journal m0\.0"):
        found.check()


@pytest.mark.parametrize("broken", [lose_a_row, double_a_row, contradict])
def test_a_program_that_was_handed_something_else_than_the_journal_is_caught(
    job_dir: Path, broken: Broke
) -> None:
    emits = put_out(job_dir, right(job_dir))
    frames = broken([e.frame for e in emits])
    handed = [Emit(f, e.tokens) for f, e in zip(frames, emits, strict=True)]
    found = judge(job_dir, [recorded(handed, name="victim")])
    assert found.lost + found.duplicated + found.contradicting > 0
    assert verdict(found, "prefix") is Verdict.BROKEN
    assert [c.is_right for c in found.compared] == [True, False]


def test_a_program_that_misses_a_frame_is_caught(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    assert len(emits[4].frame)
    found = judge(job_dir, [recorded([*emits[:4], *emits[5:]])])
    assert found.lost == len(emits[4].frame)
    assert verdict(found, "prefix") is Verdict.BROKEN


def test_a_frame_whose_place_in_the_journal_has_other_rows_is_caught(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    tokens = {"0": emits[5].tokens["0"]._replace(offset=emits[5].tokens["0"].offset - 1)}
    assert len(emits[5].frame) > 1
    handed = [*emits[:5], Emit(emits[5].frame, tokens), *emits[6:]]
    assert verdict(judge(job_dir, [recorded(handed)]), "cut") is Verdict.BROKEN


def test_a_program_that_gets_a_frame_again_after_a_resume_is_caught(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    recording = recorded(emits[:5])
    recording.go_on(Played(emits[4:]))
    assert recording.wait_for_end(10)
    recording.stop()
    found = judge(job_dir, [recording])
    assert not found.is_clean


def test_a_stable_that_goes_back_is_caught(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    back = Frame.empty(emits[0].frame.schema, 1_000)
    handed = [*emits, Emit(back, emits[-1].tokens)]
    found = judge(job_dir, [recorded(handed)])
    assert verdict(found, "stable") is Verdict.BROKEN
    assert any(f.name == "stream" and f.verdict is Verdict.BROKEN for f in found.findings)


def test_what_is_final_and_comes_twice_is_caught(job_dir: Path) -> None:
    emits = put_out(job_dir, right(job_dir))
    with_rows = next(e for e in emits[3:] if len(e.frame))
    twice = [*emits, Emit(with_rows.frame.with_stable(None), emits[-1].tokens)]
    found = judge(job_dir, [recorded(twice, deliver="final")])
    assert found.duplicated == len(with_rows.frame)
    assert verdict(found, "final") is Verdict.BROKEN


def test_a_damaged_journal_is_a_finding_and_no_crash(job_dir: Path) -> None:
    put_out(job_dir, right(job_dir))
    (largest, *_) = sorted(
        (p for p in job_dir.glob("out/0/m0.0/segments/*")), key=lambda p: -p.stat().st_size
    )
    data = bytearray(largest.read_bytes())
    written = len(data.rstrip(b"\0"))  # behind it lie the zeros of journal/headroom.py
    data[written // 2] ^= 0xFF
    largest.write_bytes(data)
    found = judge(job_dir)
    assert verdict(found, "readable") is Verdict.BROKEN


# -- counting -------------------------------------------------------------------------------------


def test_what_is_half_frozen_is_compared_by_its_start_alone() -> None:
    schema = gl.StreamSchema({"p": "string"})

    def events(text: str) -> Frame:
        return Frame.from_elements(schema, gl.parse(text, schema))

    held, wanted = events("ins(A,0,10) ins(B,5,30)"), events("ins(A,0,10) ins(B,5,25) ins(C,20,30)")
    assert compare("s", held, wanted, 20).is_right
    assert compare("s", held, wanted, 21).lost == 1  # C is due
    found = compare("s", held, wanted, INF)
    assert (found.lost, found.contradicting) == (2, 1)
    assert compare("s", events("ins(B,5,30)"), wanted, 20).lost == 1
    assert compare("s", events("ins(B,5,30)"), wanted, 20, since=11).is_right


# -- recordings -----------------------------------------------------------------------------------


def test_pauses_are_the_times_between_frames_with_rows() -> None:
    schema = gl.StreamSchema({"p": "string"})
    row = Frame.from_elements(schema, gl.parse("ins(A,0,10)", schema))
    stable = Frame.empty(schema, 5)
    moments = [(1.0, row), (1.5, stable), (3.0, row), (3.1, row)]
    arrivals = [Arrived(at, Emit(frame, {})) for at, frame in moments]
    assert [round(p.length_s, 3) for p in pauses(arrivals)] == [2.0, 0.1]
    assert [round(p.length_s, 3) for p in pauses(arrivals, from_s=3.05)] == [0.1]
    recording = recorded([])
    recording.runs[0].arrivals.extend(arrivals)
    assert recording.longest_pause_s() == 2.0
    assert recording.pause_around_s(2.0) == 2.0
    assert round(recording.pause_around_s(3.05), 3) == 0.1
    assert recording.pause_around_s(9.0) == 0.0


def test_what_a_subscription_raises_ends_the_recording_and_is_raised_by_stop() -> None:
    played = Played([], error=JobError("the job is gone"))
    recording = Recording(played)
    assert not recording.wait_for_stable(1, timeout_s=10)
    with pytest.raises(JobError, match="is gone"):
        recording.stop()
    assert played.is_closed
