"""Cells that no row can join any more, and the windows that close with them: what a stable gives.

    stable      rows of A at 3 5 7, of B at 4        slide 2 rows, panes of 2
    cells       (A, pane 0): 2 rows   (A, pane 1): 1 row   (B, pane 0): 1 row
    closings    of A, with its second row: at 5, panes below 1

Two keepers of rows that are not final yet give them: `ranks.py`, where windows cover ranks, and
`ticks.py`, where they cover times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.row_windows import Closings
from gapless.operators.state import State
from gapless.protocol.frame import Times


class FinalCells(NamedTuple):
    """Cells by group and then place, no two of one group and place."""

    groups: Ids
    places: Ids
    partials: list[pa.RecordBatch]
    """Sub-aggregates, a batch a state."""
    closings: Closings
    below: int
    """All rows before this time are in these cells or earlier ones."""


class NotFinal(ABC):
    """Rows that may yet be joined by others."""

    @abstractmethod
    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Takes rows in."""

    @abstractmethod
    def take(self, below: int) -> Iterator[FinalCells]:
        """Takes out what is before this time, in parts, to be read to their end; no window ends in
        two of them.
        """

    @abstractmethod
    def has(self, groups: Ids) -> Mask:
        """Which groups have a cell here."""

    @abstractmethod
    def snapshot(self) -> State:
        """All of it."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Takes a snapshot back, first of all."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of it."""

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def parts_of(times: Times, rows_max: int) -> Iterator[slice]:
    """Rows in order of time, in slices of about so many; no time is in two of them."""
    start = 0
    while start < len(times):
        end = start + rows_max
        end = len(times) if end >= len(times) else int(np.searchsorted(times, times[end]))
        if end <= start:  # more rows of one time
            end = int(np.searchsorted(times, times[start], "right"))
        yield slice(start, end)
        start = end
