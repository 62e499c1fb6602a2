"""How far a replica may promise: no stable beyond the time at which a cutover holds it.

    the plan    f1  stable 30   f2  stable 50   f3           held at 40
    told        f1  stable 30   f2  stable 40   f3           50 is told once the hold is lifted

Rows go on: a row that is told can still be taken back, and a stable cannot. Reading stops as soon
as the plan is beyond what may be told: nothing that it makes then could be promised.
"""

from __future__ import annotations

from gapless.failover.messages import Hold
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.output_sender import OutputSender
from gapless.protocol.frame import Frame


class PromiseLimit:
    """Of one life of a replica: what it puts out goes through here."""

    def __init__(self, executor: Executor, output: OutputSender, held_at: int) -> None:
        self._executor = executor
        self._output = output
        self._nothing = Frame.empty(executor.schema)
        self.held_at = held_at
        """No stable beyond it is promised."""
        self.hold: tuple[int, int] = (0, 0)
        """Term and version of the `Hold` that it obeys."""

    @property
    def promised(self) -> int:
        """What may be promised of what the plan has put out."""
        return min(self._executor.stable, self.held_at)

    @property
    def is_reached(self) -> bool:
        """Whether the plan has gone further than may be told."""
        return self._executor.stable > self.held_at <= self._output.tail.stable

    def obey(self, order: Hold) -> bool:
        """Whether an order counts: of two the network may bring the later first."""
        if (order.term, order.version) < self.hold:
            return False
        self.hold = order.term, order.version
        self.held_at = order.at
        return True

    def put_out(self, frame: Frame) -> None:
        """Output goes into the tail, its stable no further than may be promised."""
        stable = frame.stable
        if stable is not None and stable > self.held_at:
            is_news = self.held_at > self._output.tail.stable
            frame = frame.with_stable(self.held_at if is_news else None)
        if frame:
            self._output.keep(frame)

    def promise(self) -> None:
        """Promises what a hold had kept back that has ended meanwhile."""
        promised = self.promised
        if promised > self._output.tail.stable:
            self.put_out(self._nothing.with_stable(promised))
