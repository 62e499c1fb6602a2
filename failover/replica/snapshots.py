"""Snapshots: what a replica gives of itself, to a joining peer and to the disk.

    SnapshotRequest --> SnapshotReply(checkpoint, or why not)
    TakeCheckpoint  --> WriteCheckpoint --> CheckpointWritten --> CheckpointTaken, to the supervisor

A large one is made beside the pump, by `Work`: first the plan's state, and until that is there the
plan is left alone, so nothing is read; then the tail is folded, of frames that never change. A peer
that asks meanwhile gets the next one; an order is not heard, for it comes again. A
peer that asked for one that is too large for a message is told every heartbeat that it is coming,
and gets it by the disk:

    SnapshotRequest --> Work --> Done --> WriteCheckpoint --> CheckpointWritten
                    --> SnapshotReply(stored=name)            the peer loads it, and drops the file

A name is written once, however often it is asked for: what a checkpoint is called says what is in
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless.failover.effects import Send
from gapless.failover.messages import (
    SUPERVISOR,
    Life,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import (
    CheckpointWritten,
    DropCheckpoint,
    ReplicaEffect,
    WriteCheckpoint,
)
from gapless.failover.statuses import CheckpointTaken

if TYPE_CHECKING:
    from gapless.failover.replica.draft import DraftMaker

MESSAGE_BYTES_MAX = 8 << 20
"""Of a snapshot that travels as a message. A larger one goes by the disk that replicas share."""
GIVEN = "given-"
"""How the name of a snapshot begins that goes by the disk: no supervisor gives such a name."""
ASKED_MAX = 64
"""Peers and orders that wait for a snapshot at once: far more than a shard has replicas. One that
asks beyond that is not answered, and goes on to its next origin."""

Taker = SnapshotRequest | TakeCheckpoint


class Snapshots:
    """Gives away checkpoints of its drafts, or says why it cannot."""

    def __init__(
        self,
        life: Life,
        plan: str,
        drafts: DraftMaker,
        go_on: Callable[[int], list[ReplicaEffect]],
    ) -> None:
        """`go_on` is called as soon as the plan need not be left alone any more."""
        self._life = life
        self._plan = plan
        self._drafts = drafts
        self._read_on = go_on
        self._asked: list[Taker] = []  # they get the next one
        self._making: list[Taker] = []  # they get the one that is being made
        self._has_state = False  # that one
        self._writing: dict[str, CheckpointTaken | Life] = {}
        self._written: CheckpointTaken | None = None  # the last
        self._given = 0  # by the disk
        self._given_name = ""  # the last of them

    @property
    def holds_plan(self) -> bool:
        """Whether the plan's state is being taken: until it is there the plan is not touched."""
        return bool(self._making) and not self._has_state

    def has_state(self) -> None:
        """The state is there; the rest is made without the plan."""
        self._has_state = True

    def _is_free(self, now: int) -> list[ReplicaEffect]:
        self.has_state()
        return self._read_on(now)

    def on_request(self, event: SnapshotRequest) -> list[ReplicaEffect]:
        """A peer asks; it gets an answer in any case, so that it need not wait."""
        if event.plan != self._plan:
            return [self._refusal(event, f"it runs {self._plan}, not {event.plan}")]
        return self._ask(event)

    @property
    def _is_taking(self) -> bool:
        """Whether a checkpoint is being made or written. Another order is not heard then: it comes
        again, and orders that come faster than checkpoints are made would leave no time to read.
        """
        waits = (*self._making, *self._asked, *self._writing.values())
        return any(isinstance(each, TakeCheckpoint | CheckpointTaken) for each in waits)

    def on_order(self, order: TakeCheckpoint, since: int) -> list[ReplicaEffect]:
        """The supervisor wants one on the disk."""
        name = order.name
        if self._is_taking:
            return []
        if self._written is not None and self._written.name == name:
            return [Send(SUPERVISOR, self._written)]  # it has asked twice, or has not heard
        return self._ask(order, since)

    def _ask(self, taker: Taker, since: int = 0) -> list[ReplicaEffect]:
        if len(self._asked) >= ASKED_MAX:
            return []
        self._asked.append(taker)
        return self._go_on(since) if not self._making else self._coming([taker])

    def _go_on(self, since: int = 0) -> list[ReplicaEffect]:
        """Takes one for all that have asked."""
        if not self._asked:
            return []
        self._making, self._asked = self._asked, []
        self._has_state = False
        draft = self._drafts.take()
        if isinstance(draft, str):
            refused, self._making = self._making, []
            return [self._refusal(taker, draft, since) for taker in refused]
        makes = self._drafts.finish(draft, self.made, self._is_free)
        return makes + self._coming(self._making)

    def made(self, checkpoint: Checkpoint) -> list[ReplicaEffect]:
        """It is there."""
        takers, self._making = self._making, []
        effects: list[ReplicaEffect] = []
        for taker in takers:
            if isinstance(taker, TakeCheckpoint):
                self._writing[taker.name] = CheckpointTaken(
                    self._life,
                    taker.name,
                    self._plan,
                    checkpoint.since,
                    nbytes=checkpoint.nbytes,
                )
                effects.append(WriteCheckpoint(taker.name, checkpoint))
            elif checkpoint.nbytes <= MESSAGE_BYTES_MAX:
                effects.append(Send(str(taker.life), SnapshotReply(self._life, checkpoint)))
            else:
                effects += self._give_by_disk(taker.life, checkpoint)
        return effects + self._go_on()

    def _give_by_disk(self, to: Life, checkpoint: Checkpoint) -> list[ReplicaEffect]:
        """Under a name that no supervisor gives; the one before is not needed any more, or the
        replica that reads it has it open.
        """
        self._given += 1
        slot, incarnation = self._life
        name = f"{GIVEN}{slot}-{incarnation.term}-{incarnation.counter}-{self._given}"
        self._writing[name] = to
        before, self._given_name = self._given_name, name
        drops: list[ReplicaEffect] = [DropCheckpoint(before)] if before else []
        return [*drops, WriteCheckpoint(name, checkpoint)]

    def on_written(self, event: CheckpointWritten) -> list[ReplicaEffect]:
        """It is there, or could not be written."""
        taken = self._writing.pop(event.name, None)
        if taken is None:
            return []
        if isinstance(taken, Life):
            stored = "" if event.reason else event.name
            return [Send(str(taken), SnapshotReply(self._life, None, event.reason, stored))]
        self._written = replace(taken, reason=event.reason)
        return [Send(SUPERVISOR, self._written)]

    def tick(self) -> list[ReplicaEffect]:
        """Tells peers that what they have asked for is being made. Comes with every heartbeat."""
        if not self._making and not self._writing:
            return []
        peers = [to for to in self._writing.values() if isinstance(to, Life)]
        coming = SnapshotReply(self._life, None, is_coming=True)
        told: list[ReplicaEffect] = [Send(str(to), coming) for to in peers]
        return told + self._coming([*self._making, *self._asked])

    def _coming(self, takers: list[Taker]) -> list[ReplicaEffect]:
        coming = SnapshotReply(self._life, None, is_coming=True)
        return [Send(str(t.life), coming) for t in takers if isinstance(t, SnapshotRequest)]

    def _refusal(self, taker: Taker, reason: str, since: int = 0) -> Send:
        if isinstance(taker, SnapshotRequest):
            return Send(str(taker.life), SnapshotReply(self._life, None, reason))
        failed = CheckpointTaken(self._life, taker.name, self._plan, since, reason)
        return Send(SUPERVISOR, failed)
