"""The door to a job's root: the client of the two actors of which one is the root.

    ask(command)     calls the actor that was root last; if it stands by, is away or dead: the other
    look(question)   the same for what changes nothing: repeated while no answer comes

Where neither is root, because one has just died, both are called in turn until one is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
)

from gapless.actors import cluster
from gapless.actors.host import NAMESPACE
from gapless.actors.hosts import reason
from gapless.actors.pair import StandsBy
from gapless.actors.whereabouts import root_name, standby_name
from gapless.protocol.errors import GaplessError, JobError, Misuse

ASK_S = 40.0
"""How long a question to the root may take: another one begins meanwhile where it has died."""
AGAIN_S = 0.1
"""Between two questions to a root that is away."""
LOOK_S = 0.25
"""Until a question that changes nothing is repeated: a root that runs answers at once."""
LOOKS_MAX = 8
"""Times that it is asked: two seconds, as long as Ray keeps a call to a root that has died."""


class Door:
    """To one job's root, from one process. For any thread."""

    def __init__(self, job: str, actor: Any) -> None:
        """`actor`: the one of the two to ask first."""
        self._job = job
        self._connection = cluster.connection()
        self.actor = actor
        """The one that was root when it was last asked, as far as is known."""

    def turn(self, dead: frozenset[str] = frozenset()) -> bool:
        """Leads to the other one from now on, unless there is none, or it is one of the dead."""
        for name in (root_name(self._job), standby_name(self._job)):
            try:
                found: Any = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                continue
            if _number(found) not in dead | {_number(self.actor)}:
                self.actor = found
                return True
        return False

    def check_connected(self) -> None:
        """Before anything is asked: Ray would start a cluster where there is none."""
        if cluster.connection() != self._connection:
            raise Misuse("this process has left the job's cluster: attach to the job again")

    def look(self, question: Callable[[Any], Any]) -> Any:
        """The root's answer to a question that changes nothing, so that it may be asked twice."""
        return self.ask(lambda root: _first_answer(lambda: question(root)))

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """The root's answer. Raises its errors, and `JobError` where there is none."""
        until = time.monotonic() + ASK_S
        dead: frozenset[str] = frozenset()
        while True:
            self.check_connected()
            actor = self.actor
            try:
                return ray.get(question(actor), timeout=max(0.1, until - time.monotonic()))
            except RayTaskError as e:
                if not isinstance(e.cause, StandsBy):
                    raise (e.cause if isinstance(e.cause, GaplessError) else e) from None
                why = str(e.cause)
            except ActorUnavailableError as e:
                why = reason(e)
            except ActorDiedError as e:
                dead |= {_number(actor)}
                why = reason(e)
            except GetTimeoutError:
                raise JobError(f"the job's root has not answered for {ASK_S:g} s") from None
            except RayError as e:
                raise JobError(f"the job's root cannot be asked: {reason(e)}") from None
            if not self.turn(dead) and dead and _number(self.actor) in dead:
                raise JobError(f"the job's root is gone: {why}")
            if time.monotonic() >= until:
                raise JobError(f"the job's root does not answer: {why}")
            time.sleep(AGAIN_S)

    def wait(self, until: float, goes_on: Callable[[], bool]) -> None:
        """Until nothing `goes_on`: looks when the root says that it has ended, or dies, and then
        asks the next one. Raises Ray's `GetTimeoutError`.
        """
        while True:
            self.check_connected()
            try:
                ray.get(self.actor.wait.remote(), timeout=max(0.1, until - time.monotonic()))
            except (RayActorError, RayTaskError) as e:  # it has died, or the other one leads
                if isinstance(e, RayTaskError) and not isinstance(e.cause, StandsBy):
                    raise
            if not goes_on():
                return
            if time.monotonic() >= until:
                raise GetTimeoutError("the job goes on")
            time.sleep(AGAIN_S)
            self.ask(lambda root: root.book.remote())  # which turns to the root that is


def _first_answer(ask: Callable[[], Any]) -> Any:
    """Of a question that is asked again each `LOOK_S`, the call that is done first. Ray keeps a
    call to an actor that has just died for up to two seconds, though the next one may be there.
    """
    calls = [ask()]
    while len(calls) < LOOKS_MAX:
        done, _ = ray.wait(calls, timeout=LOOK_S)
        if done:
            return done[0]
        calls.append(ask())
    done, _ = ray.wait(calls, timeout=ASK_S)
    return done[0] if done else calls[-1]


def _number(actor: Any) -> str:
    """Ray's number of an actor."""
    return str(actor._actor_id.hex())
