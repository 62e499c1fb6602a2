"""Rows of int64s that come in batches and go when they are settled: an append-only log in parts.

    log.add(a, b, c)         a part more: nothing is copied
    log.columns              the parts as one, joined when asked for
    log.keep(mask)           the rest goes

What is looked through as a whole now and then (at a watermark, when a change comes out of order)
needs no index, which would cost each row of an ordered changelog more than all else.
"""

from __future__ import annotations

import numpy as np

from gapless.kernels.keys import Ids, Mask


class Log:
    """Rows of so many columns."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: list[tuple[Ids, ...]] = []
        self._rows = 0

    def add(self, *columns: Ids) -> None:
        """Appends rows; the arrays are the log's from now on."""
        if len(columns[0]):
            self._parts.append(columns)
            self._rows += len(columns[0])

    @property
    def columns(self) -> tuple[Ids, ...]:
        """All rows, oldest part first."""
        if len(self._parts) != 1:
            empty = (np.zeros(0, np.int64),) * self._width
            joined = zip(*(self._parts or [empty]), strict=True)
            self._parts = [tuple(map(np.concatenate, joined))]
        return self._parts[0]

    def keep(self, mask: Mask) -> None:
        """Only the rows of the mask stay."""
        self._parts = [tuple(column[mask] for column in self.columns)]
        self._rows = len(self._parts[0][0])

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return sum(column.nbytes for part in self._parts for column in part)
