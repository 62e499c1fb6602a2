"""A draft: all that a replica is at one moment, before anybody has written it out as a checkpoint.

    the pump       Draft(positions, frames of the tail, the plan)      references: nothing is copied
    beside it      state()                                             the plan as tables
                   finish(state) --> Checkpoint                        the tail folded

Frames never change, so the tail of a draft is of its moment whenever it is finished. The plan's
state does change: the maker of a draft leaves the plan alone until that is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gapless.failover.effects import Position
from gapless.failover.fold import folded_parts
from gapless.failover.replica.checkpoint import Checkpoint
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
