"""The output journals as they are at the end of a run, each read once for all checkers."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.chaos.checkers.world import World
from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN
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
    """All rows from there on, and the last stable; None where nothing was ever appended."""
    ends: tuple[int, ...]
    """The offsets at which stables are recorded, in order."""
    stables: tuple[int, ...]
    """The stable that holds from each of these offsets on: they never fall."""

    @property
    def end(self) -> int:
        """Behind the last row."""
        return self.first + (0 if self.frame is None else len(self.frame))

    def stable_at(self, offset: int) -> int:
        """The largest stable that is recorded at `offset` or before."""
        stable = BEGIN
        for end, after in zip(self.ends, self.stables, strict=True):
            if end > offset:
                break
            stable = after
        return stable


def read_journal(disk: Disk) -> Journal:
    """A journal from its first row on; raises as its reader does."""
    reader = Reader(disk)
    first = offset = reader.position[0]
    base = reader.read() if first else None
    frames: list[Frame] = []
    ends: list[int] = []
    stables: list[int] = []
    while (frame := reader.read()) is not None:
        offset += len(frame)
        frames.append(frame.with_stable(None))
        if frame.stable is not None:
            ends.append(offset)
            stables.append(frame.stable)
    whole = Frame.concat(frames).with_stable(stables[-1] if stables else None) if frames else None
    return Journal(first, base, whole, tuple(ends), tuple(stables))


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
