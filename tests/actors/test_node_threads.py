"""What hangs on one node keeps nothing of another node waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ray.exceptions import RayError

from gapless.actors import hosts
from gapless.actors.book import Book, Entry
from gapless.actors.hosts import FORGET_S, SPARES_FAILED_MAX, Hosts
from gapless.actors.life_processes import SPAWNERS, LifeProcesses
from gapless.actors.node_threads import NodeThreads
from gapless.actors.reserve import SPARES_AGAIN_MS, Reserve
from gapless.actors.setup import RAY_TIMING, Setup
from gapless.failover.life_start import Replay, ReplicaStart
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"src": "int32"})
WAIT_S = 20.0
HUNG, WELL = "hung", "well"


@pytest.fixture
def again() -> Iterator[threading.Event]:
    """When the hung node answers again."""
    event = threading.Event()
    yield event
    event.set()


class Starts:
    """The hosts of a cluster of which one node hangs."""

    def __init__(self, again: threading.Event) -> None:
        self.again = again
        self.begun: list[str] = []
        self.well = threading.Semaphore(0)

    def start(self, setup: Any, book: Book, begins: Callable[[Any], None]) -> tuple[Any, Any]:
        del book, begins
        self.begun.append(setup.node)
        if setup.node == HUNG:
            self.again.wait(WAIT_S)
        else:
            self.well.release()
        raise ValueError("the test has seen enough")


def test_a_node_that_hangs_blocks_no_spawn_elsewhere(again: threading.Event) -> None:
    starts: Any = Starts(again)
    anything: Any = Anything()
    life = Life("r0.0", Incarnation(1, 1))
    it = LifeProcesses(
        (Life("supervisor", Incarnation(1, 0)), Entry(None, WELL)),
        starts,
        anything,
        anything,
        lambda life, node, start: Setup("dir", life, start, SCHEMA, RAY_TIMING, node),
        str,
        anything,
    )
    start = ReplicaStart(0, "a", ("m0.0",), 1, (Replay(0),))
    for _ in range(2 * SPAWNERS):
        it.spawn(life, HUNG, start)
    it.spawn(life, WELL, start)
    assert starts.well.acquire(timeout=WAIT_S)
    assert starts.begun.count(HUNG) == SPAWNERS, "as many as a node may start at once"


class Anything:
    """Whatever is asked of it, it has."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_: Any) -> None: ...


def test_a_node_that_hangs_keeps_no_other_from_its_spares(
    again: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "TURN_S", 0.01)
    monkeypatch.setattr(hosts, "host_class", lambda: None)
    it = Hosts("job", "dir", 2, None)
    made = threading.Semaphore(0)
    tries: list[str] = []

    def has_booted(_: Hosts, node: str, handle: Any) -> bool:
        del handle
        tries.append(node)
        if node == HUNG:
            again.wait(WAIT_S)
        else:
            made.release()
        return tries.count(node) < SPARES_FAILED_MAX

    monkeypatch.setattr(Hosts, "_make", lambda *_: Anything())
    monkeypatch.setattr(Hosts, "_has_booted", has_booted)
    monkeypatch.setattr(Hosts, "_lacks_spares", lambda *_: True)
    threads = NodeThreads("spare", 1)
    for node in (HUNG, WELL):
        threads.submit(node, it.make_spares, node)
    assert all(made.acquire(timeout=WAIT_S) for _ in range(SPARES_FAILED_MAX))
    assert tries.count(HUNG) == 1


def test_threads_of_a_node_that_is_gone_end_once_they_are_done(again: threading.Event) -> None:
    done = threading.Event()
    threads = NodeThreads("spawn", 1)
    threads.submit(HUNG, again.wait, WAIT_S)
    threads.submit(HUNG, done.set)
    threads.keep([WELL])
    again.set()
    assert done.wait(WAIT_S)
    threads.submit(HUNG, done.clear)  # the node is back
    threads.keep([])


def test_of_a_node_that_hangs_spares_are_asked_once_more_however_often_they_are_wanted(
    again: threading.Event,
) -> None:
    asked: list[str] = []
    hangs, well = threading.Event(), threading.Semaphore(0)

    class Spares:
        def make_spares(self, node: str) -> bool:
            asked.append(node)
            if node == HUNG:
                hangs.set()
                again.wait(WAIT_S)
            else:
                well.release()
            return True

    spares: Any = Spares()
    nobody: Any = Anything()
    nodes = {HUNG: "", WELL: ""}
    it = Reserve(spares, None, nobody, WELL, lambda: nodes, lambda: False, lambda: False)
    it.make()
    assert hangs.wait(WAIT_S)
    for _ in range(50):
        assert well.acquire(timeout=WAIT_S)
        it.make()
    assert well.acquire(timeout=WAIT_S)
    again.set()
    done = threading.Event()
    it._making.submit(HUNG, done.set)
    assert done.wait(WAIT_S)
    assert asked.count(WELL) == 51
    assert asked.count(HUNG) <= 2


class Cluster:
    """In the place of Ray's: makes spares unless it is disturbed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.is_disturbed = False
        self.tries = 0
        monkeypatch.setattr(hosts, "host_class", lambda: None)
        monkeypatch.setattr(hosts, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(hosts.Hosts, "_make", lambda *_, **__: Anything())
        monkeypatch.setattr(hosts.Hosts, "kill", lambda *_: None)
        monkeypatch.setattr(hosts, "ray", self)
        self.hosts = Hosts("job", "dir", 1, None)

    def get(self, *_: Any, **__: Any) -> None:
        self.tries += 1
        if self.is_disturbed:
            raise RayError("disturbed")


def test_a_node_that_could_make_no_spare_for_a_while_gets_its_spares_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.is_disturbed = True
    assert not any(cluster.hosts.make_spares(WELL) for _ in range(3 * SPARES_FAILED_MAX))
    assert cluster.tries == SPARES_FAILED_MAX, "no longer at once"
    cluster.is_disturbed = False
    assert not cluster.hosts.make_spares(WELL)
    cluster.now_s += FORGET_S
    assert cluster.hosts.make_spares(WELL)
    assert cluster.hosts.make_spares(WELL)
    assert cluster.tries == SPARES_FAILED_MAX + 1


def test_one_failure_puts_spares_off_by_no_more_than_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.is_disturbed = True
    assert not cluster.hosts.make_spares(WELL)
    cluster.is_disturbed = False
    assert cluster.hosts.make_spares(WELL)
    assert SPARES_AGAIN_MS <= 10_000
