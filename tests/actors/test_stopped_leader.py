"""A root that is stopped is killed by a process of its own machine; one that is silent is not."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ray.exceptions import ActorDiedError

from gapless.actors import stopped_leader
from gapless.actors.host import NAMESPACE, Host
from gapless.actors.own_process import stopped
from gapless.actors.stopped_leader import StoppedLeader
from gapless.failover.job.files import Where

LEADER = Where("cluster", "ab", "there", 4711, "our pair")
STARTED = 80123


class Neighbour:
    """A host of the job: what it says of the root's process, or how it fails."""

    def __init__(self, says: Any, *, is_silent: bool = False) -> None:
        self.says, self.is_silent = says, is_silent
        self.asked: list[tuple[str, int]] = []
        self.killed: list[tuple[int, int]] = []
        self.stopped = SimpleNamespace(remote=self._asked)
        self.slay = SimpleNamespace(remote=lambda pid, started: self.killed.append((pid, started)))

    def _asked(self, host: str, pid: int) -> Neighbour:
        self.asked.append((host, pid))
        return self


class World:
    """A cluster with a root and its hosts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *hosts: Neighbour | None) -> None:
        self.hosts = {f"j/host/{i}": host for i, host in enumerate(hosts)}
        self.is_silent = True
        self.root: Any = SimpleNamespace(about=SimpleNamespace(remote=lambda: self))
        monkeypatch.setattr(stopped_leader, "named", self.named)
        monkeypatch.setattr(stopped_leader, "ray", self)

    def named(self, prefix: str) -> list[str]:
        assert prefix == "j/host/"
        return list(self.hosts)

    def get_actor(self, name: str, namespace: str) -> Neighbour:
        assert namespace == NAMESPACE
        if (host := self.hosts[name]) is None:
            raise ValueError(name)
        return host

    def wait(self, calls: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], None]:
        assert (num_returns, timeout) == (len(calls), stopped_leader.SILENT_S)
        return [call for call in calls if not call.is_silent], None

    def get(self, host: Neighbour) -> Any:
        if isinstance(host.says, Exception):
            raise host.says
        return host.says


def test_a_root_that_a_host_of_its_machine_finds_stopped_twice_is_killed_by_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = Neighbour(STARTED, is_silent=True)
    beside, elsewhere = Neighbour(STARTED), Neighbour(0)
    world = World(monkeypatch, None, silent, Neighbour(ActorDiedError()), elsewhere, beside)
    watch = StoppedLeader("j/host/", LEADER)
    watch.look(world.root)
    assert beside.asked == [(LEADER.host, LEADER.pid)]
    assert beside.killed == [], "it may go on in a moment"
    watch.look(world.root)
    assert beside.killed == [(LEADER.pid, STARTED)]
    assert silent.killed == elsewhere.killed == []


@pytest.mark.parametrize("between", ["it answers", "nobody sees it", "another process"])
def test_a_root_that_was_not_stopped_all_the_time_is_left_alone(
    between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Neighbour(STARTED)
    world = World(monkeypatch, host)
    watch = StoppedLeader("j/host/", LEADER)
    watch.look(world.root)
    if between == "it answers":
        world.is_silent = False
    else:
        host.says = 0 if between == "nobody sees it" else STARTED + 1
    watch.look(world.root)
    world.is_silent, host.says = True, STARTED
    watch.look(world.root)
    assert host.killed == []


def test_a_root_that_is_only_silent_is_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Neighbour(0)
    world = World(monkeypatch, host)
    watch = StoppedLeader("j/host/", LEADER)
    for _ in range(5):
        watch.look(world.root)
    assert host.killed == []
    assert len(host.asked) == 5


def test_a_root_that_answers_costs_no_other_process_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Neighbour(STARTED)
    world = World(monkeypatch, host)
    world.is_silent = False
    StoppedLeader("j/host/", LEADER).look(world.root)
    assert host.asked == []


def test_a_process_of_this_machine_is_looked_at_and_killed_from_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        here: Callable[..., int] = Host.stopped
        assert stopped(process.pid) == 0
        process.send_signal(signal.SIGSTOP)
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            continue
        found = stopped(process.pid)
        assert found > 0
        assert here(object.__new__(Host), socket.gethostname(), process.pid) == found
        assert here(object.__new__(Host), "elsewhere", process.pid) == 0
        where = Where("cluster", "ab", socket.gethostname(), process.pid, "our pair")
        watch = StoppedLeader("j/host/", where)
        watch.look(world.root)
        assert process.poll() is None
        watch.look(world.root)
        assert process.wait() == -signal.SIGKILL
    assert stopped(process.pid) == 0
