"""Of two actors one is a job's root: which one, the job's directory says."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    RayTaskError,
)

from gapless.actors import cluster, pair
from gapless.actors.door import Door
from gapless.actors.host import About
from gapless.actors.own_process import runs
from gapless.actors.pair import Other, Pair, StandsBy, until_gone
from gapless.actors.stopped_leader import LOOK_S, StoppedLeader
from gapless.actors.whereabouts import Found, Silent
from gapless.failover.job.files import Where
from gapless.protocol.errors import JobError, Misuse

PAIR = Pair("talkers", "our pair", 7)
LEADER = Where("cluster", "ab", "there", 4711, PAIR.token)


@pytest.mark.parametrize(
    ("term", "where", "gone", "part"),
    [
        (0, None, 0, "leads"),
        (7, Where("c", "x", "h", 1, "another"), 0, "leads"),
        (7, Where("c", "x", "h", 1), 0, "leads"),
        (8, Where("c", "x", "h", 1, "another"), 0, "is over"),
        (8, None, 0, "is over"),
        (8, Where("c", "me", "h", 1, PAIR.token), 0, "leads"),
        (8, LEADER, 0, "stands by"),
        (8, LEADER, 8, "leads"),
        (9, LEADER, 8, "stands by"),
    ],
)
def test_the_newest_term_says_which_actor_of_a_pair_leads(
    term: int, where: Where | None, gone: int, part: str
) -> None:
    assert PAIR.part("me", term, where, gone) == part


def test_each_of_a_pair_knows_the_others_name() -> None:
    assert PAIR.other("talkers/root") == "talkers/standby"
    assert PAIR.other("talkers/standby") == "talkers/root"


# -- watching -------------------------------------------------------------------------------------


class World:
    """What the standby sees of the root, in turn: calls of `guard` that fail, words of the GCS."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, said: list[Found | Silent | None]) -> None:
        self.said, self.calls, self.slept = said, 0, 0
        self.host, self.runs = "here", True
        self.guarded, self.looked = 0, 0
        monkeypatch.setattr(pair, "actor_at", self.actor_at)
        monkeypatch.setattr(pair, "runs", lambda _: self.runs)
        monkeypatch.setattr(socket, "gethostname", lambda: self.host)
        monkeypatch.setattr(time, "sleep", lambda _: self.sleep())
        actor = SimpleNamespace(guard=SimpleNamespace(remote=lambda: None))
        context = SimpleNamespace(gcs_address="here")
        monkeypatch.setattr(ray, "get_actor", lambda *_, **__: actor)
        monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
        monkeypatch.setattr(ray, "get", self.get)
        monkeypatch.setattr(ray, "wait", self.wait)
        monkeypatch.setattr(StoppedLeader, "look", lambda *_: self.look())

    def get(self, *_: Any) -> None:
        self.calls += 1
        raise ActorUnavailableError("it cannot be reached", None)

    def wait(self, calls: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        assert timeout == LOOK_S
        self.guarded -= 1
        return ([], calls) if self.guarded >= 0 else (calls, [])

    def look(self) -> None:
        self.looked += 1

    def actor_at(self, *_: Any) -> Found | None:
        found = self.said.pop(0)
        if isinstance(found, Silent):
            raise found
        return found

    def sleep(self) -> None:
        self.slept += 1


ALIVE = Found(LEADER.actor, LEADER.pid)


@pytest.mark.parametrize(
    "gone",
    [None, Found(LEADER.actor, 0), Found(LEADER.actor, 4712), Found("ac", LEADER.pid)],
    ids=["no actor", "being restarted", "another process", "another actor"],
)
def test_a_root_that_cannot_be_reached_is_gone_once_the_cluster_says_so(
    gone: Found | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, [ALIVE, ALIVE, Silent("away", is_there=False), ALIVE, gone])
    until_gone("talkers/root", LEADER)
    assert (world.said, world.calls, world.slept) == ([], 2, 2)


def test_as_long_as_a_root_leads_it_is_looked_whether_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, [ALIVE, None])
    world.guarded = 3
    until_gone("talkers/root", LEADER)
    assert (world.looked, world.calls) == (3, 1)


def test_a_root_of_this_machine_is_gone_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, [])
    world.host, world.runs = LEADER.host, False
    until_gone("talkers/root", LEADER)
    assert world.calls == 0


def test_a_process_that_has_ended_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    zombie = SimpleNamespace(status=lambda: "zombie")
    monkeypatch.setattr("gapless.actors.own_process.psutil.Process", lambda _: zombie)
    assert not runs(4711)


# -- keeping one that stands by -------------------------------------------------------------------


def test_the_standby_is_made_on_another_node_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, str | None]] = []
    about = About(None, "n2", 5)
    actor = SimpleNamespace(about=SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(ray, "get", lambda *_, **__: about)
    monkeypatch.setattr(ray, "kill", lambda *_, **__: made.append(("killed", None)))

    def make(name: str, node: str | None) -> Any:
        made.append((name, node))
        return actor

    other = Other("talkers/standby", make)
    other.ensure("n1", {"n1": "head"})
    other.ensure("n1", {"n1": "head", "n2": "more"})
    assert made == [("talkers/standby", None), ("talkers/standby", "n2")]
    assert other.about == about
    other.end()
    other.ensure("n1", {"n1": "head"})
    assert made[2:] == [("killed", None)], "the job is over"


def test_nobody_stands_by_while_none_can_be_made() -> None:
    def make(*_: Any) -> Any:
        raise ValueError("no room")

    other = Other("talkers/standby", make)
    other.ensure("n1", {})
    assert other.about is None


# -- asking ---------------------------------------------------------------------------------------


class Actor:
    """One of the pair: answers, or fails as it is told."""

    def __init__(self, name: str, *answers: Any) -> None:
        self.name, self.answers, self.asked = name, list(answers), 0
        self._actor_id = SimpleNamespace(hex=lambda: name)
        self.wait = SimpleNamespace(remote=lambda: self)
        self.book = SimpleNamespace(remote=lambda: self)

    def answer(self) -> Any:
        self.asked += 1
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, Exception):
            raise said
        return said


AWAY = ActorUnavailableError("it is being restarted", None)
DEAD = ActorDiedError()


def stands_by() -> RayTaskError:
    cause = StandsBy("its root runs on there")
    return RayTaskError("view", "", cause)  # type: ignore[no-untyped-call]  # Ray has no types


Doors = Callable[..., Door]


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    actors: dict[str, Actor] = {}

    def get_actor(name: str, **_: Any) -> Actor:
        if name not in actors:
            raise ValueError(name)
        return actors[name]

    monkeypatch.setattr(cluster, "connection", lambda: "one")
    monkeypatch.setattr(ray, "get_actor", get_actor)
    monkeypatch.setattr(ray, "get", lambda actor, timeout: actor.answer())
    monkeypatch.setattr(time, "sleep", lambda _: None)

    def made(root: Actor, standby: Actor | None) -> Door:
        actors["talkers/root"] = root
        if standby is not None:
            actors["talkers/standby"] = standby
        return Door("talkers", root)

    return made


def test_who_asks_the_standby_is_led_to_the_root(doors: Doors) -> None:
    root, standby = Actor("r", stands_by()), Actor("s", "a view")
    entrance = doors(root, standby)
    assert entrance.ask(lambda actor: actor) == "a view"
    assert entrance.ask(lambda actor: actor) == "a view"
    assert (root.asked, standby.asked) == (1, 2), "it is asked first from then on"


def test_both_are_asked_in_turn_until_one_is_root(doors: Doors) -> None:
    root, standby = Actor("r", AWAY), Actor("s", stands_by(), stands_by(), "a view")
    assert doors(root, standby).ask(lambda actor: actor) == "a view"


def test_a_job_without_a_standby_is_asked_again_while_its_root_is_away(doors: Doors) -> None:
    assert doors(Actor("r", AWAY, AWAY, "a view"), None).ask(lambda actor: actor) == "a view"


def test_a_root_that_is_dead_for_good_is_followed_by_the_standby(doors: Doors) -> None:
    root, standby = Actor("r", DEAD), Actor("s", stands_by(), "a view")
    assert doors(root, standby).ask(lambda actor: actor) == "a view"
    with pytest.raises(JobError, match="the job's root is gone"):
        doors(Actor("r", DEAD), Actor("s", DEAD)).ask(lambda actor: actor)
    with pytest.raises(JobError, match="the job's root is gone"):
        doors(Actor("r", DEAD), None).ask(lambda actor: actor)


def test_what_the_root_refuses_is_refused(doors: Doors) -> None:
    refused = RayTaskError("cutover", "", Misuse("no"))  # type: ignore[no-untyped-call]  # Ray has no types
    with pytest.raises(Misuse, match="no"):
        doors(Actor("r", refused), Actor("s", "never asked")).ask(lambda actor: actor)


def test_who_waits_for_the_end_waits_for_the_next_root_where_one_dies(doors: Doors) -> None:
    root = Actor("r", AWAY)
    standby = Actor("s", "a book", "it is done")
    doors(root, standby).wait(time.monotonic() + 9.0, lambda: standby.asked < 2)
    assert standby.answers == ["it is done"]
    doors(Actor("r", DEAD), None).wait(1.0, lambda: False)


def test_who_waits_for_the_end_is_not_told_of_it_by_a_root_that_another_has_followed(
    doors: Doors,
) -> None:
    root = Actor("r", "another root has the job", stands_by())
    standby = Actor("s", "a book", "it is done")
    doors(root, standby).wait(time.monotonic() + 9.0, lambda: standby.asked < 2)
    assert (root.asked, standby.asked) == (2, 2)
    with pytest.raises(GetTimeoutError):
        doors(Actor("r", "it has ended"), None).wait(time.monotonic() - 1.0, lambda: True)
