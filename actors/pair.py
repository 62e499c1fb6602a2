"""The two actors of which one is a job's root, and the other stands by to be it.

    talkers/root       leads     it dies; Ray restarts it in a second or two    stands by
    talkers/standby    stands by -------- sees that; takes the next term, leads ---------->

Which one leads is said by the job's directory alone: its newest term names the actor that began
with it, and the pair of that. So both may be wrong about each other: the one whose term is over
does nothing more (decision 0023). A pair that a later launch or resume has followed ends.

    newest term of            what an actor of the pair does
    nobody, or up to `since`  leads: its pair was made to depose those
    another pair, later       ends for good: the job was taken over
    itself                    leads again: Ray has restarted it, and nobody was faster
    the other                 stands by, until that one is gone; then it leads. One that is stopped
                              is killed first (stopped_leader.py)

Why a second process: a new one takes a second of CPU to boot, on a machine that is busy several
seconds, in which nothing of the job is supervised. One that waits costs its memory.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import ray
from ray.exceptions import RayActorError, RayError

from gapless.actors.host import NAMESPACE, About
from gapless.actors.own_process import runs
from gapless.actors.stopped_leader import LOOK_S, StoppedLeader
from gapless.actors.whereabouts import Silent, actor_at, root_name, standby_name
from gapless.failover.job.files import Where
from gapless.protocol.errors import JobError

ANSWER_S = 5.0
"""How long the standby may take to identify itself: it is booting for some of that."""
WATCH_AGAIN_S = 0.1
"""Between two looks at a root that cannot be called, and is not known to be gone."""

_log = logging.getLogger("gapless.actors")

Part = Literal["leads", "stands by", "is over"]


class StandsBy(JobError):
    """A question to the standby that the root has to answer: the other actor of the pair."""


@dataclass(frozen=True)
class Pair:
    """What both actors of a pair are made with, also when Ray restarts them."""

    job: str
    """Its name."""
    token: str
    """That no other pair has, of any launch or resume."""
    since: int
    """The newest term when the pair was made: its job is not another's unless there are later."""

    def part(self, actor: str, term: int, where: Where | None, gone: int) -> Part:
        """What `actor` does while `term` is the newest, of a root that runs there. `gone`: the term
        of a root that it knows to be gone.
        """
        if where is None or where.pair != self.token:
            return "leads" if term <= self.since else "is over"
        return "leads" if where.actor == actor or term == gone else "stands by"

    def other(self, name: str) -> str:
        """Of one actor's name, that of the other."""
        standby = standby_name(self.job)
        return root_name(self.job) if name == standby else standby


def until_gone(name: str, leader: Where) -> None:
    """Returns once the root that runs there, in an actor of that name, is gone, or root no more. It
    is not taken for gone where it only cannot be reached: two that cannot reach each other would
    depose one another for ever. One that is stopped is ended.
    """
    stopped = StoppedLeader(f"{name.rpartition('/')[0]}/host/", leader)
    while not _is_gone(name, leader):
        try:
            actor: Any = ray.get_actor(name, namespace=NAMESPACE)
            guarded = actor.guard.remote()  # answered when it is root no more, fails when it dies
            while not ray.wait([guarded], timeout=LOOK_S)[0]:
                stopped.look(actor)
            ray.get(guarded)
        except (RayActorError, ValueError) as e:
            _log.info("%s: %s", name, e)
        if _is_gone(name, leader):
            return
        time.sleep(WATCH_AGAIN_S)


def _is_gone(name: str, leader: Where) -> bool:
    """Whether a process that led is known to be there no more."""
    if leader.host == socket.gethostname() and not runs(leader.pid):
        return True
    try:
        found = actor_at(ray.get_runtime_context().gcs_address, name)
    except Silent as e:
        _log.warning("whether %s is there cannot be known: %s", name, e)
        return False
    return found is None or (found.actor, found.pid) != (leader.actor, leader.pid)


class Other:
    """The other actor of a pair, as the root has it. For any thread."""

    def __init__(self, name: str, make: Callable[[str, str | None], Any]) -> None:
        """`make` gives the actor of a name, on a node if there is room: the one that is there."""
        self._name = name
        self._make = make
        self._handle: Any = None
        self._lock = threading.Lock()
        self._is_over = False
        self.about: About | None = None
        """Who stands by, when that was last asked; None while nobody does."""

    def ensure(self, mine: str, nodes: Mapping[str, str]) -> None:
        """Makes it where it is missing, best on a node that is not `mine`; asks who it is."""
        away = sorted(node for node in nodes if node != mine)
        with self._lock:
            if self._is_over:
                return
            try:
                self._handle = self._make(self._name, away[0] if away else None)
            except (RayError, ValueError) as e:
                _log.warning("nobody stands by as root: %s cannot be made: %s", self._name, e)
                return
        try:
            about: Any = ray.get(self._handle.about.remote(), timeout=ANSWER_S)
        except RayError as e:
            _log.info("%s does not answer yet: %s", self._name, e)
            about = None
        self.about = about if isinstance(about, About) else None

    def end(self) -> None:
        """Ends it for good: the job is over, or another pair has it."""
        with self._lock:
            self._is_over = True
            try:
                handle = self._handle or ray.get_actor(self._name, namespace=NAMESPACE)
                ray.kill(handle, no_restart=True)
            except (RayError, ValueError) as e:
                _log.info("nobody stood by as %s: %s", self._name, e)
