"""Interpreters of a replica's effects that break one rule each: of drains, skips, checkpoints."""

from __future__ import annotations

from dataclasses import replace

from gapless.failover.io.replica_io import ReplicaIO
from gapless.failover.replica.effects import CheckpointWritten, Position, WriteCheckpoint


class CutsADrainOneRowOff(ReplicaIO):
    """Takes the last row that was there for one that came after the drain."""

    def _end(self, source: str) -> Position:
        return {p: max(0, row - 1) for p, row in super()._end(source).items()}


class GivesWhatIsSkipped(ReplicaIO):
    """Keeps what it has read ahead, though nobody needs any row of it any more."""

    def _drop_ahead(self, source: str) -> None:
        """Does not look at it."""


class TakesAFailedCheckpointForWritten(ReplicaIO):
    """Says of a checkpoint which the disk has refused that it is there."""

    def _write(self, effect: WriteCheckpoint) -> CheckpointWritten:
        return replace(super()._write(effect), reason="")
