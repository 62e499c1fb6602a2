"""What every machine offers, and what becomes of an event that it has no case for.

    match event:
        case Tick():
            return self._on_tick(now)
        case Delivery():
            return self._on_delivery(event, now)
        case _:
            raise unhandled("a subscriber", event)

The events of a machine are a closed union, in the `effects.py` of its folder. mypy rejects the last
line while a member of the union has no case. At run time the line is reached by an event of another
machine alone: something was sent to the wrong slot. That is our bug, and a machine does not go on
as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never, Protocol, TypeVar

from gapless.failover.merger.effects import MergerEffect, MergerEvent
from gapless.failover.replica.effects import ReplicaEffect, ReplicaEvent
from gapless.failover.subscriber.effects import SubscriberEffect, SubscriberEvent
from gapless.failover.supervisor.effects import SupervisorEffect, SupervisorEvent
from gapless.protocol.errors import Bug

Event = ReplicaEvent | MergerEvent | SubscriberEvent | SupervisorEvent
Effect = ReplicaEffect | MergerEffect | SubscriberEffect | SupervisorEffect

EventT_contra = TypeVar("EventT_contra", contravariant=True)


class Machine(Protocol[EventT_contra]):
    """A pure function of the events so far. `EventT_contra` is the closed union of its events."""

    def on(self, event: EventT_contra, now: int) -> Sequence[Effect]:
        """What follows from `event` at time `now`, in milliseconds."""

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def unhandled(who: str, what: Never) -> Bug:
    """To be raised where no case is left: mypy rejects the call unless it cannot be reached, as it
    does with `typing.assert_never`.
    """
    return Bug(f"{who} was given {what!r:.200}, and has no case for it")
