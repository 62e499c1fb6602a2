"""A job's handle is interrupted while its root is asked, or asks one that is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from gapless.actors import cluster
from gapless.actors.book import Book
from gapless.actors.door import Door
from gapless.actors.handle import Job
from gapless.actors.setup import RAY_TIMING, JobDir
from gapless.actors.subscription import Subscription
from gapless.failover.job.desired import Desired, Scale
from gapless.protocol.elements import INF
from gapless.protocol.errors import JobError, Misuse
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.actors.test_outputs import job as made
from tests.actors.test_outputs import say, stop

DESIRED = Desired(1, ("plan0",), 1, 1)


class Root:
    """Answers every question at once; what was asked is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        answers = {"book": Book((1, 1), {}), "cutover": ("a note",)}

        def remote(*_: Any) -> Any:
            self.asked.append(name)
            view = SimpleNamespace(desired=DESIRED, hosts={}, name="job", job_dir="")
            return view if name == "view" else answers.get(name)

        return SimpleNamespace(remote=remote)


@pytest.fixture
def strikes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """At how many waits Ctrl-C is pressed; and how many pass before."""
    left = [0, 0]

    def get(answer: Any, timeout: float) -> Any:  # noqa: ARG001  # as Ray's
        if left[0] and left[1]:
            left[1] -= 1
        elif left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        return answer

    def wait(answers: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        get(None, timeout)
        return answers, []

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(cluster, "connection", lambda: "one")
    return left


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(cluster, "connection", lambda: "one")
    made(tmp_path, mergers=1)
    found = Job.__new__(Job)
    found._door = Door("job", Root())
    found._timing = RAY_TIMING
    found._owns_cluster = False
    found.name, found.dir = "job", tmp_path
    found._job_dir = JobDir(tmp_path)
    found._schema = DEFAULT_SCHEMA
    return found


CALLS: dict[str, Callable[[Job], Any]] = {
    "status": lambda job: job.status(),
    "validate": lambda job: job.validate(),
    "scale": lambda job: job._command(Scale(2)),
    "cutover": lambda job: job._door.ask(lambda root: root.cutover.remote({}, None)),
    "subscribe": lambda job: job.subscribe().close(),
    "kill": lambda job: job._book(),
    "records": lambda job: job.records("asked"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_question_to_the_root_that_is_interrupted_may_be_asked_again(
    job: Job, strikes: list[int], name: str
) -> None:
    before = set(threading.enumerate())
    strikes[0] = 1
    with pytest.raises(KeyboardInterrupt):
        CALLS[name](job)
    assert set(threading.enumerate()) <= before
    CALLS[name](job)


def test_a_stop_that_is_interrupted_may_be_waited_for_again(job: Job, strikes: list[int]) -> None:
    for before in (0, 1):
        strikes[:] = [1, before]
        with pytest.raises(KeyboardInterrupt):
            job.stop()
    asked = job._door.actor.asked
    assert (asked.count("command"), asked.count("wait")) == (2, 1)
    strikes[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        job.stop()
    assert asked.count("wait") == 2


def test_a_table_that_is_interrupted_leaves_no_thread(
    job: Job, strikes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not strikes[0]
    before = set(threading.enumerate())

    def struck(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Subscription, "next_emit", struck)
    with pytest.raises(KeyboardInterrupt):
        job.table()
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert set(threading.enumerate()) <= before


def test_a_job_that_is_over_is_read_from_its_directory_and_says_so(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "connection", lambda: None)
    with pytest.raises(Misuse, match="has left the job's cluster"):
        job.status()
    say(job.dir, ("ins(A,1,5) stable(4)", "stable(inf)"))
    stop(job.dir)
    with pytest.raises(JobError, match=r"is stopped; gl\.output"):
        job.status()
    with job.subscribe(start="earliest") as subscription:
        assert [each.stable for each in subscription][-1] == INF
        token = subscription.token
    assert list(job.subscribe(start=token)) == []
    assert job.table().num_rows == 1
