"""A root that cannot begin says so and tries again: its actor is never lost by that."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gapless.actors import root_actor
from gapless.actors.host import About
from gapless.actors.pair import Other, Pair, StandsBy
from gapless.actors.root_actor import AGAIN_S, AGAIN_S_MAX, GONE_MAX, RootActor, root_class
from gapless.actors.setup import RAY_TIMING, JobDir, token
from gapless.actors.whereabouts import root_name, standby_name
from gapless.failover.job.desired import Stop
from gapless.failover.job.directory import Job
from gapless.failover.job.files import Where
from gapless.failover.messages import SUPERVISOR, Life
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JobError
from tests.actors.test_reader_registry_shell import World

WAIT_S = 20.0
PAIR = Pair("job", "our pair", 0)
ROOT, STANDBY = root_name(PAIR.job), standby_name(PAIR.job)
MINE = Where("cluster", "mine", "here", 1, PAIR.token)
THEIRS = Where("cluster", "theirs", "there", 3, PAIR.token)
"""Where the other one of the pair runs."""
OTHERS = Where("another", "others", "elsewhere", 2, "another pair")


class Begun:
    """What a root does with the job's directory when it begins, and no cluster."""

    heard: list[bytes]
    is_followed = False
    told: list[str]

    def __init__(
        self, job_dir: str, timing: Timing, runtime_env: object, where: Where, other: Other
    ) -> None:
        assert (timing, runtime_env, other.about) == (RAY_TIMING, None, None)
        resumed = JobDir(job_dir).job.resume({}, where)
        self.life = Life(SUPERVISOR, Incarnation(resumed.term, 0))
        self.heard, self.told = [], []
        self.ended = threading.Event()

    def about(self) -> About:
        return About(self.life, "here", 1)

    def hear(self, data: bytes) -> None:
        self.heard.append(data)

    def tell(self, what: str) -> None:
        self.told.append(what)

    def wait(self) -> str:
        self.ended.wait(WAIT_S)
        return "it is done"

    def refuse(self, *_: object) -> NoReturn:
        raise JobError("its pump has ended")

    view = command = cutover = record = validate = refuse


class Trial:
    """A job's directory whose disk is full while the test says so, and the time between tries."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World(path)
        self.dir = str(self.world.path)
        self.is_full = True
        self.waits: list[float] = []
        self.ends = threading.Event()
        self.between: Callable[[int], None] = lambda _: None
        self.where = MINE
        self.watched: list[tuple[str, Where]] = []
        self.watches, self.gone = threading.Event(), threading.Event()
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
        monkeypatch.setattr(root_actor, "here", lambda: replace(self.where, pair=""))
        monkeypatch.setattr(root_actor, "until_gone", self.until_gone)
        monkeypatch.setattr(root_actor, "_end", self.ends.set)
        monkeypatch.setattr(root_actor, "sleep", sleep)

    def make(self, name: str = ROOT, pair: Pair = PAIR) -> RootActor:
        """As Ray would: it must not raise, ever."""
        return RootActor(self.dir, RAY_TIMING, None, pair, name)

    def until_gone(self, name: str, leader: Where) -> None:
        """In the place of the one that asks the cluster."""
        self.watched.append((name, leader))
        self.watches.set()
        self.gone.wait(WAIT_S)

    def leads(self, where: Where) -> int:
        """Another root has begun, there; its term."""
        return Job(LocalDisk(self.dir), token()).resume({}, where).term

    def where_it_is(self) -> Where | None:
        """Where the newest root runs."""
        return Job(LocalDisk(self.dir), token()).where()


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
    root.ended.set()
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
        trial.leads(OTHERS)

    trial.between = resumed_elsewhere
    actor = trial.make()
    assert trial.ends.wait(WAIT_S)
    assert "another root has the job, on elsewhere" in actor.wait()
    assert trial.where_it_is() == OTHERS


def test_a_root_deposes_the_one_before_it_as_ever(trial: Trial) -> None:
    trial.is_full = False
    term = trial.leads(OTHERS)
    begun(trial.make(pair=replace(PAIR, since=term)))
    assert trial.where_it_is() == MINE


def test_a_root_that_is_restarted_after_a_takeover_deposes_nobody(trial: Trial) -> None:
    trial.is_full = False
    begun(trial.make())
    trial.leads(OTHERS)  # from another cluster
    again = trial.make()
    assert trial.ends.wait(WAIT_S)
    assert "another root has the job, on elsewhere" in again.wait()
    assert trial.where_it_is() == OTHERS


def test_a_root_that_is_restarted_leads_again_unless_the_other_was_faster(trial: Trial) -> None:
    trial.is_full = False
    begun(trial.make())
    begun(trial.make())
    term = trial.leads(THEIRS)
    again = trial.make()
    assert trial.watches.wait(WAIT_S)
    assert trial.watched == [(STANDBY, THEIRS)]
    assert again._root is None
    assert Job(LocalDisk(trial.dir), token()).last_root() == (term, THEIRS)
    trial.gone.set()
    assert begun(again).life.incarnation.term == term + 1


def test_the_standby_leads_once_the_root_is_gone(trial: Trial) -> None:
    trial.is_full = False
    term = trial.leads(THEIRS)
    standby = trial.make(STANDBY)
    assert trial.watches.wait(WAIT_S)
    assert trial.watched == [(ROOT, THEIRS)]
    assert trial.where_it_is() == THEIRS
    trial.gone.set()
    assert begun(standby).life.incarnation.term == term + 1
    assert trial.where_it_is() == MINE


def test_the_standby_says_that_it_is_and_keeps_nothing_of_what_lives_say(trial: Trial) -> None:
    trial.is_full = False
    trial.leads(THEIRS)
    standby = trial.make(STANDBY)
    assert trial.watches.wait(WAIT_S)
    standby.hear(b"a heartbeat")
    for asks in (standby.view, standby.book, standby.wait, standby.validate):
        with pytest.raises(StandsBy, match="its root runs on there"):
            asks()
    standby.guard()  # returns: there is no root to be guarded
    trial.gone.set()
    assert begun(standby).heard == []


def test_the_standby_of_a_job_that_was_taken_over_ends_with_its_root(trial: Trial) -> None:
    trial.is_full = False
    trial.leads(THEIRS)
    standby = trial.make(STANDBY)
    assert trial.watches.wait(WAIT_S)
    trial.leads(OTHERS)
    trial.gone.set()
    assert trial.ends.wait(WAIT_S)
    assert "another root has the job, on elsewhere" in standby.wait()
    assert trial.where_it_is() == OTHERS


def test_a_root_that_died_before_it_ever_began_deposes_those_its_pair_was_made_to(
    trial: Trial,
) -> None:
    trial.is_full = False
    pair = replace(PAIR, since=trial.leads(OTHERS))
    begun(trial.make(pair=pair))
    assert trial.where_it_is() == MINE


def test_a_root_that_has_ended_as_another_one_followed_leads_those_who_ask_to_that_one(
    trial: Trial,
) -> None:
    trial.is_full = False
    actor = trial.make()
    root = begun(actor)
    questions: list[Callable[[], object]] = [
        actor.view,
        actor.validate,
        lambda: actor.record("somebody asks"),
        lambda: actor.command(Stop(drain=False)),
        lambda: actor.cutover({}, None),
    ]
    for question in questions:
        root.is_followed = False
        with pytest.raises(JobError, match=r"^its pump has ended") as refused:
            question()
        assert not isinstance(refused.value, StandsBy)
        root.is_followed = True
        with pytest.raises(StandsBy, match="followed by another: its pump has ended"):
            question()


def test_a_root_is_guarded_by_one_call_at_a_time_until_it_ends(trial: Trial) -> None:
    trial.is_full = False
    actor = trial.make()
    root = begun(actor)
    guards = []
    for _ in range(3):
        guards.append(threading.Thread(target=actor.guard))
        guards[-1].start()
        with actor._changed:
            assert actor._changed.wait_for(lambda: actor._guards == len(guards), WAIT_S)
    *before, last = guards
    for guard in before:
        guard.join(WAIT_S)
    assert [guard.is_alive() for guard in guards] == [False, False, True]
    root.ended.set()
    last.join(WAIT_S)
    assert not last.is_alive()


def test_a_root_whose_job_is_removed_ends(trial: Trial) -> None:
    trial.dir = str(trial.world.path / "nothing")
    actor = trial.make()
    assert trial.ends.wait(WAIT_S)
    assert len(trial.waits) == GONE_MAX - 1
    assert "there is no job any more" in actor.wait()


def test_the_actor_has_the_methods_that_are_asked_for() -> None:
    """Each in a group of threads, but those whose order counts."""
    asked = {"view", "book", "command", "cutover", "validate", "about", "wait", "guard", "record"}
    assert root_actor._METHODS.keys() == asked
    assert root_class() is not None
