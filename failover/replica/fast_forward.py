"""Feedback: outputs that are settled are not made any more, and rows for them not read.

mergers call settled up to 40     the plan forgets what only outputs that end before 40 need
                                  flows: rows before 30 are of no use --> SkipSource(flows, 29)
"""

from __future__ import annotations

from gapless.failover.replica.effects import ReplicaEffect, SkipSource
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.rejoins import RejoinTracker
from gapless.protocol.elements import BEGIN


class FastForward:
    """How far one replica has left out what is settled."""

    def __init__(self, executor: Executor, output: OutputSender, rejoin: RejoinTracker) -> None:
        self._executor = executor
        self._output = output
        self._rejoin = rejoin
        self.at = BEGIN
        """Outputs that end before it are not made any more."""
        self._skipped = dict.fromkeys(executor.sources, BEGIN)

    def heed_feedback(self) -> list[ReplicaEffect]:
        """Leaves out what all awaited mergers call settled."""
        settled = self._output.forward_to()
        if settled <= self.at:
            return []
        stable = self._executor.stable
        if settled > stable:  # up to there nothing is missing
            self._output.links.leave_out(settled)
        self._rejoin.forwards(settled, self.at, stable)
        return self.to(settled)

    def to(self, t: int) -> list[ReplicaEffect]:
        """Outputs that end before t are not made any more, rows for them not read."""
        self.at = t
        effects: list[ReplicaEffect] = []
        for source, before in self._executor.fast_forward(t).items():
            if before > self._skipped[source]:
                self._skipped[source] = before
                # Of no use are rows that end before it, and a row lives for one instant.
                effects.append(SkipSource(source, before - 1))
        return effects

    def begin_anew(self) -> None:
        """The plan has begun anew, and knows nothing of that."""
        self.at = BEGIN
        self._skipped = dict.fromkeys(self._executor.sources, BEGIN)
