"""A job on real Ray goes on whatever dies: one job, killed piece by piece, and judged each time.

Each test waits until the job is whole, does one thing to it while rows come in, and ends with the
judges: all that journals and subscribers have is the answer, and no machine has a broken invariant.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
import ray

import gapless as gl
from gapless.actors.views import JobView
from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.tokens import encode
from tests.actors.rays import (
    FEED_S,
    WAIT_S,
    Feed,
    end,
    follow,
    goes_on,
    is_whole,
    judged,
    life_of,
    started,
    talkers,
    wait,
    wait_whole,
)

pytestmark = pytest.mark.ray


@dataclass
class Running:
    """A job, and what feeds it."""

    job: gl.Job
    feed: Feed


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    where = tmp_path_factory.mktemp("deaths")
    plans = [gl.Plan(talkers()), gl.Plan(talkers(), "wid")]
    with started(), Feed(where / "flows") as feed:
        job = gl.launch(
            talkers(),
            journal=feed.path,
            dir=where / "talkers",
            plans=plans,
            mergers=2,
            checkpoint_s=2,
        )
        yield Running(job, feed)
        last = follow(job, "the last", start="earliest")
        feed.stop()
        end(job)
        assert last.wait_for_end(WAIT_S)
        assert judged(job.dir, [last]).settled_rows > 1_000


@pytest.fixture
def job(running: Running) -> gl.Job:
    wait_whole(running.job)
    return running.job


def test_a_killed_replica_is_replaced_and_nobody_sees_it(job: gl.Job) -> None:
    recording = follow(job)
    before = life_of(job.status(), "r0.1")
    job.kill("r0.1")
    goes_on(recording)
    wait(job, lambda view: life_of(view, "r0.1") not in (before, None), "another life")
    wait_whole(job)
    goes_on(recording, 1_000)
    judged(job, [recording])


def test_one_of_two_mergers_is_killed_and_a_subscriber_of_both_goes_on(job: gl.Job) -> None:
    both = follow(job, "of both")
    one = follow(job, "of one", mergers=[0])
    before = life_of(job.status(), "m0.0")
    job.kill("m0.0")
    goes_on(both)
    goes_on(one)
    assert life_of(job.status(), "m0.0") != before
    wait_whole(job)
    judged(job, [both, one])


def test_when_the_root_dies_the_standby_leads_with_a_new_term_and_adopts_the_same_lives(
    job: gl.Job,
) -> None:
    recording = follow(job)
    for _ in range(2):  # the first one is the standby then, and leads again
        wait(job, lambda view: view.standby is not None, "somebody stands by")
        before = job.status()
        assert before.standby is not None
        job.kill("root")
        goes_on(recording)
        wait(job, partial(is_later, before), "another root has the job")
        after = wait_whole(job)
        assert after.root.pid == before.standby.pid
        assert after.hosts.keys() == before.hosts.keys()
        assert {a.pid for a in after.hosts.values()} == {a.pid for a in before.hosts.values()}
        assert gl.attach(job.name).status().root == after.root
        goes_on(recording, 1_000)
    judged(job, [recording])


@pytest.mark.slow
def test_a_root_that_is_stopped_is_killed_and_the_standby_leads(job: gl.Job) -> None:
    recording = follow(job)
    wait(job, lambda view: view.standby is not None, "somebody stands by")
    before = job.status()
    assert before.standby is not None
    psutil.Process(before.root.pid).suspend()
    goes_on(recording)
    wait(job, partial(is_later, before), "another root has the job")
    after = wait_whole(job)
    assert after.root.pid == before.standby.pid
    assert {a.pid for a in after.hosts.values()} == {a.pid for a in before.hosts.values()}
    judged(job, [recording])


def is_later(than: JobView, view: JobView) -> bool:
    return view.state.term > than.state.term


def test_more_replicas_and_fewer_again(job: gl.Job) -> None:
    recording = follow(job)
    for replicas in (2, 3):
        job.scale(replicas)
        wait(job, partial(has_replicas, replicas), f"{replicas} replicas")
        wait_whole(job)
        goes_on(recording, 1_000)
    judged(job, [recording])


def has_replicas(number: int, view: JobView) -> bool:
    return sum(slot.slot[0] == "r" and slot.life is not None for slot in view.state.slots) == number


def test_a_subscriber_that_dies_goes_on_by_its_token(job: gl.Job) -> None:
    recording = follow(job, mergers=[1])
    goes_on(recording)
    recording.stop()
    kept = recording.arrivals[-3].emit
    recording.go_on(job.subscribe(start=encode(kept.tokens), mergers=[1]), dropped=2)
    goes_on(recording)
    first = recording.runs[1].arrivals[0].emit
    assert not first.reset, "on the same journal its offset counts"
    judged(job, [recording])


def test_what_is_final_comes_once_over_a_resume_and_the_death_of_a_merger(job: gl.Job) -> None:
    recording = follow(job, deliver="final", start="earliest")
    goes_on(recording)
    recording.stop()
    kept = recording.arrivals[-1].emit
    job.kill("m0.1")
    recording.go_on(job.subscribe("final", start=encode(kept.tokens)))
    goes_on(recording)
    wait_whole(job)
    judged(job, [recording])


# -- a sink that takes each row exactly once ------------------------------------------------------


class Sink:
    """The recipe: the rows and the token in one transaction."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.execute("CREATE TABLE IF NOT EXISTS answers (vs, ve, src, packets, bytes)")
        self._db.execute("CREATE TABLE IF NOT EXISTS place (id PRIMARY KEY, token)")

    @property
    def token(self) -> str:
        """Where to go on: "earliest" for a sink that has taken nothing."""
        found = self._db.execute("SELECT token FROM place").fetchone()
        return "earliest" if found is None else str(found[0])

    def take(self, emit: Emit, token: str, *, dies: bool = False) -> None:
        with self._db:  # one transaction: all of it or, where the program dies, nothing
            columns = [emit.frame.vs.tolist(), emit.frame.ve.tolist()]
            columns += [column.to_pylist() for column in emit.frame.payload.columns]
            rows = zip(*columns, strict=True)
            self._db.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", rows)
            if dies:
                raise KilledHere
            self._db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", [token])

    def rows(self) -> list[tuple[int, ...]]:
        return sorted(self._db.execute("SELECT * FROM answers").fetchall())

    def close(self) -> None:
        self._db.close()


class KilledHere(Exception):
    """A sink dies in the middle of its transaction."""


def test_a_sink_that_dies_between_rows_and_token_has_each_row_exactly_once(
    job: gl.Job, tmp_path: Path
) -> None:
    stable = run_sink(job, tmp_path / "sink", frames=5, dies=True)
    job.kill("m0.0")
    stable = run_sink(job, tmp_path / "sink", frames=40)
    sink = Sink(tmp_path / "sink")
    rows = sink.rows()
    sink.close()
    journal = job.status().desired
    assert journal.state == "running"
    source = Path(next(iter(job._job_dir.job.record.sources.values())))
    answer = [f for f in gl.execute(talkers(), source) if len(f)]
    wanted = sorted(
        row
        for f in answer
        for row in zip(
            f.vs.tolist(), f.ve.tolist(), *(c.to_pylist() for c in f.payload.columns), strict=True
        )
        if row[0] < stable
    )
    assert len(rows) > 100
    assert rows == wanted


def run_sink(job: gl.Job, path: Path, *, frames: int, dies: bool = False) -> int:
    """Some frames with rows; the last stable that is in it."""
    sink = Sink(path)
    stable = 0
    with job.subscribe("final", start=sink.token) as subscription:
        left = frames
        while left:
            emit = subscription.next_emit(WAIT_S)
            assert emit is not None
            left -= len(emit.frame) > 0
            try:
                sink.take(emit, subscription.token, dies=dies and not left)
            except KilledHere:
                break
            stable = stable if emit.frame.stable is None else emit.frame.stable
    sink.close()
    return stable


# -- other processes ------------------------------------------------------------------------------


def test_another_process_attaches_and_reads_on(job: gl.Job) -> None:
    program = f"""
        import gapless as gl
        job = gl.attach("talkers", address="{ray.get_runtime_context().gcs_address}")
        with job.subscribe() as subscription:
            rows = sum(len(next(subscription)) for _ in range(20))
        job.validate()
        print(rows, job.name, job.table().num_rows)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows, name, answer = done.stdout.split()[-3:]
    assert int(rows) > 0
    assert name == "talkers"
    assert int(answer) > 0
    assert is_whole(job.status())


# -- other plans ----------------------------------------------------------------------------------


def test_a_cutover_to_another_plan_of_the_same_answer_pauses_nothing(job: gl.Job) -> None:
    recording = follow(job)
    before = job.status()
    job.cutover(gl.Plan(talkers(), "wid"))
    wait(job, lambda view: view.desired.plans != before.desired.plans, "the plan is another")
    after = wait_whole(job)
    assert not {s.life for s in after.state.slots if s.slot[0] == "r"} & before.hosts.keys()
    goes_on(recording)
    judged(job, [recording])


def test_a_cutover_to_another_answer_counts_from_its_time_on(running: Running, job: gl.Job) -> None:
    recording = follow(job)
    before = job.status().desired.plans
    running.feed.pause_s = 10 * FEED_S  # nobody may be beyond that time before all have begun
    at = (running.feed.stable + 15_000) // 1_000 * 1_000
    job.cutover(talkers(least=40), at=at)
    wait(job, lambda view: view.desired.plans != before, "the plan is another")
    running.feed.pause_s = FEED_S
    assert recording.wait_for_stable(at + 4_000, WAIT_S)
    wait_whole(job)
    judged(job, [recording])
    old, new = (
        gl.table(talkers(), running.feed.path, at),
        gl.table(talkers(least=40), running.feed.path, at),
    )
    assert old != new
    assert job.table(at) == new
    assert job.table(at - 1_000) == gl.table(talkers(), running.feed.path, at - 1_000)


def test_all_processes_of_the_job_are_known_to_it(job: gl.Job) -> None:
    view = job.status()
    pids = {about.pid for about in view.hosts.values()} | {view.root.pid}
    assert len(pids) == view.desired.replicas + view.desired.mergers + 1
    assert all(psutil.pid_exists(pid) for pid in pids)
