"""The sessions in which replicas feed a merger: which may attach, what is taken in, in which order.

    Attach --> expected? fenced? room? --> an input of the LMerge --> tail taken in --> Ack
    Data   --> of this session, the next one? --> merged, and what had come too early behind it
                                             '--> repeated: Ack; overtaken: kept until its turn
    a disk or a state that is full --> not taken in: Ack(throttled), and it comes again

Each rule that a promise rests on is a method of its own: what is expected, which lives are fenced,
whether there is room, what an ack says is settled.
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.effects import Send
from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.effects import MergerEffect
from gapless.failover.merger.inputs import NOTHING, AttachedInput, AttachedInputs
from gapless.failover.merger.tallies import Tallies
from gapless.failover.messages import Ack, Attach, Data, Life, Refused, Session
from gapless.merge.lmerge import LMerge
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

STATE_BYTES_MAX = 1 << 30
"""Of the LMerge. Beyond it nothing is taken in of inputs ahead of the output: what they hold waits
for others, and grows without bound if those are slow.
"""


class InputSessions:
    """Of one life of a merger."""

    def __init__(
        self,
        slot: str,
        epoch: int,
        merge: LMerge,
        inputs: AttachedInputs,
        tallies: Tallies,
        output: DurableOutput,
        *,
        acks_each: bool,
    ) -> None:
        """`acks_each`: a frame is acked at once, where an ack costs little and the sender may wait
        for it.
        """
        self._slot = slot
        self._epoch = epoch
        self._merge = merge
        self._inputs = inputs
        self._tallies = tallies
        self._output = output
        self._acks_each = acks_each
        self._is_full = False  # the state's limit is reached
        self._told_durable = output.written_stable  # to all inputs
        self.detached = 0
        """Inputs that LMerge did not believe."""

    # -- rules --------------------------------------------------------------------------------

    @property
    def attached(self) -> Collection[Life]:
        """The lives that feed the merger."""
        return self._inputs.by_life.keys()

    def expects(self, session: Session, sequence: int) -> bool:
        """Whether this is the next message of its session; others are answered and dropped."""
        attached = self._inputs.by_life.get(session.life)
        if sequence == 0:
            is_new = attached is None or session.attempt > attached.session.attempt
            return is_new and not self.is_fenced(session.life)
        return (
            attached is not None
            and attached.session == session
            and sequence == attached.taken_in + 1
        )

    def taken_in(self, session: Session) -> int:
        """The last sequence number that was taken in of a session; -1 where it has none."""
        attached = self._inputs.by_life.get(session.life)
        return attached.taken_in if attached is not None and attached.session == session else -1

    def is_fenced(self, life: Life) -> bool:
        """Whether a life may no longer feed the merger because a later one has its slot."""
        return self._inputs.is_fenced(life)

    def _feedback(self, attached: AttachedInput) -> int:
        """What ends before it is settled: the input need not say it. Never above what is durable:
        after a crash we would need it again.
        """
        return self._merge.feedback(attached.number, at_most=self._output.durable_stable)

    def _may_take_in(self, attached: AttachedInput, frame: Frame) -> bool:
        """Whether there is room for what an input says. Above the limit of the state one that is
        ahead of the output waits, and never one that the output waits for.
        """
        if self._output.is_full:
            return False
        if len(frame) and not self._merge.may_hold(attached.number, len(frame)):
            return False
        if not self._is_full:
            return True
        merge = self._merge
        return merge.policy.target(merge.input_stable(attached.number)) <= merge.stable

    # -- messages -----------------------------------------------------------------------------

    def on_attach(self, event: Attach, now: int) -> list[MergerEffect]:
        """A life opens a session."""
        session = event.session
        life = session.life
        if session.merger != self._slot:
            return [self._refuse(session, f"this is {self._slot}, not {session.merger}")]
        attached = self._inputs.by_life.get(life)
        if not self.expects(session, 0):
            if self.is_fenced(life):
                return [self._refuse(session, "a later life has taken the slot", fenced=True)]
            if attached is not None and session == attached.session:
                return [self._ack(attached)]  # a repeated message
            return [self._refuse(session, "a later session is attached")]
        if self._output.is_full and len(event.tail):
            return []  # there is no session to answer in yet: it says so again
        effects: list[MergerEffect] = []
        before = NOTHING
        if attached is not None:
            before = self._tallies.of(attached)
            self._drop(attached)
        if (silent := self._inputs.displaced(life)) is not None:
            self._drop(silent)
            effects.append(self._refuse(silent.session, "it was silent, and others have come"))
        if (full := self._inputs.full()) is not None:
            return [*effects, self._refuse(session, full)]
        number = self._merge.attach(event.join_at)
        attached = self._inputs.add(session, number, event.join_at, now, before, event.parts)
        return effects + self._take_in(attached, event.tail, now)

    def on_data(self, event: Data, now: int) -> list[MergerEffect]:
        """A life sends the next frame of its session."""
        session = event.session
        attached = self._inputs.by_life.get(session.life)
        if attached is None or attached.session != session:
            return [self._refuse(session, "no such session")]
        if not self.expects(session, event.sequence):
            attached.keep_early(event.sequence, event.frame)
            return [self._ack(attached)]  # repeated, or one before it was lost, or overtaken
        if not self._may_take_in(attached, event.frame):
            return [self._ack(attached, throttled=True)]
        attached.taken_in = event.sequence
        return self._take_in(attached, event.frame, now)

    def _take_in(self, attached: AttachedInput, frame: Frame, now: int) -> list[MergerEffect]:
        """Merges a frame of an input, and those behind it that had come early."""
        effects: list[MergerEffect] = []
        attached.heard_at = now
        throttled = False
        while True:
            out = self._merge.push(attached.number, frame)
            self._tallies.look(self._output.offset)
            if not out and attached.number not in self._merge.inputs:
                reason = str(self._merge.detached[attached.number])
                self._inputs.remove(attached)
                self.detached += 1
                return [*effects, self._refuse(attached.session, reason)]
            if frame:  # an empty one only asks whether we know the session
                self._output.took_in_at = now
            self._inputs.reached(self._merge.stable)
            if out:
                effects += self._output.put_out(out)
            if (
                not attached.early
                or (early := attached.early.pop(attached.taken_in + 1, None)) is None
            ):
                break
            throttled = not self._may_take_in(attached, early)
            if throttled:
                break
            attached.taken_in += 1
            frame = early
        if throttled or self._acks_each or attached.waits_for_ack():
            return [self._ack(attached, throttled=throttled), *effects]
        return effects

    def fence(self, life: Life) -> list[MergerEffect]:
        """Earlier lives of the slot are over: they are refused and no longer feed the merger."""
        effects: list[MergerEffect] = []
        for attached in self._inputs.fence(life):
            self._drop(attached)
            reason = f"{life} has taken the slot"
            effects.append(self._refuse(attached.session, reason, fenced=True))
        return effects

    def tick(self) -> list[MergerEffect]:
        """Acks what was not acked, and every input where more is durable. An input that sends
        hears of that sooner, by its acks.
        """
        self._is_full = self._merge.nbytes > STATE_BYTES_MAX
        inputs = self._inputs.by_life.values()
        if self._output.written_stable > self._told_durable:
            self._told_durable = self._output.written_stable
            return [self._ack(attached) for attached in inputs]
        return [self._ack(attached) for attached in inputs if attached.acked < attached.taken_in]

    # -- answers ------------------------------------------------------------------------------

    def _ack(self, attached: AttachedInput, *, throttled: bool = False) -> Send:
        durable, feedback = self._output.durable_stable, self._feedback(attached)
        attached.acked = attached.taken_in
        ack = Ack(attached.session, self._epoch, attached.taken_in, durable, feedback, throttled)
        return Send(attached.to, ack)

    def _refuse(self, session: Session, reason: str, *, fenced: bool = False) -> Send:
        return Send(str(session.life), Refused(session, self._epoch, reason, fenced))

    def _drop(self, attached: AttachedInput) -> None:
        """An input feeds us no more."""
        self._merge.detach(attached.number)
        self._inputs.remove(attached)

    def validate(self, other: int | None) -> None:
        """Raises `Bug` where an invariant is broken. `other`: an input that is no session."""
        self._inputs.validate(self._merge.stable)
        numbers = [attached.number for attached in self._inputs.by_life.values()]
        if other is not None:
            numbers.append(other)
        if sorted(numbers) != sorted(self._merge.inputs):
            raise Bug(f"sessions feed the inputs {numbers}, attached are {self._merge.inputs}")
