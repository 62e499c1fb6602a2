"""A draft: all that a replica is at one moment, before anybody has written it out as a checkpoint.

    the pump       Draft(positions, frames of the tail, the plan)      references: nothing is copied
    beside it      state()                                             the plan as tables
                   finish(state) --> Checkpoint                        the tail folded

Frames never change, so the tail of a draft is of its moment whenever it is finished. The plan's
state does change: the plan is left alone until that is taken. Then it goes on, while the tail is
folded. A small draft is finished at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from gapless.failover import parts
from gapless.failover.background_work import BackgroundWork
from gapless.failover.fold import folded_parts
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import Position, ReplicaEffect
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.initial_state import STATE_BYTES_MAX, InitialState
from gapless.failover.replica.intake import ReplicaIntake
from gapless.failover.replica.output_sender import OutputSender
from gapless.operators.state import State
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


@dataclass(frozen=True, slots=True)
class Draft:
    """One moment of a replica: see `Checkpoint`."""

    plan: str
    positions: Mapping[str, Position]
    given: Mapping[str, int]
    since: int
    stable: int
    schema: StreamSchema
    floor: int
    """Events of the tail that end before it are settled."""
    tail: tuple[Frame, ...]
    """As it was put out."""
    promised: int
    """The tail's stable."""
    state: Callable[[], State]
    """Takes the snapshot of the plan, which must not have changed since."""

    def finish(self, state: State) -> Checkpoint:
        """The checkpoint, with the state as it was at that moment."""
        made = folded_parts(self.schema, self.tail, self.floor)
        stable = None if self.promised == BEGIN else self.promised
        last = made.pop() if made else Frame.empty(self.schema)
        tail = (*made, last.with_stable(stable))
        return Checkpoint(
            self.plan, self.positions, self.given, self.since, self.stable, tail, state
        )


class DraftMaker:
    """Takes drafts of one life of a replica, and has them finished."""

    def __init__(
        self,
        executor: Executor,
        output: OutputSender,
        intake: ReplicaIntake,
        initial_state: InitialState,
        background: BackgroundWork,
    ) -> None:
        self._executor = executor
        self._output = output
        self._intake = intake
        self._initial_state = initial_state
        self._background = background

    def take(self) -> Draft | str:
        """All that the replica is at this moment, or why it cannot say."""
        if self._initial_state.is_awaited:
            return "it is joining itself"
        if self._intake.has_more:
            return "it is putting out what it has read last, as mergers take it in"
        progress = self._intake.progress
        if progress.unread:
            return f"it has not read {progress.unread[0]} yet"
        tail = self._output.tail
        return Draft(
            self._executor.name,
            dict(progress.positions),
            dict(self._executor.given),
            tail.since,
            self._executor.stable,
            self._output.schema,
            tail.floor,
            tuple(tail.frames()),
            tail.stable,
            self._executor.snapshot,
        )

    def finish(
        self,
        draft: Draft,
        made: Callable[[Checkpoint], list[ReplicaEffect]],
        has_state: Callable[[int], list[ReplicaEffect]],
    ) -> list[ReplicaEffect]:
        """Makes a checkpoint of a draft, and gives it to `made`: beside the pump, where that takes
        long. Then `has_state` is called first, once the plan need not be left alone any more.
        """
        is_small = len(self._output.tail) <= parts.ROWS_MAX
        if is_small and self._executor.nbytes <= STATE_BYTES_MAX:
            return made(draft.finish(draft.state()))
        then = partial(self._has_state, draft, made, has_state)
        self._background.do("take its state", draft.state, then)
        return []

    def _has_state(
        self,
        draft: Draft,
        made: Callable[[Checkpoint], list[ReplicaEffect]],
        has_state: Callable[[int], list[ReplicaEffect]],
        state: State,
        now: int,
    ) -> list[ReplicaEffect]:
        finish = partial(draft.finish, state)
        self._background.do("fold its tail for a snapshot", finish, lambda done, _: made(done))
        return has_state(now)
