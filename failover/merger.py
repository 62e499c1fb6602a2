"""A merger: LMerge over the replicas' streams, with an output that survives its own death.

    Attach, Data --> LMerge --> Append --> journal --Appended--> Ack (durable), Delivery

Nothing is delivered before it is durable in the output journal, so nothing is delivered that the
journal could forget. A new life (epoch) reads the journal back and hands its live table and its
stable to LMerge; the replicas, whose sessions it does not know, attach again with their tails.

Subscribers are cursors on the output journal: they fetch from an offset, and one that has caught
up is answered as soon as there is more. They never push back.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.messages import (
    Ack,
    Append,
    Appended,
    Attach,
    Data,
    Delivery,
    Effect,
    Event,
    Fetch,
    OutputRead,
    ReadOutput,
    Refused,
    Send,
    Session,
    Token,
)
from gapless.merge.lmerge import LMerge
from gapless.merge.membership import INPUTS_MAX
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

SUBSCRIBERS_MAX = 1024
"""Subscribers that wait at the end of the output at once; others ask again."""


@dataclass(slots=True)
class _Link:
    """The present session of one replica."""

    session: Session
    number: int
    """Its input of the LMerge."""
    taken_in: int
    """The last sequence number taken in."""


class Merger:
    """One life of a merger. Pure: the shell does what the effects say."""

    def __init__(self, name: str, epoch: int, merge: LMerge, live: Frame, offset: int) -> None:
        """`live` is the output's live table and stable as the journal gives them up to `offset`."""
        self.name = name
        self.epoch = epoch
        self._merge = merge
        self._merge.resume(live)
        self._offset = offset  # the journal is durable up to here
        self._durable_stable = merge.stable
        self._links: dict[str, _Link] = {}
        self._waiting: dict[str, int] = {}

    @property
    def durable_stable(self) -> int:
        """The output is durable up to this time."""
        return self._durable_stable

    def on(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002  # one form for all machines
        """What follows from `event`; so far nothing depends on the time."""
        match event:
            case Attach():
                return self._on_attach(event)
            case Data():
                return self._on_data(event)
            case Appended():
                return self._on_appended(event)
            case Fetch():
                return self._on_fetch(event)
            case OutputRead():
                return [self._deliver(event)]
        return []

    def expects(self, session: Session, sequence: int) -> bool:
        """Whether it would take in this message; others it answers and drops."""
        link = self._links.get(session.replica)
        if sequence == 0:
            return link is None or session > link.session
        return link is not None and session == link.session and sequence == link.taken_in + 1

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._merge.validate()
        numbers = sorted(link.number for link in self._links.values())
        if numbers != sorted(self._merge.inputs):
            raise Bug(f"sessions feed the inputs {numbers}, attached are {self._merge.inputs}")
        if self._durable_stable > self._merge.stable:
            raise Bug(f"durable to {self._durable_stable}, merged to {self._merge.stable}")
        if len(self._waiting) > SUBSCRIBERS_MAX:
            raise Bug(f"{len(self._waiting)} subscribers wait")

    # -- inputs -------------------------------------------------------------------------------

    def _on_attach(self, event: Attach) -> list[Effect]:
        session = event.session
        link = self._links.get(session.replica)
        if not self.expects(session, 0):
            if link is not None and session == link.session:
                return [self._ack(link)]  # a repeated message
            return [self._refuse(session, "a later session is attached")]
        if link is not None:
            self._merge.detach(link.number)
        elif len(self._links) >= INPUTS_MAX:
            return [self._refuse(session, f"{INPUTS_MAX} replicas are attached")]
        link = _Link(session, self._merge.attach(event.join_at), 0)
        self._links[session.replica] = link
        return self._take_in(link, event.tail)

    def _on_data(self, event: Data) -> list[Effect]:
        link = self._links.get(event.session.replica)
        if link is None or link.session != event.session:
            return [self._refuse(event.session, "no such session")]
        if not self.expects(event.session, event.sequence):
            return [self._ack(link)]  # repeated, or one before it was lost
        link.taken_in += 1
        return self._take_in(link, event.frame)

    def _take_in(self, link: _Link, frame: Frame) -> list[Effect]:
        out = self._merge.push(link.number, frame)
        if link.number not in self._merge.inputs:
            del self._links[link.session.replica]
            return [self._refuse(link.session, str(self._merge.detached[link.number]))]
        effects: list[Effect] = [self._ack(link)]
        if out:
            effects.append(Append(out, self._merge.stable))
        return effects

    def _ack(self, link: _Link) -> Send:
        durable = self.durable_stable
        feedback = self._merge.feedback(link.number, at_most=durable)
        ack = Ack(link.session, self.epoch, link.taken_in, durable, feedback)
        return Send(link.session.replica, ack)

    def _refuse(self, session: Session, reason: str) -> Send:
        return Send(session.replica, Refused(session, self.epoch, reason))

    # -- output -------------------------------------------------------------------------------

    def _on_appended(self, event: Appended) -> list[Effect]:
        self._offset = event.offset
        advanced = event.stable > self._durable_stable
        self._durable_stable = max(self._durable_stable, event.stable)
        effects: list[Effect] = []
        if advanced:
            effects += [self._ack(link) for link in self._links.values()]
        effects += [ReadOutput(name, after) for name, after in self._waiting.items()]
        self._waiting.clear()
        return effects

    def _on_fetch(self, event: Fetch) -> list[Effect]:
        after = event.token.offset
        if event.token.merger != self.name or after > self._offset:
            return []  # no merger that writes this journal has given such a token
        if after < self._offset:
            return [ReadOutput(event.subscriber, after)]
        if event.subscriber in self._waiting or len(self._waiting) < SUBSCRIBERS_MAX:
            self._waiting[event.subscriber] = after
        return []

    def _deliver(self, event: OutputRead) -> Send:
        stable = BEGIN if event.frame.stable is None else event.frame.stable
        token = Token(self.name, self.epoch, event.offset, stable)
        return Send(event.subscriber, Delivery(event.after, event.frame, token))
