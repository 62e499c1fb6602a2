"""The output journals as they are at the end of a run, each once for all checkers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless.chaos.judge.history import Durable
from gapless.chaos.sim.checkers.world import World
from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN, INF
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
    """The journals of a run, by merger's slot: read from the disk, each at most once, or put
    together from the facts.

    Reading costs a run a third of what all checkers cost. So in most runs it is done only where the
    facts leave a gap: where a life found rows of which nobody had heard that they are durable. What
    readers see of the disk is in `Delivered` in any case, and what a new life sees in `Recovered`.
    """

    def __init__(self, *, read_all: bool = True) -> None:
        self._read_all = read_all
        self._heard: dict[str, list[Durable]] = {}
        self._known: dict[str, tuple[int, Journal]] = {}

    def hear(self, fact: Durable) -> None:
        """Somebody has made this durable."""
        self._heard.setdefault(fact.merger.slot, []).append(fact)

    def of(self, world: World, slot: str) -> Journal:
        """That of one slot, as it is now; raises as a reader does."""
        found = self._known.get(slot)
        if found is None or found[0] != world.now:
            journal = None if self._read_all else _put_together(self._heard.get(slot, []))
            found = self._known[slot] = world.now, journal or read_journal(world.outputs[slot])
        return found[1]


def _put_together(facts: Sequence[Durable]) -> Journal | None:
    """A journal of just these appends; None where they do not follow one another from the first
    row to the end of the stream.
    """
    end, stable = 0, BEGIN
    for fact in facts:
        if fact.after != end:
            return None
        end += len(fact.frame)
        stable = fact.frame.stable if fact.frame.stable is not None else stable
    if stable < INF:
        return None
    return Journal(0, None, Frame.concat([f.frame.with_stable(None) for f in facts]), stable)
