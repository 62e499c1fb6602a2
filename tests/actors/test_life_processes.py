"""The processes of lives: who is in the address book when, and what the supervisor hears of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from gapless.actors.book import Book, Entry
from gapless.actors.host import About
from gapless.actors.life_processes import LifeProcesses
from gapless.actors.setup import RAY_TIMING, Setup
from gapless.failover.life_start import MergerStart
from gapless.failover.messages import Life
from gapless.failover.supervisor.effects import Died
from gapless.protocol.envelope import Incarnation
from gapless.protocol.schema import StreamSchema

WAIT_S = 20.0
SCHEMA = StreamSchema({"src": "int32"})
ROOT = Life("supervisor", Incarnation(2, 0))
LIFE = Life("m0.0", Incarnation(2, 1))
OLD = Life("m0.1", Incarnation(1, 7))
SILENT = Life("r0.0", Incarnation(1, 8))
START = MergerStart(0, ())


class Handle:
    """Of a process: the books that it is sent."""

    def __init__(self) -> None:
        self.books: list[Book] = []
        self.meet = self

    def remote(self, book: Book) -> None:
        self.books.append(book)


class Cluster:
    """The hosts of a job, as a test wants them to be; and the root's pump and post."""

    def __init__(self) -> None:
        self.handle = Handle()
        self.fails = ""
        self.found: list[tuple[About, Any]] = []
        self.ends: dict[int, Callable[[str], None]] = {}
        self.killed: list[Any] = []
        self.slain: list[About] = []
        self.happened: list[Any] = []
        self.started = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.book = Book()

    # hosts

    def find(self) -> list[tuple[About, Any]]:
        return self.found

    def start(self, setup: Setup, book: Book, begins: Callable[[Any], None]) -> tuple[Any, About]:
        assert book is self.book, "it begins with the newest one"
        begins(self.handle)
        if self.fails:
            raise ValueError(self.fails)
        return self.handle, About(setup.life, setup.node, 7)

    def watch(self, handle: Any, over: Callable[[str], None]) -> None:
        self.ends[id(handle)] = over

    def kill(self, handle: Any) -> None:
        self.killed.append(handle)
        self.ended.release()

    def slay(self, about: About) -> None:
        self.slain.append(about)

    # pump and post

    def do(self, work: Callable[[], None]) -> None:
        work()

    def happens(self, event: Any) -> None:
        self.happened.append(event)
        self.started.release()

    def take_book(self, book: Book) -> None:
        self.book = book

    def processes(self) -> LifeProcesses:
        parts: Any = self
        return LifeProcesses(
            (ROOT, Entry(Handle(), "n0")),
            parts,
            parts,
            parts,
            lambda life, node, start: Setup("dir", life, start, SCHEMA, RAY_TIMING, node),
            lambda node: f"{node}.lan",
            self.started.release,
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_life_that_is_started_is_in_the_book_and_known_and_out_of_both_once_it_dies(
    cluster: Cluster,
) -> None:
    it = cluster.processes()
    it.publish()
    assert cluster.book.version == (2, 1)
    it.spawn(LIFE, "n1", START)
    assert cluster.started.acquire(timeout=WAIT_S)
    assert cluster.handle.books[-1] is cluster.book
    assert cluster.book.lives == {ROOT: cluster.book.lives[ROOT], LIFE: Entry(cluster.handle, "n1")}
    assert it.about == {LIFE: About(LIFE, "n1", 7)}
    assert it.handles() == [cluster.handle]
    cluster.ends[id(cluster.handle)]("it was killed")
    assert cluster.happened == [Died(LIFE, "it was killed")]
    assert set(cluster.book.lives) == {ROOT}
    assert it.handles() == []
    assert cluster.ended.acquire(timeout=WAIT_S)
    assert cluster.killed == [cluster.handle], "it may only be out of reach"


def test_a_life_that_cannot_be_started_has_died(cluster: Cluster) -> None:
    cluster.fails = "no room"
    it = cluster.processes()
    it.spawn(LIFE, "n1", START)
    assert cluster.started.acquire(timeout=WAIT_S)
    (died,) = cluster.happened
    assert died == Died(LIFE, "it cannot be started on node n1.lan: no room")
    assert set(cluster.book.lives) == {ROOT}


def test_a_life_is_killed_by_the_cluster_and_by_a_neighbour_where_its_process_is_known(
    cluster: Cluster,
) -> None:
    it = cluster.processes()
    it.kill(LIFE)  # nobody knows it
    it.spawn(LIFE, "n1", START)
    assert cluster.started.acquire(timeout=WAIT_S)
    it.kill(LIFE)
    assert cluster.ended.acquire(timeout=WAIT_S)
    assert cluster.killed == [cluster.handle]
    assert cluster.slain == [About(LIFE, "n1", 7)]


def test_processes_of_a_root_before_are_taken_over_and_those_that_answered_are_told(
    cluster: Cluster,
) -> None:
    first, second = Handle(), Handle()
    cluster.found = [
        (About(OLD, "n1", 5), first),
        (About(SILENT, "n2", 0), second),
        (About(None, "n2", 6), Handle()),
    ]
    it = cluster.processes()
    assert it.find() == [OLD]
    it.publish()
    assert set(cluster.book.lives) == {ROOT, OLD, SILENT}
    assert first.books == second.books == [cluster.book]
    assert set(cluster.ends) == {id(first), id(second)}
    it.end()
