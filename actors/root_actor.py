"""The actors that a root runs in, two of a job: nothing that their constructors do can fail.

    Ray restarts an actor that has died, and never one whose constructor has raised. A root reads
    and writes the job's directory when it begins; its disk may be full just then, or away.

                      .--> leads: all calls are the root's
    made --> looks ---+--> fails: says why when asked, tries again after a while
               ^      |--> the other one leads: stands by --.
               |      |                                     | it is gone
               '------|-------------------------------------'
                      '--> another pair has the job, or the job is gone: ends for good

What lives say while a root begins waits for it, some of it; all of it is repeated. A caller of the
one that stands by is told so (pair.py).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gapless.actors.actor_class import actor_class, entitle
from gapless.actors.book import Book
from gapless.actors.collector import leave_out_what_is_there
from gapless.actors.host import NAMESPACE, SWITCH_S, About
from gapless.actors.pair import Other, Pair, Part, StandsBy, until_gone
from gapless.actors.root import Root
from gapless.actors.setup import token
from gapless.actors.views import JobView
from gapless.actors.whereabouts import here
from gapless.actors.wire import joined
from gapless.failover.job.desired import Change
from gapless.failover.job.directory import Job
from gapless.failover.job.files import Where
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.protocol.documents import Document
from gapless.protocol.errors import Bug, GaplessError, JobError, Misuse

AGAIN_S, AGAIN_S_MAX = 0.5, 5.0
"""Until a root that could not begin tries again; doubled from the first to the second. Room on a
disk is made by people, and by retention, so soon enough for them."""
GONE_MAX = 30
"""Consecutive times that there was no job in its directory: it has been removed."""
BEGIN_S = 30.0
"""How long a call waits for a root that begins: it asks the cluster which processes run."""
EARLY_MAX = 256
"""Calls of lives that wait for it: a second's heartbeats of a large job, and alarms among them."""

_log = logging.getLogger("gapless.actors")
_R = TypeVar("_R")


class RootActor:
    """A root, and all its attempts to begin. Ray calls it; see `made`."""

    def __init__(
        self,
        job_dir: str,
        timing: Timing,
        runtime_env: Mapping[str, Any] | None,
        pair: Pair,
        name: str,
    ) -> None:
        """`name`: its own, of those of the pair."""
        self._job_dir = job_dir
        self._pair, self._name = pair, name
        self._where = replace(here(), pair=pair.token)
        make = partial(made, job_dir, timing, runtime_env, pair)
        other = Other(pair.other(name), make)
        self._make = partial(Root, job_dir, timing, runtime_env, self._where, other)
        self._root: Root | None = None
        self._why = ""  # it could not begin the last time
        self._over = ""  # why it never will
        self._leader: Where | None = None  # by which it stands
        self._term = 0  # the newest, when it looked last
        self._gone_term = 0  # whose root is known to be gone
        self._guards = 0
        self._has_ended = False
        self._gone = 0
        self._early: deque[bytes] = deque(maxlen=EARLY_MAX)
        self._changed = threading.Condition()
        leave_out_what_is_there()
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
            while self._look() == "stands by":
                self._stand_by()
            if self._over:
                return False
            entitle(self, self._pair.job, "root")
            root = self._make()
            leave_out_what_is_there()
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
        threading.Thread(target=self._await_end, args=(root,), name="end", daemon=True).start()
        return True

    def _await_end(self, root: Root) -> None:
        root.wait()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _look(self) -> Part:
        """What it has to do now, by the job's directory."""
        try:
            job = Job(LocalDisk(self._job_dir), token())
            term, there = job.last_root()
        except Misuse as e:
            self._gone += 1
            if self._gone >= GONE_MAX:
                self._over = f"there is no job any more: {e}"
            raise
        self._gone = 0
        part = self._pair.part(self._where.actor, term, there, self._gone_term)
        with self._changed:
            if part == "is over":
                host = "" if there is None else f", on {there.host}"
                self._over = f"another root has the job{host}"
            self._leader = there if part == "stands by" else None
            self._term = term
            self._changed.notify_all()
        return part

    def _stand_by(self) -> None:
        """Until the other one, which leads, is gone."""
        leader = self._leader
        if leader is None:
            raise Bug("an actor stands by nobody")
        self._early.clear()
        entitle(self, self._pair.job, "standby")
        until_gone(self._pair.other(self._name), leader)
        _log.warning("%s: its root was process %d on %s", self._job_dir, leader.pid, leader.host)
        self._gone_term = self._term

    def _there(self) -> Root:
        """The root. Raises `StandsBy` where the other one has it, `JobError` where this one cannot
        begin.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._root or self._why or self._over or self._leader, BEGIN_S
            )
            if self._root is not None:
                return self._root
            if self._leader is not None:
                raise StandsBy(f"{self._job_dir}: its root runs on {self._leader.host}")
            why = self._over or self._why or f"it has been beginning for {BEGIN_S:g} s"
        raise JobError(f"{self._job_dir}: its root cannot begin: {why}; it tries again")

    def _asked(self, question: Callable[[Root], _R]) -> _R:
        """The root's answer. Raises as `_there` does; also where another root has followed this one
        a moment ago, so that nobody takes its end for an answer.
        """
        root = self._there()
        try:
            return question(root)
        except JobError as e:
            if root.is_followed:
                raise StandsBy(f"{self._job_dir}: its root was followed by another: {e}") from None
            raise

    # -- the root's ---------------------------------------------------------------------------

    def hear(self, *pieces: bytes) -> None:
        """Takes messages."""
        data = joined(pieces)
        with self._changed:
            root = self._root
            if root is None:
                if self._leader is None:
                    self._early.append(data)
                return
        root.hear(data)

    def about(self) -> About:
        """Who this is. Raises `JobError` with the reason where it could not begin."""
        try:
            return self._there().about()
        except StandsBy:
            return About(None, ray.get_runtime_context().get_node_id(), self._where.pid)
        except JobError:
            if self._why:
                raise JobError(self._why) from None
            raise

    def view(self) -> JobView:
        """How the job is."""
        return self._asked(lambda root: root.view())

    def book(self) -> Book:
        """Where the lives are."""
        return self._there().book()

    def record(self, reason: str) -> bytes:
        """The flight record of its supervisor."""
        return self._asked(lambda root: root.record(reason))

    def command(self, change: Change) -> None:
        """Changes what is desired."""
        self._asked(lambda root: root.command(change))

    def cutover(
        self, plans: Mapping[str, Document], at: int | None, assumed: bool = False
    ) -> tuple[str, ...]:
        """Switches to these plans."""
        return self._asked(lambda root: root.cutover(plans, at, assumed))

    def wait(self) -> str:
        """Answers when the root ends by itself, and says why. Raises `StandsBy`."""
        with self._changed:
            self._changed.wait_for(lambda: self._root or self._over or self._leader)
            root = self._root
            if root is None and self._leader is not None:
                raise StandsBy(f"{self._job_dir}: its root runs on {self._leader.host}")
        return self._over if root is None else root.wait()

    def guard(self) -> None:
        """For the other one: answers once this one is not root, or will not be; fails when it dies.
        Also once it is called again: one that has died would else keep a thread here.
        """
        with self._changed:
            self._guards += 1
            mine = self._guards
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._has_ended or self._over or self._leader or self._guards != mine
            )

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken, here or in any life."""
        self._asked(lambda root: root.validate())


def _end() -> None:
    """Ends this process, for good."""
    ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, GaplessError) else f"{type(error).__name__}: {error}"


_THREADS = {"ask": 16, "watch": 16}
_METHODS = {
    "view": "ask",
    "book": "ask",
    "record": "ask",
    "command": "ask",
    "cutover": "ask",
    "validate": "ask",
    "about": "ask",
    "wait": "watch",
    "guard": "watch",
}


def root_class() -> Any:
    """`RootActor` as an actor that Ray restarts."""
    return actor_class(RootActor, _METHODS, _THREADS, max_restarts=-1)


def made(
    job_dir: str,
    timing: Timing,
    runtime_env: Mapping[str, Any] | None,
    pair: Pair,
    name: str,
    node: str | None = None,
) -> Any:
    """An actor of a pair, made now unless it is there. `node`: where it is to be, if that is."""
    options: dict[str, Any] = {"runtime_env": dict(runtime_env)} if runtime_env else {}
    if node is not None:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=True)
    return (
        root_class()
        .options(name=name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, **options)
        .remote(job_dir, timing, runtime_env, pair, name)
    )
