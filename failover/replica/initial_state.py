"""The initial state of a replica: found, judged, made into a running plan, or passed over.

    jumpstart.py finds     a checkpoint --> check --> restore --> begin(Restored)      it reads on
                           a replay ------------------------> begin(None)          it reads all
    what does not fit      the next origin; so does one whose sources cannot be opened any more
                           where it left them, as long as nothing was read on from it

A large state is restored beside the pump: until that is done the replica is joining, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gapless.engine.graph import Graph
from gapless.failover.background_work import BackgroundWork
from gapless.failover.life_start import Replay, ReplicaStart
from gapless.failover.messages import Life, SnapshotReply
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import CheckpointLoaded, ReplicaEffect
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.jumpstart import Jumpstart
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import BadData, SchemaError

STATE_BYTES_MAX = 8 << 20
"""Of a plan's state whose snapshot is taken, or taken over, at once, in milliseconds; a larger one
is beside the pump."""

Unfit = BadData | SchemaError
"""Why what was given is nothing to begin with."""


class Restored(NamedTuple):
    """What a replica was given, and what was made of it."""

    found: Checkpoint
    graph: Graph


class InitialState:
    """Of one life of a replica. Where its origins do not fit it goes on to the next, and the last
    of them is a replay, which always works.
    """

    def __init__(
        self,
        life: Life,
        start: ReplicaStart,
        executor: Executor,
        timing: Timing,
        background: BackgroundWork,
        begin: Callable[[Restored | None, int], list[ReplicaEffect]],
    ) -> None:
        """`begin` goes on from what was restored, or from nothing: a replay from `join_at`. It may
        be called again, after `begin_elsewhere`.
        """
        self._executor = executor
        self._background = background
        self._begin = begin
        self._jumpstart = Jumpstart(life, start, timing)
        self._is_restoring = False
        self.was_given = False
        """Whether it has begun with the state of another one."""

    @property
    def is_awaited(self) -> bool:
        """Whether it is not there yet, or is being taken over."""
        return not self._jumpstart.has_begun or self._is_restoring

    @property
    def origin(self) -> str:
        """What it begins with, for people."""
        return self._jumpstart.words

    @property
    def join_at(self) -> int:
        """From when a replay has every event."""
        origin = self._jumpstart.origin
        return origin.join_at if isinstance(origin, Replay) else BEGIN

    def choose(self, now: int) -> list[ReplicaEffect]:
        """Tries the first origin."""
        return self._jumpstart.choose(now) + self._go_on(now)

    def on_answer(self, event: SnapshotReply | CheckpointLoaded, now: int) -> list[ReplicaEffect]:
        """A peer has answered, or a checkpoint was read."""
        was_awaited = self.is_awaited
        if isinstance(event, SnapshotReply):
            effects = self._jumpstart.on_reply(event, now)
        elif not was_awaited:
            return []
        else:
            effects = self._jumpstart.on_loaded(event, now)
        return effects + self._go_on(now) if was_awaited else effects

    def on_tick(self, now: int) -> list[ReplicaEffect]:
        """Gives an origin up that says nothing for too long."""
        return self._jumpstart.on_tick(now) + self._go_on(now)

    def begin_elsewhere(self, why: str, now: int) -> list[ReplicaEffect]:
        """What it has begun with is of no use after all: on with the next origin."""
        self.was_given = False
        return self._jumpstart.give_up(why, now) + self._go_on(now)

    def _go_on(self, now: int) -> list[ReplicaEffect]:
        """Begins with what was found, if it was; with the next origin where that does not fit."""
        if self.is_awaited:
            return []
        found = self._jumpstart.found
        if found is None:
            return self._begin(None, now)
        try:
            _check(found, self._executor)
        except BadData as e:
            return self._jumpstart.give_up(str(e), now) + self._go_on(now)
        restore = partial(_restored, self._executor, found)
        if found.state_bytes <= STATE_BYTES_MAX:
            return self._take_over(found, restore(), now)
        self._is_restoring = True
        self._background.do("take a state over", restore, partial(self._take_over, found))
        return []

    def _take_over(self, found: Checkpoint, made: Graph | Unfit, now: int) -> list[ReplicaEffect]:
        self._is_restoring = False
        self._jumpstart.forget()  # what it was given is not kept beside what was made of it
        if not isinstance(made, Graph):
            return self._jumpstart.give_up(str(made), now) + self._go_on(now)
        self.was_given = True
        return self._begin(Restored(found, made), now)


def _check(found: Checkpoint, executor: Executor) -> None:
    """Raises `BadData` where a checkpoint cannot be of this plan."""
    others = any(part.schema != executor.schema for part in found.tail)
    if others or found.positions.keys() != executor.sources.keys():
        raise BadData(f"checkpoint of {found.plan}: of other columns or sources")
    if not all(part.insert_only for part in found.tail):
        raise BadData(f"checkpoint of {found.plan}: its tail is no table")


def _restored(executor: Executor, found: Checkpoint) -> Graph | Unfit:
    """The graph, on any thread; or what is wrong with the state, as beside the pump nobody would
    hear it raised.
    """
    try:
        return executor.restored(found.state, found.given)
    except (BadData, SchemaError) as e:
        return e
