"""The hosts of a job in its cluster: started, found again, watched and killed, by the root alone.

    name        talkers/host/8f3a...       in the namespace "gapless", whatever life it is
    spare       kept on each node, ready   a process in no time, and another is made
                still booting              the next best: it is ahead of one that starts now
    watch       one call that is answered when the life ends, or fails when its process dies

All of it asks the cluster's directory (its GCS), so it is slow, and waits while that is away; the
root's pump has threads do it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gapless.actors.book import Book
from gapless.actors.host import NAMESPACE, About, host_class
from gapless.actors.setup import Setup
from gapless.failover.messages import Life
from gapless.protocol.errors import GaplessError

ANSWER_S = 1.0
"""How long a host may take to identify itself; a stopped one never does."""
TRIES_MAX = 10
"""Times that long a new root waits for the first host that answers."""
START_S = 60.0
"""How long a process may take to start, with its libraries, and to become a life."""
TURN_S = 10.0
"""How long the making of spares waits for its turn: a spare is there within seconds, and a life
that takes longer is on a node that hangs."""
SPARES_FAILED_MAX = 5
"""Consecutive failures to make a node's spares until the retry interval grows."""
FORGET_S = 60.0
"""Between two tries then: whatever a node lacks is not there sooner, and may be there at last."""

_log = logging.getLogger("gapless.actors")


class Hosts:
    """The processes of one job. For any thread."""

    def __init__(
        self, job: str, job_dir: str, spares: int, runtime_env: Mapping[str, Any] | None
    ) -> None:
        """`spares`: of each node. `runtime_env`: Ray's, of every process."""
        self._prefix = f"{job}/host/"
        self._job_dir = job_dir
        self._spares_wanted = spares
        self._class = host_class()
        self._runtime_env = dict(runtime_env or {})
        self._lock = threading.Lock()
        self._turn = threading.Semaphore(1)  # of the maker of spares
        self._spares: dict[str, list[Any]] = {}
        self._booting: dict[str, list[Any]] = {}  # spares to be, by node
        self._failed: dict[str, tuple[int, float]] = {}  # by node, how often, and when last
        self._is_over = False

    # -- finding ------------------------------------------------------------------------------

    def find(self) -> list[tuple[About, Any]]:
        """The hosts of lives that a root before this one has started; spares become ours.

        One that does not answer, as it is stopped or out of reach for now, is known from the book
        of those that do: it may live, so it is neither forgotten nor ended.
        """
        asked: dict[Any, Any] = {}
        for name in named(self._prefix):
            try:
                handle = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                continue  # it has just died
            asked[handle.about.remote()] = handle
        found: dict[Life, tuple[About, Any]] = {}
        book = Book()
        waiting = list(asked)
        for _ in range(TRIES_MAX):
            answered, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=ANSWER_S)
            for answer in answered:
                about = _about(answer)
                if about is None or about.life is None or about.book is None:
                    self._keep(about, asked[answer])
                    continue
                found[about.life] = replace(about, book=None), asked[answer]
                book = max(book, about.book, key=lambda each: each.version)
            if found or not waiting:
                break  # else the way to all of them is long, for a process that has just begun
        silent = {asked[answer]._actor_id for answer in waiting}
        for life, entry in book.lives.items():
            if entry.handle._actor_id in silent:
                found.setdefault(life, (About(life, entry.node, 0), entry.handle))
        return list(found.values())

    def _keep(self, about: About | None, handle: Any) -> None:
        """Keeps a spare for later; one that is unidentified, or comes too late, is ended."""
        with self._lock:
            if about is not None and not self._is_over:
                self._spares.setdefault(about.node, []).append(handle)
                return
        self.kill(handle)

    # -- starting -----------------------------------------------------------------------------

    def start(self, setup: Setup, book: Book, begins: Callable[[Any], None]) -> tuple[Any, About]:
        """A process that has become a life, on its node. `begins` is told its handle before it is
        that: who it asks has to know where to answer. Raises `RayError` where that cannot be, or
        what the life itself could not begin for.
        """
        handle = self._take(setup.node) or self._make(setup.node)
        answer = handle.become.remote(setup, book)
        begins(handle)
        try:
            about: About = ray.get(answer, timeout=START_S)
        except RayError:
            self.kill(handle)
            raise
        return handle, replace(about, book=None)

    def _take(self, node: str) -> Any | None:
        """A spare of a node that is alive, else one that boots: two at once take twice as long."""
        while True:
            with self._lock:
                spares = self._spares.get(node)
                if not spares:
                    booting = self._booting.get(node)
                    return booting.pop(0) if booting else None
                handle = spares.pop()
            if _about(handle.about.remote()) is not None:
                return handle
            self.kill(handle)

    def _make(self, node: str) -> Any:
        options: dict[str, Any] = {"runtime_env": self._runtime_env} if self._runtime_env else {}
        return self._class.options(
            name=f"{self._prefix}{uuid4().hex}",
            namespace=NAMESPACE,
            lifetime="detached",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            **options,
        ).remote(self._job_dir)

    def make_spares(self, node: str) -> bool:
        """Makes what is missing of spares on a node, one after the other: there is no hurry, and a
        machine may have several nodes. Only for one that hangs nobody waits long.

        Where a life needs the one that boots, no more are made: the caller asks again once that
        life has started. Whether none has failed.
        """
        has_turn = self._turn.acquire(timeout=TURN_S)
        try:
            while self._lacks_spares(node):
                if not self._may_make_spare(node):
                    return False
                handle = self._boot_spare(node)
                if not self._has_booted(node, handle):
                    return False
                if not self._keep_booted(node, handle):
                    break
            return True
        finally:
            if has_turn:
                self._turn.release()

    def _lacks_spares(self, node: str) -> bool:
        with self._lock:
            return len(self._spares.get(node, ())) < self._spares_wanted and not self._is_over

    def _may_make_spare(self, node: str) -> bool:
        """Whether the last that could not be made there are few, or long ago."""
        count, at = self._failed.get(node, (0, 0.0))
        return count < SPARES_FAILED_MAX or monotonic() - at >= FORGET_S

    def _boot_spare(self, node: str) -> Any:
        handle = self._make(node)
        with self._lock:
            self._booting.setdefault(node, []).append(handle)
        return handle

    def _has_booted(self, node: str, handle: Any) -> bool:
        """Waits until it has. Where it cannot, it is ended."""
        try:
            ray.get(handle.about.remote(), timeout=START_S)
        except RayError as e:
            self._failed[node] = self._failed.get(node, (0, 0.0))[0] + 1, monotonic()
            _log.warning("no spare on node %s: %s", node, e)
            if self._is_ours(node, handle):
                self.kill(handle)
            return False
        self._failed.pop(node, None)
        return True

    def _keep_booted(self, node: str, handle: Any) -> bool:
        """Whether it is a spare now: no life has taken it while it booted."""
        is_ours = self._is_ours(node, handle)
        if is_ours:
            self._keep(About(None, node, 0), handle)
        return is_ours

    def _is_ours(self, node: str, handle: Any) -> bool:
        """Whether it still boots for nobody; no longer counted as that."""
        with self._lock:
            booting = self._booting.get(node, [])
            is_ours = handle in booting
            if is_ours:
                booting.remove(handle)
        return is_ours

    # -- ending -------------------------------------------------------------------------------

    @staticmethod
    def kill(handle: Any) -> None:
        """Ends a process by force, whatever it is doing."""
        try:
            ray.kill(handle, no_restart=True)
        except (RayError, ValueError) as e:
            _log.warning("a process cannot be killed now: %s", e)

    def slay(self, who: About) -> None:
        """Has a spare of its node kill a process that is stopped: the cluster would take five
        seconds to see that it does not obey.
        """
        if not who.pid or not who.started:
            return
        with self._lock:
            spares = list(self._spares.get(who.node, ()))
        for spare in spares[:1]:
            spare.slay.remote(who.pid, who.started)

    def end(self) -> None:
        """Ends all spares: the job is over."""
        with self._lock:
            self._is_over = True
            spares = [handle for handles in self._spares.values() for handle in handles]
            self._spares.clear()
        for handle in spares:
            self.kill(handle)

    # -- watching -----------------------------------------------------------------------------

    def watch(self, handle: Any, over: Callable[[str], None]) -> None:
        """Tells once that a life is over, and why. Returns at once."""

        def answered(future: Any) -> None:
            error = future.exception()
            if error is None:
                if why := future.result():  # else another root watches
                    over(f"exits: {why}")
            elif isinstance(error, ActorUnavailableError) and _about(handle.about.remote()):
                self.watch(handle, over)
            else:
                over(reason(error))

        def on_its_own_thread(future: Any) -> None:
            threading.Thread(target=answered, args=(future,), daemon=True).start()

        handle.watch.remote().future().add_done_callback(on_its_own_thread)


def named(prefix: str) -> list[str]:
    """Names of actors of ours in the cluster."""
    listed = ray.util.list_named_actors(all_namespaces=True)
    ours = [each["name"] for each in listed if each["namespace"] == NAMESPACE]
    return sorted(name for name in ours if name.startswith(prefix))


def reason(error: BaseException) -> str:
    """What an error of a call says, in one line: ours as raised, that of Ray without its advice."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, GaplessError):
        return f"{type(error.cause).__name__}: {error.cause}"
    if isinstance(error, GetTimeoutError):
        return "it did not answer in time"
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if isinstance(error, RayTaskError):
        return lines[-1] if lines else type(error).__name__
    ends = [line for line in lines if line.startswith("The actor is dead because")]
    return (ends or lines or [type(error).__name__])[0]


def _about(answer: Any) -> About | None:
    """What a host reports about itself; None where it does not answer."""
    try:
        about: Any = ray.get(answer, timeout=ANSWER_S)
    except RayError:
        return None
    return about if isinstance(about, About) else None
