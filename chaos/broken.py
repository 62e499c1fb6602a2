"""Deliberately broken builds: the proof that the simulator's checks can fail.

Each plants one small fault in the protocol, by overriding one method of a production machine.
`tests/chaos/` demands that the simulator catches every one of them within a bounded number of
seeds, while the production build stays clean.
"""

from __future__ import annotations

from dataclasses import replace

from gapless.chaos.simulator import PRODUCTION, Build
from gapless.failover.merger import Merger
from gapless.failover.messages import Delivery, Effect, Event, Session
from gapless.failover.replica import Replica
from gapless.failover.subscriber import Subscriber
from gapless.merge.lmerge import LMerge
from gapless.merge.membership import Input
from gapless.protocol.frame import Frame


class NoJoinGate(LMerge):
    """Lets an input act before the output has reached its join time."""

    def _may_act(self, entry: Input) -> bool:  # noqa: ARG002  # it does not look
        return True


class ForgetsItsTail(Replica):
    """Attaches again without what the merger may lack."""

    def retell(self) -> Frame:
        """Only the stable."""
        return super().retell().slice(0, 0, self.tail.fold().stable)


class PromisesWhatIsNotDurable(Merger):
    """Takes what it has merged for what its journal can give back."""

    @property
    def durable_stable(self) -> int:
        """What is merged."""
        return self._merge.stable


class TakesFramesTwice(Merger):
    """Does not look at sequence numbers."""

    def expects(self, session: Session, sequence: int) -> bool:
        """Everything, of a session that is there."""
        link = self._links.get(session.replica)
        return sequence == 0 or (link is not None and link.session == session)


class TakesAnyDelivery(Subscriber):
    """Does not look at where a delivery starts."""

    def on(self, event: Event, now: int) -> list[Effect]:
        """Moves the token to wherever a delivery starts."""
        if isinstance(event, Delivery):
            self.token = self.token._replace(offset=event.after)
        return super().on(event, now)


BROKEN_BUILDS: dict[str, Build] = {
    "no join gate": replace(PRODUCTION, merge=NoJoinGate),
    "forgets its tail": replace(PRODUCTION, replica=ForgetsItsTail),
    "promises what is not durable": replace(PRODUCTION, merger=PromisesWhatIsNotDurable),
    "takes frames twice": replace(PRODUCTION, merger=TakesFramesTwice),
    "takes any delivery": replace(PRODUCTION, subscriber=TakesAnyDelivery),
}
