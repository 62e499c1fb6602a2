"""The actor that a root lives in: nothing that it does when it is made can fail.

    Ray restarts an actor that has died, and never one whose constructor has raised. A root reads
    and writes the job's directory when it begins; its disk may be full just then, or away.

                      .--> begins: all calls are the root's
    made --> begins --+--> fails: says why to who asks, tries again after a while
                      '--> another root has the job, or the job is gone: ends for good

What lives say while there is no root yet waits for it, some of it; it is all said again.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Mapping
from functools import partial
from time import sleep
from typing import Any

import ray

from gapless.actors.actor_class import actor_class, entitle
from gapless.actors.book import Book
from gapless.actors.host import SWITCH_S, About
from gapless.actors.root import Root
from gapless.actors.setup import token
from gapless.actors.views import JobView
from gapless.actors.whereabouts import here
from gapless.failover.desired import Change
from gapless.failover.job import Job
from gapless.failover.job_files import Where
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.protocol.documents import Document
from gapless.protocol.errors import GaplessError, JobError, Misuse

AGAIN_S, AGAIN_S_MAX = 0.5, 5.0
"""Until a root that could not begin tries again; doubled from the first to the second. Room on a
disk is made by people, and by retention, so soon enough for them."""
GONE_MAX = 30
"""Times in a row that there was no job in its directory: somebody has removed it."""
BEGIN_S = 30.0
"""How long a call waits for a root that begins: it asks the cluster who is there."""
EARLY_MAX = 256
"""Calls of lives that wait for it: a second's heartbeats of a large job, and alarms among them."""

_log = logging.getLogger("gapless.actors")


class RootActor:
    """A root, and all its attempts to begin. Ray calls it; see `root_class`."""

    def __init__(self, job_dir: str, timing: Timing, runtime_env: Mapping[str, Any] | None) -> None:
        self._job_dir = job_dir
        self._make = partial(Root, job_dir, timing, runtime_env)
        self._root: Root | None = None
        self._why = ""  # it could not begin the last time
        self._over = ""  # why it never will
        self._before: Where | None = None  # who had the job before
        self._looked = False
        self._gone = 0
        self._early: deque[bytes] = deque(maxlen=EARLY_MAX)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="begin", daemon=True)
        self._thread.start()

    # -- beginning ----------------------------------------------------------------------------

    def _run(self) -> None:
        sys.setswitchinterval(SWITCH_S)
        logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
        wait_s, failures = AGAIN_S, 0
        while not self._begin():
            if self._over:
                _log.error("%s: its root ends: %s", self._job_dir, self._over)
                _end()
                return
            failures += 1
            _log.error("%s: its root cannot begin, for now: %s", self._job_dir, self._why)
            sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_S_MAX)
        if failures and self._root is not None:
            self._root.tell(f"it could begin only at attempt {failures + 1}: {self._why}")

    def _begin(self) -> bool:
        """Whether it has begun."""
        try:
            self._look()
            if self._over:
                return False
            root = self._make()
        except Exception as e:  # noqa: BLE001  # whatever it is, nobody else would try again
            with self._changed:
                self._why = _words(e)
                self._changed.notify_all()
            return False
        with self._changed:
            self._root = root
            for data in self._early:
                root.hear(data)
            self._early.clear()
            self._changed.notify_all()
        return True

    def _look(self) -> None:
        """Whether another root has begun since this one tried first: it must not be deposed."""
        try:
            job = Job(LocalDisk(self._job_dir), token())
            there = job.where()
        except Misuse as e:
            self._gone += 1
            if self._gone >= GONE_MAX:
                self._over = f"there is no job any more: {e}"
            raise
        self._gone = 0
        if not self._looked:
            entitle(self, job.record.name, "root")
            self._before, self._looked = there, True
        elif there not in (self._before, None) and there.actor != here().actor:
            with self._changed:
                self._over = f"another root has the job, on {there.host}"
                self._changed.notify_all()

    def _there(self) -> Root:
        """The root. Raises `JobError` where it cannot begin."""
        with self._changed:
            self._changed.wait_for(lambda: self._root or self._why or self._over, BEGIN_S)
            if self._root is not None:
                return self._root
            why = self._over or self._why or f"it has been beginning for {BEGIN_S:g} s"
        raise JobError(f"{self._job_dir}: its root cannot begin: {why}; it tries again")

    # -- the root's ---------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        """Takes messages."""
        with self._changed:
            root = self._root
            if root is None:
                self._early.append(data)
                return
        root.hear(data)

    def about(self) -> About:
        """Who this is. Raises `JobError` with the reason where it could not begin."""
        try:
            return self._there().about()
        except JobError:
            if self._why:
                raise JobError(self._why) from None
            raise

    def view(self) -> JobView:
        """How the job is."""
        return self._there().view()

    def book(self) -> Book:
        """Where the lives are."""
        return self._there().book()

    def command(self, change: Change) -> None:
        """Changes what is desired."""
        self._there().command(change)

    def cutover(
        self, plans: Mapping[str, Document], at: int | None, assumed: bool = False
    ) -> tuple[str, ...]:
        """Switches to these plans."""
        return self._there().cutover(plans, at, assumed)

    def wait(self) -> str:
        """Answers when the root ends by itself, and says why."""
        with self._changed:
            self._changed.wait_for(lambda: self._root or self._over)
            root = self._root
        return self._over if root is None else root.wait()

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken, here or in any life."""
        self._there().validate()


def _end() -> None:
    """Ends this process, for good."""
    ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, GaplessError) else f"{type(error).__name__}: {error}"


_THREADS = {"ask": 16, "watch": 16}
_METHODS = {
    "view": "ask",
    "book": "ask",
    "command": "ask",
    "cutover": "ask",
    "validate": "ask",
    "about": "ask",
    "wait": "watch",
}


def root_class() -> Any:
    """`RootActor` as an actor that Ray restarts."""
    return actor_class(RootActor, _METHODS, _THREADS, max_restarts=-1)
