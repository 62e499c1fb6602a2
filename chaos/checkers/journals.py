"""The output journals as they are at the end of a run, each read once for all checkers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.chaos.checkers.world import World
from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.protocol.frame import Frame


@dataclass(frozen=True, slots=True)
class Journal:
    """All of one journal that is still there."""

    first: int
    """The offset of the first row; what came before has been trimmed, and the base stands for it.
    """
    base: Frame | None
    """What was live there, where something has been trimmed."""
    frame: Frame | None
    """All rows from there on; None where nothing was appended."""
    stable: int
    """The last one."""

    @property
    def end(self) -> int:
        """Behind the last row."""
        return self.first + (0 if self.frame is None else len(self.frame))

    def promises(self) -> list[int]:
        """For each offset from `first` to `end` the largest stable that may be promised there: none
        of the rows behind it breaks that. Sealed segments do not tell every stable again.
        """
        if self.frame is None:
            return [self.stable]
        frame = self.frame
        floors = np.where(frame.is_insert, frame.vs, np.minimum(frame.was, frame.ve))
        floors = np.append(floors, self.stable)[::-1]
        kept: list[int] = np.minimum.accumulate(floors)[::-1].tolist()
        return kept


def read_journal(disk: Disk) -> Journal:
    """A journal from its first row on; raises as its reader does."""
    reader = Reader(disk)
    first = reader.position[0]
    base = reader.read() if first else None
    frames: list[Frame] = []
    while (frame := reader.read()) is not None:
        frames.append(frame.with_stable(None))
    return Journal(first, base, Frame.concat(frames) if frames else None, reader.stable)


class Journals:
    """The journals of a run, by merger's slot."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, Journal]] = {}

    def of(self, world: World, slot: str) -> Journal:
        """That of one slot, as it is now."""
        found = self._read.get(slot)
        if found is None or found[0] != world.now:
            found = self._read[slot] = world.now, read_journal(world.outputs[slot])
        return found[1]
