"""Replicas that break one rule each: of the tail, of links, of snapshots, of holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gapless.failover.effects import Send
from gapless.failover.messages import Refused
from gapless.failover.replica.draft import Draft, DraftMaker
from gapless.failover.replica.effects import ReplicaEffect
from gapless.failover.replica.initial_state import Restored
from gapless.failover.replica.intake import ReplicaIntake
from gapless.failover.replica.link import Link
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.promise_limit import PromiseLimit
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame


class TrimsWhatHasArrived(Replica):
    """Takes an ack of a frame for a promise that it is durable."""

    class OUTPUT(OutputSender):
        """Asks how far it has told."""

        def trim_to(self) -> int:
            """What every merger has been told."""
            return min([link.durable if link.window else link.told for link in self.links])


class TrimsByTheFastest(Replica):
    """Forgets what one merger has made durable, and another has not."""

    class OUTPUT(OutputSender):
        """Asks the wrong one of its mergers."""

        def trim_to(self) -> int:
            """What any merger has made durable."""
            return max([link.durable for link in self.links])


class HeedsTheFastest(Replica):
    """Stops making what one merger calls settled, and another does not."""

    class OUTPUT(OutputSender):
        """Asks the wrong one of its mergers."""

        def forward_to(self) -> int:
            """What any merger calls settled."""
            return max([link.feedback for link in self.links])


class ForgetsItsTail(Replica):
    """Attaches again without what the merger may lack."""

    class OUTPUT(OutputSender):
        """Has nothing to tell."""

        def retell(self) -> list[Frame]:
            """Only the stable."""
            last = super().retell()[-1]
            return [last.slice(0, 0, last.stable)]


class ClaimsToKnowAll(Replica):
    """Attaches as if it had every event from the beginning, whatever it has forgotten."""

    class OUTPUT(OutputSender):
        """Promises too much."""

        def _attach(self, link: Link, now: int) -> list[Send]:
            if not link.may_attach(now):
                return []
            return [link.attach(BEGIN, self.retell(), self.tail.end, now, self.tail.put_out)]


class SaysOnlyTheLastAgain(Replica):
    """Resends, of all that was lost, the last frame only."""

    class OUTPUT(OutputSender):
        """Says too little."""

        def resend(self, now: int) -> list[Send]:
            """The last of them."""
            return super().resend(now)[-1:]


class DoesNotAttachAgain(Replica):
    """Does not hear that its session is over."""

    class OUTPUT(OutputSender):
        """Does not listen."""

        def hear_refused(self, event: Refused) -> bool:  # noqa: ARG002  # it does not look at that
            """Nothing is over."""
            return False


class ObeysAnybody(Replica):
    """Obeys supervisors whose term is over."""

    def obeys(self, term: int) -> bool:  # noqa: ARG002  # it does not look at that
        """Always."""
        return True


class TakesOverWithoutTheTail(Replica):
    """Begins with a checkpoint's state, and without what mergers may lack of its output."""

    def _take_over(self, restored: Restored) -> list[ReplicaEffect]:
        last = restored.found.tail[-1]
        found = replace(restored.found, tail=(last.slice(0, 0, last.stable),))
        return super()._take_over(restored._replace(found=found))


class SnapshotsAheadOfItsState(Replica):
    """Gives a snapshot whose positions are of a moment later than its state."""

    class DRAFTS(DraftMaker):
        """Looks at where it is too late."""

        def take(self) -> Draft | str:
            """One row ahead."""
            taken = super().take()
            if isinstance(taken, str):
                return taken
            later = {name: _moved(position, 1) for name, position in taken.positions.items()}
            return replace(taken, positions=later)


class TakesOverTooFarBack(Replica):
    """Begins with a checkpoint's state, and reads again what is in it already."""

    def _take_over(self, restored: Restored) -> list[ReplicaEffect]:
        found = restored.found
        before = {name: _moved(position, -1) for name, position in found.positions.items()}
        return super()._take_over(restored._replace(found=replace(found, positions=before)))


class DoesNotHold(Replica):
    """Says that it is held for a cutover, and promises on."""

    class LIMIT(PromiseLimit):
        """Holds nothing."""

        def put_out(self, frame: Frame) -> None:
            """As it comes."""
            if frame:
                self._output.keep(frame)


class StopsInSilence(Replica):
    """Reads no more once it has put out so many frames, and tells nobody."""

    class INTAKE(ReplicaIntake):
        """Falls asleep."""

        def may_read(self) -> bool:
            """Not behind the twelfth frame."""
            return super().may_read() and self._output.tail.end < 12


def _moved(position: Mapping[int, int], by: int) -> dict[int, int]:
    return {partition: max(0, row + by) for partition, row in position.items()}
