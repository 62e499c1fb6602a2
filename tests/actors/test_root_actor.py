"""A root that cannot begin says so and tries again: its actor is never lost by that."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gapless.actors import root_actor
from gapless.actors.host import About
from gapless.actors.root_actor import AGAIN_S, AGAIN_S_MAX, GONE_MAX, RootActor, root_class
from gapless.actors.setup import RAY_TIMING, JobDir, token
from gapless.failover.job import Job
from gapless.failover.job_files import Where
from gapless.failover.messages import SUPERVISOR, Life
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JobError
from tests.actors.test_registering_shell import World

WAIT_S = 20.0
MINE, OTHERS = Where("cluster", "mine", "here", 1), Where("cluster", "others", "elsewhere", 2)


class Begun:
    """What a root does with the job's directory when it begins, and no cluster."""

    heard: list[bytes]
    told: list[str]

    def __init__(self, job_dir: str, timing: Timing, runtime_env: object) -> None:
        assert (timing, runtime_env) == (RAY_TIMING, None)
        resumed = JobDir(job_dir).job.resume({}, MINE)
        self.life = Life(SUPERVISOR, Incarnation(resumed.term, 0))
        self.heard, self.told = [], []

    def about(self) -> About:
        return About(self.life, "here", 1)

    def hear(self, data: bytes) -> None:
        self.heard.append(data)

    def tell(self, what: str) -> None:
        self.told.append(what)

    def wait(self) -> str:
        return "it is done"


class Trial:
    """A job's directory whose disk is full while the test says so, and the time between tries."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World(path)
        self.dir = str(self.world.path)
        self.is_full = True
        self.waits: list[float] = []
        self.ends = threading.Event()
        self.between: Callable[[int], None] = lambda _: None
        append = LocalDisk.append

        def append_if_there_is_room(disk: LocalDisk, name: str, data: bytes) -> int:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return append(disk, name, data)

        def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            self.between(len(self.waits))

        monkeypatch.setattr(LocalDisk, "append", append_if_there_is_room)
        monkeypatch.setattr(root_actor, "Root", Begun)
        monkeypatch.setattr(root_actor, "here", lambda: MINE)
        monkeypatch.setattr(root_actor, "_end", self.ends.set)
        monkeypatch.setattr(root_actor, "sleep", sleep)

    def make(self) -> RootActor:
        """As Ray would: it must not raise, ever."""
        return RootActor(self.dir, RAY_TIMING, None)


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(tmp_path, monkeypatch)


def begun(actor: RootActor) -> Begun:
    with actor._changed:
        assert actor._changed.wait_for(lambda: actor._root is not None, WAIT_S)
    root: Any = actor._root
    assert isinstance(root, Begun)
    return root


def test_a_root_whose_disk_is_full_begins_once_there_is_room(trial: Trial) -> None:
    refused: list[str] = []

    def between(tries: int) -> None:
        wanted = r"cannot begin: .*too little to write.*it tries again"
        with pytest.raises(JobError, match=wanted) as e:
            actor.view()
        refused.append(str(e.value))
        trial.is_full = tries < 6

    made = threading.Event()

    def waits_for_the_actor(tries: int) -> None:
        made.wait(WAIT_S)
        between(tries)

    trial.between = waits_for_the_actor
    actor = trial.make()
    made.set()
    root = begun(actor)
    assert len(refused) == 6
    assert trial.waits == [AGAIN_S, 1.0, 2.0, 4.0, AGAIN_S_MAX, AGAIN_S_MAX]
    assert actor.about().life == root.life
    assert actor.wait() == "it is done"
    actor._thread.join(WAIT_S)
    assert ["attempt 7" in what and "too little to write" in what for what in root.told] == [True]


def test_what_came_before_it_could_begin_is_heard_then(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_actor, "EARLY_MAX", 2)
    made = threading.Event()

    def between(_: int) -> None:
        made.wait(WAIT_S)
        for data in (b"1", b"2", b"3"):
            actor.hear(data)
        trial.is_full = False

    trial.between = between
    actor = trial.make()
    made.set()
    root = begun(actor)
    actor.hear(b"4")
    assert root.heard == [b"2", b"3", b"4"]


def test_who_asks_first_is_told_the_reason_itself(trial: Trial) -> None:
    held = threading.Event()

    def between(_: int) -> None:
        held.wait(WAIT_S)
        trial.is_full = False

    trial.between = between
    actor = trial.make()
    with pytest.raises(JobError, match="too little to write") as e:
        actor.about()
    assert "it tries again" not in str(e.value)
    held.set()
    begun(actor)


def test_a_root_that_could_not_begin_deposes_nobody_who_could(trial: Trial) -> None:
    def resumed_elsewhere(_: int) -> None:
        trial.is_full = False
        other = Job(LocalDisk(trial.dir), token())
        other.resume({}, OTHERS)

    trial.between = resumed_elsewhere
    actor = trial.make()
    assert trial.ends.wait(WAIT_S)
    assert "another root has the job, on elsewhere" in actor.wait()
    assert Job(LocalDisk(trial.dir), token()).where() == OTHERS


def test_a_root_deposes_the_one_before_it_as_ever(trial: Trial) -> None:
    trial.is_full = False
    Job(LocalDisk(trial.dir), token()).resume({}, OTHERS)
    begun(trial.make())
    assert Job(LocalDisk(trial.dir), token()).where() == MINE


def test_a_root_whose_job_is_removed_ends(trial: Trial) -> None:
    trial.dir = str(trial.world.path / "nothing")
    actor = trial.make()
    assert trial.ends.wait(WAIT_S)
    assert len(trial.waits) == GONE_MAX - 1
    assert "there is no job any more" in actor.wait()


def test_the_actor_has_the_methods_that_are_asked_for() -> None:
    """Each in a group of threads, but those whose order counts."""
    asked = {"view", "book", "command", "cutover", "validate", "about", "wait"}
    assert root_actor._METHODS.keys() == asked
    assert root_class() is not None
