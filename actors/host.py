"""A host: the process, a Ray actor, that is a spare until it becomes one life of a job.

    host (libraries imported)  -- become(setup, book) -->  r0.1/1.4      until it exits or is killed

Making a process and importing the libraries takes a second, becoming a life some milliseconds; so
spares wait (reserve.py), and a host's name in the cluster is its own, not that of the life. Each
host is detached: it outlives the root, which finds it again by its name, and asks who it is.

Messages come by `hear`, one call after the other; what waits for an answer has threads of its own.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from typing import Any

import ray

from gapless.actors.actor_class import actor_class, entitle
from gapless.actors.book import Book
from gapless.actors.bytecode import keep_bytecode
from gapless.actors.collector import leave_out_what_is_there
from gapless.actors.merger import MergerShell
from gapless.actors.own_process import slay, started, stopped
from gapless.actors.replica import ReplicaShell
from gapless.actors.setup import JobDir, Setup
from gapless.actors.wire import joined
from gapless.failover.life_start import ReplicaStart
from gapless.failover.messages import Life
from gapless.protocol.errors import GaplessError

NAMESPACE = "gapless"
"""In a cluster, of all actors of all jobs."""
ASKERS_MAX = 32
"""Subscribers that can wait at one merger at once: a thread each. More wait for their turn."""
SWITCH_S = 0.001
"""How long one thread keeps another from running: the pump should not wait five milliseconds for
its turn, as by Python's default, whenever a message comes in."""
LAST_WORDS_S = 0.2
"""From the end of a root to that of its process: its last answers leave meanwhile."""
BECOME_S = 10.0
"""How long a question waits for a merger that reads its journal to begin."""
SPARE_S = 5.0
"""How often a spare looks whether the job still is."""
UNATTENDED_S = 5.0
"""From the end of a life to that of its process, where no root ends it: it would wait for ever."""


@dataclass(frozen=True)
class About:
    """The identity of a host."""

    life: Life | None
    """None for a spare."""
    node: str
    pid: int
    """0 where it is not known."""
    started: int = 0
    """When that process was started (own_process.py): a PID alone may be another's by now."""
    book: Book | None = None
    """What it knows of all others: for a root that comes back."""


class Host:
    """A process of a job. Ray calls it; see `host_class`."""

    def __init__(self, job_dir: str) -> None:
        sys.setswitchinterval(SWITCH_S)
        logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
        self._shell: ReplicaShell | MergerShell | None = None
        self._began = threading.Event()
        self._changed = threading.Condition()
        self._watchers = 0
        self._ended = threading.Event()
        self._reason = ""
        leave_out_what_is_there()
        self._waits = threading.Thread(
            target=self._wait, args=(job_dir,), name="spare", daemon=True
        )
        self._waits.start()

    def become(self, setup: Setup, book: Book) -> About:
        """Becomes a life. Raises where it cannot begin: a directory that does not read, say."""
        job_dir = JobDir(setup.job_dir)
        is_replica = isinstance(setup.start, ReplicaStart)
        kind: type[ReplicaShell | MergerShell] = ReplicaShell if is_replica else MergerShell
        self._shell = kind(setup, job_dir, self._end)
        leave_out_what_is_there()
        self._shell.start(book)
        entitle(self, job_dir.job.record.name, setup.life.slot)
        self._began.set()
        return self.about()

    def hear(self, *pieces: bytes) -> None:
        """Takes messages for its life; they are dropped if this host has no life."""
        if self._shell is not None:
            self._shell.hear(joined(pieces))

    def meet(self, book: Book) -> None:
        """Takes a version of the address book."""
        if self._shell is not None:
            self._shell.meet(book)

    def ask(self, subscriber: str, data: bytes) -> list[bytes]:
        """Takes a subscriber's questions to a merger; what there is to answer within a while. Who
        asks while it is still becoming that has its answer once it is.
        """
        self._began.wait(BECOME_S)
        shell = self._shell
        return shell.answer(subscriber, data) if isinstance(shell, MergerShell) else []

    def about(self) -> About:
        """The identity of this process."""
        node, pid = ray.get_runtime_context().get_node_id(), os.getpid()
        shell = self._shell
        if shell is None:
            return About(None, node, pid, started(pid))
        return About(shell.life, node, pid, started(pid), shell.post.book)

    def watch(self) -> str:
        """Answers when the life ends by itself, and says why; fails when the process dies. Empty
        once somebody else watches: a root that has died would else keep a thread here.
        """
        with self._changed:
            self._watchers += 1
            mine = self._watchers
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended.is_set() or self._watchers != mine)
            return self._reason if self._ended.is_set() else ""

    def validate(self) -> None:
        """Raises `Bug` where an invariant of its machine is broken."""
        shell = self._shell
        if shell is not None:
            shell.pump.call(shell.machine.validate)

    def record(self, reason: str) -> bytes:
        """The flight record of its life; nothing for a spare."""
        shell = self._shell
        return b"" if shell is None else shell.recorded(reason)

    def die(self) -> None:
        """Kills its own process, as a drill."""
        os.kill(os.getpid(), signal.SIGKILL)

    def slay(self, pid: int, started_at: int) -> bool:
        """Kills another process of its node, one that answers to nobody, if it is still the one
        that was started then; whether it was.
        """
        return slay(pid, started_at)

    def stopped(self, host: str, pid: int) -> int:
        """When a process of that machine was started, if this is the machine and it is stopped;
        else 0.
        """
        return stopped(pid) if host == socket.gethostname() else 0

    def _wait(self, job_dir: str) -> None:
        """Waits as a spare, no longer than there is a job that may need it: nobody else ends what
        a root has made in its last moment.
        """
        keep_bytecode()  # of this machine, which may not be the one that has launched the job
        while self._shell is None and not self._ended.wait(SPARE_S):
            try:
                is_over = JobDir(job_dir).job.desired().state == "stopped"
            except (GaplessError, OSError):
                is_over = True  # the directory is gone, or its disk
            if is_over and self._shell is None:
                self._end("the job is over")

    def _end(self, reason: str) -> None:
        with self._changed:
            self._reason = reason or "its pump has ended"
            self._ended.set()
            self._changed.notify_all()
        threading.Timer(UNATTENDED_S, os._exit, (0,)).start()


_THREADS = {"ask": ASKERS_MAX, "watch": 4, "look": 2}
_METHODS = {"ask": "ask", "watch": "watch", "about": "look", "validate": "look"}
_METHODS |= {"slay": "look", "stopped": "look", "record": "look"}


def host_class() -> Any:
    """`Host` as an actor that is never restarted: another life takes its slot."""
    return actor_class(Host, _METHODS, _THREADS, max_restarts=0)
