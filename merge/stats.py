"""What a merger reports about itself: who sends, who leads, what went out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.protocol.frame import Frame


@dataclass(frozen=True, slots=True)
class InputStats:
    """What one attached input has done so far."""

    elements: int
    dropped: int
    """Rows that said nothing new."""
    lag: int
    """The output's stable minus its own, in event time; 0 where it is not behind."""
    lead_share: float
    """Of the times that the output was frozen, the share for which it acted."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What a merger has done so far, and what it holds now."""

    inputs: dict[int, InputStats]
    inserts: int
    adjusts: int
    stables: int
    live_keys: int
    state_bytes: int


@dataclass(slots=True)
class OutputCounts:
    """What went out."""

    inserts: int = 0
    adjusts: int = 0
    stables: int = 0
    freezes: int = 0
    """Rounds of freezing; of several in one push only the last stable goes out."""

    def count(self, frames: list[Frame]) -> None:
        """Adds the rows of frames that go out."""
        for frame in frames:
            adjusts = 0 if frame.insert_only else int(np.count_nonzero(~frame.is_insert))
            self.inserts += len(frame) - adjusts
            self.adjusts += adjusts
