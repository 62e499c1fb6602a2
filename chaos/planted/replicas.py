"""Replicas that break one rule each: of the tail, of links, of snapshots, of holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gapless.engine.graph import Graph
from gapless.failover.effects import ReplicaEffect, Send
from gapless.failover.messages import Refused
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.draft import Draft
from gapless.failover.replica.link import Link
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.restore import Unfit
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame


class TrimsWhatHasArrived(Replica):
    """Takes an ack of a frame for a promise that it is durable."""

    def _trim_to(self) -> int:
        return min([link.durable if link.window else link.told for link in self.links.values()])


class TrimsByTheFastest(Replica):
    """Forgets what one merger has made durable, and another has not."""

    def _trim_to(self) -> int:
        return max([link.durable for link in self.links.values()])


class HeedsTheFastest(Replica):
    """Stops making what one merger calls settled, and another does not."""

    def _forward_to(self) -> int:
        return max([link.feedback for link in self.links.values()])


class ForgetsItsTail(Replica):
    """Attaches again without what the merger may lack."""

    def retell(self) -> list[Frame]:
        """Only the stable."""
        last = super().retell()[-1]
        return [last.slice(0, 0, last.stable)]


class ClaimsToKnowAll(Replica):
    """Attaches as if it had every event from the beginning, whatever it has forgotten."""

    def _attach(self, link: Link, now: int) -> list[Send]:
        if not link.may_attach(now):
            return []
        return [link.attach(BEGIN, self.retell(), self.tail.end, now, self.tail.put_out)]


class SaysOnlyTheLastAgain(Replica):
    """Resends, of all that was lost, the last frame only."""

    def _say_again(self, now: int) -> list[Send]:
        return super()._say_again(now)[-1:]


class DoesNotAttachAgain(Replica):
    """Does not hear that its session is over."""

    def _hear_refused(self, event: Refused) -> bool:  # noqa: ARG002  # it does not look at that
        return False


class ObeysAnybody(Replica):
    """Obeys supervisors whose term is over."""

    def obeys(self, term: int) -> bool:  # noqa: ARG002  # it does not look at that
        """Always."""
        return True


class TakesOverWithoutTheTail(Replica):
    """Begins with a checkpoint's state, and without what mergers may lack of its output."""

    def _take_over(self, found: Checkpoint, made: Graph | Unfit, now: int) -> list[ReplicaEffect]:
        nothing = found.tail[-1].slice(0, 0, found.tail[-1].stable)
        return super()._take_over(replace(found, tail=(nothing,)), made, now)


class SnapshotsAheadOfItsState(Replica):
    """Gives a snapshot whose positions are of a moment later than its state."""

    def _draft(self) -> Draft | str:
        taken = super()._draft()
        if isinstance(taken, str):
            return taken
        later = {name: _moved(position, 1) for name, position in taken.positions.items()}
        return replace(taken, positions=later)


class TakesOverTooFarBack(Replica):
    """Begins with a checkpoint's state, and reads again what is in it already."""

    def _take_over(self, found: Checkpoint, made: Graph | Unfit, now: int) -> list[ReplicaEffect]:
        before = {name: _moved(position, -1) for name, position in found.positions.items()}
        return super()._take_over(replace(found, positions=before), made, now)


class DoesNotHold(Replica):
    """Says that it is held for a cutover, and promises on."""

    def _put_out(self, frame: Frame) -> None:
        if frame:
            self._keep(frame)


def _moved(position: Mapping[int, int], by: int) -> dict[int, int]:
    return {partition: max(0, row + by) for partition, row in position.items()}


class StopsInSilence(Replica):
    """Reads no more once it has put out so many frames, and tells nobody."""

    def _may_read(self) -> bool:
        """Not behind the twelfth frame."""
        return super()._may_read() and self.tail.end < 12
