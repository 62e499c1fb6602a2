"""Backfill: a merger that no replica can lead on reads what it lacks from its peer's journal.

    this output     =========| stable 40
    replicas                            |-- joined at 70 -->     none may act before 70
    peer's journal  =====================================>       holds everything
                             |---------------------------|       ... until a replica may lead

It happens to a merger that was away for so long that the replicas did not wait for it. The peer's
output describes the same table, so its journal is one input more. It is let go as soon as a replica
that speaks may act and is not behind.

    idle -- stuck --> patient -- over --> reading <--> resting      nothing new: again at a tick
     ^                   |                   | done       | done
     |'---- moved -------'                   v            |
     '---------------- answered --------- closing         |
     '----------------------------------------------------'
                                          reading -- bad content --> given up

A read that is under way is waited for before the journal is closed: what it brings would else be
the beginning of the next backfill, told twice.
"""

from __future__ import annotations

from typing import Literal

from gapless.failover.effects import Alarm
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.merger.effects import ClosePeer, MergerEffect, PeerRead, ReadPeer
from gapless.failover.merger.inputs import AttachedInputs
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame

BackfillState = Literal["idle", "patient", "reading", "resting", "closing", "given up"]
BACKFILL: Lifecycle[BackfillState] = Lifecycle(
    "a merger's backfill",
    {
        "idle": {"stuck": "patient"},
        "patient": {"moved": "idle", "over": "reading"},
        "reading": {
            "read": "reading",
            "nothing": "resting",
            "done": "closing",
            "bad content": "given up",
        },
        "resting": {"tick": "reading", "done": "idle"},
        "closing": {"answered": "idle"},
        "given up": {},
    },
)


class Backfill:
    """The backfill of one life of a merger."""

    def __init__(self, peer: str, merge: LMerge, inputs: AttachedInputs, patience_ms: int) -> None:
        """`peer` is the slot of the other merger, `inputs` are the replicas of this one."""
        self._peer = peer
        self._merge = merge
        self._inputs = inputs
        self._patience_ms = patience_ms
        self._began_at = 0  # since when it is stuck, or reads
        self._stable = BEGIN  # of the output, when it was found to be stuck
        self.state = BACKFILL.first
        self.number: int | None = None
        """Its input of the LMerge, while it reads."""

    def tick(self, now: int) -> list[MergerEffect]:
        """Looks whether it is needed, and whether it still is."""
        if self.state == "idle":
            if self.is_stuck():
                self._after("stuck")
                self._began_at, self._stable = now, self._merge.stable
        elif self.state == "patient":
            if not self.is_stuck() or self._merge.stable != self._stable:
                self._after("moved")
            elif now - self._began_at >= self._patience_ms:
                self._after("over")
                self._began_at = now
                return self._read_on()
        elif self.state in ("reading", "resting") and self._can_follow_replicas():
            return self._leave()
        elif self.state == "resting":
            self._after("tick")
            return self._read_on()
        return []

    def read(self, event: PeerRead, *, is_full: bool) -> tuple[Frame | None, list[MergerEffect]]:
        """Merges what the peer's journal gave; what the LMerge puts out, and what follows.

        `is_full`: no more for now.
        """
        if event.peer != self._peer or self.state not in ("reading", "closing"):
            return None, []
        if self.state == "closing":
            self._after("answered")
            return None, [ClosePeer(self._peer)]
        out = None
        if event.frame is not None:
            if self.number is None:
                self.number = self._merge.attach(event.join_at)
            out = self._merge.push(self.number, event.frame)
            if not out and self.number not in self._merge.inputs:
                return None, self._give_up(str(self._merge.detached[self.number]))
        reads_on = event.frame is not None and not is_full
        self._after("read" if reads_on else "nothing")
        return out, self._read_on() if reads_on else []

    def is_stuck(self) -> bool:
        """Whether nobody can lead the output on; or those that could are silent, and others that
        could not are ahead: it may be dead.
        """
        merge = self._merge
        if merge.stable == INF:
            return False
        if merge.waiting_for is not None:
            return True
        return any(
            merge.input_stable(attached.number) > merge.stable for attached in self._inputs.joining
        )

    def _can_follow_replicas(self) -> bool:
        """Whether a replica that has spoken since we began to read can lead the output on."""
        merge = self._merge
        return merge.stable == INF or any(
            attached.state == "qualified"
            and attached.heard_at >= self._began_at
            and merge.input_stable(attached.number) >= merge.stable
            for attached in self._inputs.by_life.values()
        )

    def _read_on(self) -> list[MergerEffect]:
        return [ReadPeer(self._peer, self._merge.stable)]

    def _leave(self) -> list[MergerEffect]:
        """The replicas go on alone."""
        self._after("done")
        if self.number is not None:
            self._merge.detach(self.number)
            self.number = None
        return [ClosePeer(self._peer)] if self.state == "idle" else []

    def _give_up(self, reason: str) -> list[MergerEffect]:
        """Nothing of that journal is used any more: it is no output of this job."""
        self._after("bad content")
        self.number = None
        return [Alarm(f"{self._peer} is not a peer of ours: {reason}"), ClosePeer(self._peer)]

    def _after(self, cause: str) -> None:
        self.state = BACKFILL.after(self.state, cause)
