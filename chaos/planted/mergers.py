"""Mergers that break one rule each: of joining, of sequence, of fences, of what is durable."""

from __future__ import annotations

from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.effects import MergerEffect, PeerRead
from gapless.failover.merger.input_sessions import InputSessions
from gapless.failover.merger.inputs import AttachedInput
from gapless.failover.merger.machine import Merger
from gapless.failover.messages import Fence, Life, Session
from gapless.merge.lmerge import LMerge
from gapless.merge.membership import Input


class NoJoinGate(LMerge):
    """Lets an input act before the output has reached its join time."""

    def _may_act(self, entry: Input) -> bool:  # noqa: ARG002  # it does not look
        return True


class HoldsMergedForDurable(Merger):
    """Tells replicas that what it has merged is durable."""

    class OUTPUT(DurableOutput):
        """Trusts its disk."""

        @property
        def durable_stable(self) -> int:
            """What is merged."""
            return self._merge.stable


class SettlesMoreThanIsDurable(Merger):
    """Says by feedback that what is merged is settled, though a crash may take it back."""

    class SESSIONS(InputSessions):
        """Promises too much."""

        def _feedback(self, attached: AttachedInput) -> int:
            return self._merge.feedback(attached.number)


class TakesFramesTwice(Merger):
    """Takes a repeated frame for the next one."""

    class SESSIONS(InputSessions):
        """Does not know what it has."""

        def expects(self, session: Session, sequence: int) -> bool:
            """Also what it has taken in already."""
            attached = self._inputs.by_life.get(session.life)
            if sequence == 0 or attached is None or attached.session != session:
                return super().expects(session, sequence)
            return sequence <= attached.taken_in + 1


class SkipsGaps(Merger):
    """Takes a later frame though one before it was lost."""

    class SESSIONS(InputSessions):
        """Does not know what it lacks."""

        def expects(self, session: Session, sequence: int) -> bool:
            """Whatever is new."""
            attached = self._inputs.by_life.get(session.life)
            if sequence == 0 or attached is None or attached.session != session:
                return super().expects(session, sequence)
            return sequence > attached.taken_in


class FencesNobody(Merger):
    """Hears that a later life has a slot, and keeps listening to earlier ones."""

    def _on_fence(self, event: Fence) -> list[MergerEffect]:  # it does not look at that
        self._heeds(event.term)
        return []


class LetsTheFencedIn(Merger):
    """Lets a life go that is fenced, and in again."""

    class SESSIONS(InputSessions):
        """Forgives."""

        def is_fenced(self, life: Life) -> bool:  # noqa: ARG002  # it does not look at that
            """Nobody is."""
            return False


class DoesNotBackfill(Merger):
    """Asks its peer's journal, and throws the answer away."""

    def _on_peer_read(self, event: PeerRead) -> list[MergerEffect]:  # noqa: ARG002  # it does not look at that
        return []
