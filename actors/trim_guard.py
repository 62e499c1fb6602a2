"""What a replica, and its checkpoints, keep from being trimmed in the sources (reader_registry.py).

    opened                 where it begins
    a round, REGISTER_MS   where it was a round before, as one that joins was given what is that old
                           at most; where it began, while there is no checkpoint of its shard and
                           plan: a new replica would replay all that it has read
    a checkpoint           its positions, from before it is written until it is dropped

All of this is done by the thread that writes checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gapless.actors import reader_registry
from gapless.actors.reader_registry import ReaderRegistry
from gapless.actors.setup import JobDir
from gapless.failover.life_start import ReplicaStart
from gapless.failover.replica.effects import Position


class ReplicaTrimGuard:
    """Of one life of a replica."""

    def __init__(
        self, job_dir: JobDir, slot: str, start: ReplicaStart, on_alarm: Callable[[str], None]
    ) -> None:
        self._disk = job_dir.disk
        self._slot = slot
        self._start = start
        self._on_alarm = on_alarm
        self._registry = ReaderRegistry.of(job_dir, on_alarm)
        self._began_at: Mapping[str, Position] = {}
        self._was_at: Mapping[str, Position] = {}  # a round ago

    def opened(self, positions: Mapping[str, Position]) -> None:
        """The sources are open, and are read from here on."""
        self._began_at = self._was_at = positions
        self._keep(positions)

    def goes_on(self, taken: Mapping[str, Position]) -> None:
        """A round is over, in which all before these positions was taken in."""
        was_at, self._was_at = self._was_at, taken
        self._keep(was_at)

    def _keep(self, at: Mapping[str, Position]) -> None:
        try:
            is_safe = reader_registry.has_checkpoint(
                self._disk, self._start.shard, self._start.plan
            )
        except OSError as e:
            self._on_alarm(f"the job's directory does not say which checkpoints there are: {e}")
            return
        self._registry.keep(self._slot, at if is_safe else self._began_at)

    def keep(self, name: str, positions: Mapping[str, Position]) -> None:
        """Keeps what a replica would read that begins with this checkpoint."""
        self._registry.keep(reader_registry.of_checkpoint(name), positions)

    def drop(self, name: str) -> None:
        """Keeps nothing for this checkpoint any more."""
        self._registry.drop(reader_registry.of_checkpoint(name))
