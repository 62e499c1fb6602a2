"""Spares become lives: those that are ready first, then the one that boots."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayError

from gapless.actors import hosts
from gapless.actors.book import Book
from gapless.actors.host import About
from gapless.actors.hosts import Hosts
from gapless.actors.setup import RAY_TIMING, Setup
from gapless.failover.life_start import Replay, ReplicaStart
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.protocol.schema import StreamSchema

NODE = "n1"
WAIT_S = 20.0
LIFE = Life("r0.0", Incarnation(1, 1))
START = ReplicaStart(0, "a", ("m0.0",), 1, (Replay(0),))
SETUP = Setup("dir", LIFE, START, StreamSchema({"src": "int32"}), RAY_TIMING, NODE)
BOOK = Book((1, 1), {})


class Process:
    """A host's handle. Its calls are answered once it has booted, or it has died."""

    def __init__(self) -> None:
        self.has_booted = threading.Event()
        self.is_asked = threading.Event()
        self.error: RayError | None = None
        self.about = self.become = SimpleNamespace(remote=lambda *_: self)

    def answer(self) -> About:
        self.is_asked.set()
        assert self.has_booted.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        return About(None, NODE, 1)


class Cluster:
    """In the place of Ray's, with one job that wants one spare."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Process] = []
        self.killed: list[Process] = []
        self._has_made = threading.Semaphore(0)
        monkeypatch.setattr(hosts, "host_class", lambda: None)
        monkeypatch.setattr(hosts, "ray", self)
        monkeypatch.setattr(Hosts, "_make", lambda *_: self._make())
        self.hosts = Hosts("job", "dir", 1, None)

    def _make(self) -> Process:
        self.made.append(Process())
        self._has_made.release()
        return self.made[-1]

    def get(self, call: Process, **_: Any) -> About:
        return call.answer()

    def kill(self, handle: Process, **_: Any) -> None:
        self.killed.append(handle)

    def boot_spare(self) -> tuple[Process, Callable[[], bool]]:
        """One that boots; and what waits until that is over, and says whether it has failed."""
        done: list[bool] = []
        thread = threading.Thread(target=lambda: done.append(self.hosts.make_spares(NODE)))
        thread.start()
        assert self._has_made.acquire(timeout=WAIT_S)
        assert self.made[-1].is_asked.wait(WAIT_S)

        def end() -> bool:
            thread.join(WAIT_S)
            return done[0]

        return self.made[-1], end

    def start(self) -> tuple[Process, Callable[[], None]]:
        """The process of a life that starts now; and what waits for its start to be over."""
        given: list[Process] = []
        begins = threading.Event()

        def tell(handle: Process) -> None:
            given.append(handle)
            begins.set()

        def work() -> None:
            with pytest.raises(RayError) if broken else nullcontext():
                self.hosts.start(SETUP, BOOK, tell)

        broken = bool(self.made and self.made[-1].error)
        thread = threading.Thread(target=work)
        thread.start()
        assert begins.wait(WAIT_S)
        return given[0], lambda: thread.join(WAIT_S)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_life_takes_the_spare_that_boots_and_starts_no_second_process(cluster: Cluster) -> None:
    spare, spare_is_made = cluster.boot_spare()
    taken, has_started = cluster.start()
    assert taken is spare
    spare.has_booted.set()
    assert spare_is_made(), "nothing has failed, and what is needed came first"
    has_started()
    assert cluster.made == [spare]


def test_a_spare_that_was_taken_while_it_booted_is_nobody_elses(cluster: Cluster) -> None:
    spare, spare_is_made = cluster.boot_spare()
    _, has_started = cluster.start()
    spare.has_booted.set()
    spare_is_made()
    has_started()
    next_one, next_has_started = cluster.start()
    assert next_one is not spare
    next_one.has_booted.set()
    next_has_started()


def test_one_that_has_booted_for_nobody_is_the_spare(cluster: Cluster) -> None:
    spare, spare_is_made = cluster.boot_spare()
    spare.has_booted.set()
    assert spare_is_made()
    taken, has_started = cluster.start()
    assert taken is spare
    has_started()
    assert cluster.made == [spare]


def test_a_spare_that_cannot_boot_is_ended_and_its_life_is_told(cluster: Cluster) -> None:
    spare, spare_is_made = cluster.boot_spare()
    spare.error = RayError("the node is gone")
    _, has_started = cluster.start()
    spare.has_booted.set()
    assert not spare_is_made()
    has_started()
    assert cluster.killed == [spare], "once, by the start that failed"
