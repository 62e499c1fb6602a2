"""The pace: how many rows a replica reads at once, by how long its plan has taken for the last.

    plan takes 1 us for 16,384 rows      16,384      what a frame costs is nothing to so many
    100 us for each row                  500         and the pump turns every 50 ms

A pump that is inside its plan hears nothing: no ack that would spare it the rest, no request of a
peer for a snapshot; and nobody hears its heartbeat. So no push should take longer than from tick to
tick.
"""

from __future__ import annotations

from gapless.actors.pump import TICK_MS
from gapless.journal.reader import FRAME_ROWS

ROWS_MIN = 64
"""Below that a frame costs more than its rows do, and a plan so slow is slow however it is read."""

ROWS_FIRST = 2048
"""Before anything is known of the plan: three frames later it is as much as it may be."""


class Pace:
    """Of one replica."""

    def __init__(self) -> None:
        self.rows = ROWS_FIRST
        """To be read at once."""

    def took(self, rows: int, ms: float) -> None:
        """A frame of so many rows has taken so long."""
        if ms > TICK_MS and rows > ROWS_MIN:
            self.rows = max(ROWS_MIN, int(rows * TICK_MS / ms))
        elif ms < TICK_MS / 2:
            self.rows = min(FRAME_ROWS, 2 * self.rows)
