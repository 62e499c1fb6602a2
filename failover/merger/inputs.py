"""The inputs of a merger: which lives feed it, by which session, and which may not any more.

    Attach        all parts of its tail are there   replaced, fenced, bad content
      |           and the output's stable has         |
      |           reached its join time               |
    joining -----------------------------> qualified ---> gone

An input is one *life*, not one slot: the successor of a suspected replica feeds the merger beside
it, until the supervisor has seen it qualify and fences the old one. A life that died says nothing
of it; its input stays, and says nothing either, until the slot is fenced or has too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Life, Session
from gapless.failover.replica.link import CREDITS
from gapless.merge.membership import INPUTS_MAX
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

InputState = Literal["joining", "qualified", "gone"]
INPUT: Lifecycle[InputState] = Lifecycle(
    "an input of a merger",
    {
        "joining": {"reached": "qualified", "left": "gone"},
        "qualified": {"left": "gone"},
        "gone": {},
    },
)
LINKS_MAX = INPUTS_MAX - 1
"""Lives attached at once; one input more is a peer's journal (backfill.py)."""
LIVES_MAX = 4
"""Of one slot: a suspected one, its successor, and two that died without anybody fencing them."""

EARLY_FRAMES_MAX = CREDITS
"""Of one session, frames that overtook others: as many as its sender has sent and not acked."""


class Tally(NamedTuple):
    """What a life has done at a merger: see `InputStatus`."""

    diverged: int = 0
    outvoted: int = 0
    led: int = 0


NOTHING = Tally()
"""Of a life that has just come."""


@dataclass(slots=True)
class AttachedInput:
    """The present session of one life."""

    session: Session
    number: int
    """Its input of the LMerge."""
    join_at: int
    to: str
    """Where its answers go."""
    heard_at: int
    """When something of it was taken in last."""
    whole_at: int = 0
    """The sequence number of the last part of the tail that it has begun with."""
    taken_in: int = 0
    """The last sequence number taken in."""
    acked: int = -1
    """The last sequence number that was acked."""
    state: InputState = INPUT.first
    early: dict[int, Frame] = field(default_factory=dict)
    """By sequence number, what came before its turn: at most `EARLY_FRAMES_MAX`."""
    before: Tally = NOTHING
    """What its life did in the sessions before this one."""

    def waits_for_ack(self) -> bool:
        """Whether to ack now. In a young session every message is acked, as the sender waits for
        its attach and for each part of a large tail; later once half of its credits are used up,
        and otherwise by a tick: an ack costs as much as the message that it is for.
        """
        is_young = self.taken_in <= self.whole_at + CREDITS
        return is_young or self.taken_in - self.acked >= max(1, CREDITS // 2)

    def may_act(self, stable: int) -> bool:
        """Whether it has kept the promise of its attach, and the output has reached its join."""
        return self.taken_in >= self.whole_at and self.join_at <= stable

    def keep_early(self, sequence: int, frame: Frame) -> None:
        """Keeps a frame until those before it have come. One that is further ahead than the sender
        has credits for is nobody's.
        """
        if self.taken_in < sequence <= self.taken_in + EARLY_FRAMES_MAX:
            self.early[sequence] = frame


class AttachedInputs:
    """All inputs of one merger, and the fences that keep old lives out."""

    def __init__(self, fences: Iterable[Life] = ()) -> None:
        self.by_life: dict[Life, AttachedInput] = {}
        self._joining: list[AttachedInput] = []
        self._fences = {life.slot: life for life in fences}

    def add(
        self,
        session: Session,
        number: int,
        join_at: int,
        now: int,
        before: Tally = NOTHING,
        parts: int = 0,
    ) -> AttachedInput:
        """A new input; the life has none. So many frames after the first belong to its tail."""
        attached = AttachedInput(
            session, number, join_at, str(session.life), now, parts, before=before
        )
        self.by_life[session.life] = attached
        self._joining.append(attached)
        return attached

    def remove(self, attached: AttachedInput) -> None:
        """It feeds us no more."""
        if attached.state == INPUT.first:
            self._joining.remove(attached)
        attached.state = INPUT.after(attached.state, "left")
        del self.by_life[attached.session.life]

    def reached(self, stable: int) -> None:
        """The output is stable up to here: those that joined before it may act."""
        if not self._joining:
            return
        for attached in self._joining:
            if attached.may_act(stable):
                attached.state = INPUT.after(attached.state, "reached")
        self._joining = [attached for attached in self._joining if attached.state == INPUT.first]

    @property
    def joining(self) -> list[AttachedInput]:
        """Those that may not act yet."""
        return self._joining

    def displaced(self, life: Life) -> AttachedInput | None:
        """The life of the same slot that has been silent for longest, where one has to make room
        for a life that attaches. It may be alive: then it attaches again.
        """
        lives = self._of_slot(life.slot)
        if len(lives) < LIVES_MAX:
            return None
        return min((self.by_life[each] for each in lives), key=lambda attached: attached.heard_at)

    def full(self) -> str | None:
        """Why there is no room for one more life; None where there is."""
        return f"{LINKS_MAX} are attached" if len(self.by_life) >= LINKS_MAX else None

    def _of_slot(self, slot: str) -> list[Life]:
        """The lives of a slot that are attached, the oldest first."""
        return sorted(life for life in self.by_life if life.slot == slot)

    def validate(self, stable: int) -> None:
        """Raises `Bug` where an invariant is broken; the output is stable up to here."""
        for life, attached in self.by_life.items():
            if attached.may_act(stable) != (attached.state == "qualified"):
                at, state = attached.join_at, attached.state
                raise Bug(f"{life} joined at {at} and is {state} at {stable}")
            if life != attached.session.life:
                raise Bug(f"the input of {life} is fed by {attached.session.life}")

    # -- fences -------------------------------------------------------------------------------

    @property
    def fences(self) -> tuple[Life, ...]:
        """By slot the lowest life that may still attach."""
        return tuple(self._fences.values())

    def fence(self, life: Life) -> list[AttachedInput]:
        """Ends the lives of the slot before this one; returns the inputs that they had."""
        known = self._fences.get(life.slot)
        if known is None or known < life:
            self._fences[life.slot] = life
        return [self.by_life[old] for old in self._of_slot(life.slot) if self.is_fenced(old)]

    def forget(self, slot: str) -> None:
        """Forgets the fence of a slot that has no lives: any of it may attach."""
        if not self._of_slot(slot):
            self._fences.pop(slot, None)

    def is_fenced(self, life: Life) -> bool:
        """Whether a later life has taken its slot."""
        fence = self._fences.get(life.slot)
        return fence is not None and life < fence
