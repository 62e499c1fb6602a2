"""The processes of a job's lives, as its root has them: started, known, published, killed.

    spawn --> a thread of the node --> hosts.py: a spare becomes the life      begins: in the book
                  |                                                            started: watched
                  '--> it cannot be started: Died
    kill  --> a thread: hosts.py kills the process, whatever it is doing
    its process ends, or is out of reach --> Died, and out of the book

The address book says which process is which life. The root alone writes it, and sends each version
to all who are in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ray.exceptions import RayError

from gapless.actors.book import Book, Entry
from gapless.actors.host import About
from gapless.actors.hosts import Hosts, reason
from gapless.actors.node_threads import NodeThreads
from gapless.actors.post import Post
from gapless.actors.pump import Pump
from gapless.actors.setup import Setup
from gapless.failover.life_start import Start
from gapless.failover.messages import Life
from gapless.failover.supervisor.effects import Died

SPAWNERS = 4
"""Processes that are started at once on each node; each start keeps a core busy for a while."""

_log = logging.getLogger("gapless.actors")


class LifeProcesses:
    """The processes of one root's lives, its own among them. For its pump's thread: those of a
    supervisor's interpreter (failover/io/supervisor_io.py).
    """

    def __init__(
        self,
        root: tuple[Life, Entry],
        hosts: Hosts,
        pump: Pump,
        post: Post,
        setup_of: Callable[[Life, str, Start], Setup],
        name_of: Callable[[str], str],
        has_started: Callable[[], None],
    ) -> None:
        """`root`: the life that has these processes, and its own. `setup_of`: what a life on a node
        is told. `name_of`: a node's name, for people. `has_started`: is called after each start.
        """
        self._life, entry = root
        self._hosts = hosts
        self._pump = pump
        self._post = post
        self._setup_of = setup_of
        self._name_of = name_of
        self._has_started = has_started
        self.about: dict[Life, About] = {}
        """By life, which process it is."""
        self._entries: dict[Life, Entry] = {self._life: entry}
        self._books = 0
        self._spawning = NodeThreads("spawn", SPAWNERS)
        self._killing = ThreadPoolExecutor(1, thread_name_prefix="kill")

    # -- finding ------------------------------------------------------------------------------

    def find(self) -> list[Life]:
        """Takes over the processes that a root before this one has started; the lives that have
        answered.
        """
        for about, handle in self._hosts.find():
            self._add(about, handle)
        return [life for life, about in self.about.items() if about.pid]

    def handles(self) -> list[Any]:
        """Of all that are known to run."""
        return [self._entries[life].handle for life in self.about]

    def keep_nodes(self, nodes: Iterable[str]) -> None:
        """The nodes that there are now."""
        self._spawning.keep(nodes)

    def end(self) -> None:
        """Starts nothing more."""
        self._spawning.keep(())

    # -- starting -----------------------------------------------------------------------------

    def spawn(self, life: Life, node: str, start: Start) -> None:
        """Starts a life on a node; if that fails it has died."""
        setup = self._setup_of(life, node, start)
        self._spawning.submit(node, self._start, setup, self._post.book)

    def _start(self, setup: Setup, book: Book) -> None:
        """On a thread of its own."""

        def begins(handle: Any) -> None:
            self._pump.do(lambda: self._begins(setup, handle))

        try:
            handle, about = self._hosts.start(setup, book, begins)
        except (RayError, ValueError) as e:
            why = f"it cannot be started on node {self._name_of(setup.node)}: {reason(e)}"
            self._pump.do(lambda: self._died(setup.life, why))
            return
        self._pump.do(lambda: self._started(about, handle))

    def _begins(self, setup: Setup, handle: Any) -> None:
        self._entries[setup.life] = Entry(handle, setup.node)
        self.publish()

    def _started(self, about: About, handle: Any) -> None:
        self._add(about, handle)
        self._has_started()

    def _add(self, about: About, handle: Any) -> None:
        life = about.life
        if life is None:
            return
        self.about[life] = about
        self._entries[life] = Entry(handle, about.node)

        def over(why: str) -> None:
            self._pump.do(lambda: self._died(life, why))

        self._hosts.watch(handle, over)

    # -- ending -------------------------------------------------------------------------------

    def kill(self, life: Life) -> None:
        """Ends a life by force. It may be dead already, or out of reach."""
        entry, about = self._entries.get(life), self.about.get(life)
        if entry is None:
            return
        if about is not None:
            self._killing.submit(self._hosts.slay, about)
        self._killing.submit(self._hosts.kill, entry.handle)

    def _died(self, life: Life, why: str) -> None:
        about = self.about.pop(life, None)
        node = "" if about is None else f" on node {self._name_of(about.node)}"
        _log.info("%s%s is over: %s", life, node, why)
        entry = self._entries.pop(life, None)
        if entry is not None:
            self.publish()
            self._killing.submit(self._hosts.kill, entry.handle)  # it has ended, or is out of reach
        self._pump.happens(Died(life, why))

    # -- the address book ---------------------------------------------------------------------

    def publish(self) -> None:
        """Writes a new version of the address book, and sends it to every process in it."""
        self._books += 1
        book = Book((self._life.incarnation.term, self._books), dict(self._entries))
        self._post.take_book(book)
        for life, entry in self._entries.items():
            if life != self._life:
                entry.handle.meet.remote(book)
