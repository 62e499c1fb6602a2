"""A root that is stopped (SIGSTOP), as the standby sees it: silent, and alive for its cluster.

    standby --about()--> root: silence --stopped(n1, 4711)--> the job's hosts     one of n1: yes
        the same again, LOOK_S later   --slay(4711, ...)----> that host: SIGKILL
    the root's process is gone: the standby leads (pair.py)

Silence alone proves nothing: two that cannot reach each other would depose one another for ever.
That a process is stopped is seen by a process of its own machine, and by none else. It is killed
before the standby leads, so there are never two roots.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

import ray
from ray.exceptions import RayError

from gapless.actors.host import NAMESPACE
from gapless.actors.hosts import named
from gapless.actors.own_process import slay, stopped
from gapless.failover.job.files import Where

LOOK_S = 3.0
"""Between two looks at a root that leads. One that is stopped for less goes on as if nothing had
been."""
SILENT_S = 1.0
"""How long a root, or a host, may take to answer."""

_log = logging.getLogger("gapless.actors")


class StoppedLeader:
    """Looks whether the root of a job is stopped, and ends it then. For one thread."""

    def __init__(self, prefix: str, leader: Where) -> None:
        """`prefix`: of the names of the job's hosts."""
        self._prefix = prefix
        self._leader = leader
        self._seen = 0  # when the process was started that was found stopped the last time

    def look(self, root: Any) -> None:
        """Looks at the actor that leads. The second time that it is stopped its process is killed,
        and all that is called of it fails.
        """
        before, self._seen = self._seen, 0
        if _answers([root.about.remote()]):
            return
        started, killer = self._stopped()
        if not started:
            return
        self._seen = started
        if started == before:
            _log.warning("the root, process %d, is stopped: it is killed", self._leader.pid)
            if killer is None:
                slay(self._leader.pid, started)
            else:
                killer.slay.remote(self._leader.pid, started)

    def _stopped(self) -> tuple[int, Any]:
        """When the root's process was started, if it is stopped, else 0; and the host that reported
        it, None for this process.
        """
        host, pid = self._leader.host, self._leader.pid
        if host == socket.gethostname():
            return stopped(pid), None
        asked: dict[Any, Any] = {}
        for name in named(self._prefix):
            try:
                handle = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                continue  # it has just died
            asked[handle.stopped.remote(host, pid)] = handle
        for answer in _answers(list(asked)):
            try:
                started: int = ray.get(answer)
            except RayError as e:
                _log.info("a host does not say whether the root is stopped: %s", e)
                continue
            if started:
                return started, asked[answer]
        return 0, None


def _answers(calls: list[Any]) -> list[Any]:
    """Those that are answered soon, whatever the answer."""
    if not calls:
        return []
    answered, _ = ray.wait(calls, num_returns=len(calls), timeout=SILENT_S)
    return list(answered)
