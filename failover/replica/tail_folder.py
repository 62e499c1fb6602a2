"""Folds a large tail beside the pump: to make it smaller, and for sessions to begin with.

    compact    frames in front become fewer      the tail goes on meanwhile, and takes them back
    tell       the tail as a table               sessions wait; one table serves all that waited

Frames never change, so a table that is made beside is of the moment at which it was asked for. The
frames that were put out meanwhile follow it: a session that begins with it lacks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gapless.failover import parts
from gapless.failover.background_work import BackgroundWork
from gapless.failover.fold import folded_parts
from gapless.failover.replica.effects import ReplicaEffect
from gapless.failover.replica.tail import Tail
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class ToldTail(NamedTuple):
    """A tail at one moment, as it is sent to a merger."""

    since: int
    frames: list[Frame]
    end: int
    """The number of the frame that comes next."""
    put_out: int
    """Rows that the tail had put out."""


class TailFolder:
    """Of one life of a replica."""

    def __init__(
        self,
        schema: StreamSchema,
        background: BackgroundWork,
        begin_sessions: Callable[[int], list[ReplicaEffect]],
    ) -> None:
        """`begin_sessions` opens those that have waited for `told`, and says what follows."""
        self._nothing = Frame.empty(schema)
        self._background = background
        self._begin_sessions = begin_sessions
        self._telling: ToldTail | None = None  # when it was asked for; its frames are being made
        self.told: ToldTail | None = None
        """What sessions begin with at this moment; None except while those that waited begin."""

    def compact(self, tail: Tail, before: int) -> None:
        """Has the frames with numbers below `before` folded into fewer, unless some are."""
        if tail.is_folding:
            return
        frames, floor = tail.begin_fold(before), tail.floor
        if frames:
            fold = partial(folded_parts, self._nothing.schema, frames, floor)
            self._background.do("fold its tail", fold, partial(_end_fold, tail))

    @staticmethod
    def takes_long(tail: Tail) -> bool:
        """Whether only a fold tells a tail, and that would take long."""
        return len(tail) > parts.ROWS_MAX and tail.is_torn

    def make(self, tail: Tail) -> None:
        """Has `told` made of a tail, unless that is under way."""
        if self._telling is not None:
            return
        frames = tail.frames()
        self._telling = ToldTail(tail.since, frames[-1:], tail.end, tail.put_out)
        fold = partial(folded_parts, self._nothing.schema, frames, tail.floor)
        self._background.do(
            "fold its tail for a session", fold, partial(self._has_made, self._telling)
        )

    def forget(self) -> None:
        """The tail is another one: what is being made of the one before is of no use."""
        self._telling = None

    def _has_made(self, telling: ToldTail, made: list[Frame], now: int) -> list[ReplicaEffect]:
        if telling is not self._telling:
            return []  # the tail is another one since
        last = made[-1] if made else self._nothing
        frames = [*made[:-1], last.with_stable(telling.frames[-1].stable)]
        self._telling, self.told = None, telling._replace(frames=frames)
        effects = self._begin_sessions(now)
        self.told = None
        return effects


def _end_fold(tail: Tail, made: list[Frame], now: int) -> list[ReplicaEffect]:  # noqa: ARG001  # one form for all
    tail.end_fold(made)
    return []
