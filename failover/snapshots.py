"""Snapshots: what a replica gives of itself, to a joining peer and to the disk.

    SnapshotRequest --> SnapshotReply(checkpoint, or why not)
    TakeCheckpoint  --> WriteCheckpoint --> CheckpointWritten --> CheckpointTaken, to the supervisor

A name is written once, however often it is asked for: what a checkpoint is called says what is in
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gapless.failover.checkpoint import Checkpoint
from gapless.failover.effects import CheckpointWritten, Effect, Send, WriteCheckpoint
from gapless.failover.messages import (
    SUPERVISOR,
    CheckpointTaken,
    Life,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)


class Snapshots:
    """Gives away what `take` makes: all that a replica is at this moment, or why it cannot say."""

    def __init__(self, life: Life, plan: str, take: Callable[[], Checkpoint | str]) -> None:
        self._life = life
        self._plan = plan
        self._take = take
        self._writing: dict[str, CheckpointTaken] = {}
        self._written: CheckpointTaken | None = None  # the last

    def on_request(self, event: SnapshotRequest) -> list[Effect]:
        """A peer asks; it gets an answer in any case, so that it need not wait."""
        taken: Checkpoint | str
        if event.plan == self._plan:
            taken = self._take()
        else:
            taken = f"it runs {self._plan}, not {event.plan}"
        if isinstance(taken, str):
            return [Send(str(event.life), SnapshotReply(self._life, None, taken))]
        return [Send(str(event.life), SnapshotReply(self._life, taken))]

    def on_order(self, order: TakeCheckpoint, since: int) -> list[Effect]:
        """The supervisor wants one on the disk."""
        name = order.name
        if name in self._writing:
            return []
        if self._written is not None and self._written.name == name:
            return [Send(SUPERVISOR, self._written)]  # it has asked twice, or has not heard
        checkpoint = self._take()
        if isinstance(checkpoint, str):
            failed = CheckpointTaken(self._life, name, self._plan, since, checkpoint)
            return [Send(SUPERVISOR, failed)]
        self._writing[name] = CheckpointTaken(self._life, name, self._plan, checkpoint.since)
        return [WriteCheckpoint(name, checkpoint)]

    def on_written(self, event: CheckpointWritten) -> list[Effect]:
        """It is there, or could not be written."""
        taken = self._writing.pop(event.name, None)
        if taken is None:
            return []
        self._written = replace(taken, reason=event.reason)
        return [Send(SUPERVISOR, self._written)]
