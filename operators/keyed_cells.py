"""Sub-aggregates by pane, beside the values of their groups: no table says where a group's are.

    panes    5         6                sizes    2         1
    keys     A    B    A                a pane is one run, in which a group is once
    count    2    9    4

A table of groups takes several times the bytes of a count. Cells that are read as a whole need
none: what puts them together gives their groups ids for as long as that takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.protocol.columns import concat_batches, take_rows
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

KEPT_MAX = 2
"""Cells that are left over from others hold at most so many times their memory."""


class KeyedCells(NamedTuple):
    """Cells as columns; they do not change."""

    panes: Times
    """Each once."""
    sizes: Ids
    """How many cells each has."""
    keys: pa.RecordBatch
    """The values of groups; no column where there is but one group."""
    partials: list[pa.RecordBatch]
    """One batch a state."""
    held: int
    """So many cells have their memory here: at least as many as there are."""

    @staticmethod
    def of(places: Times, keys: pa.RecordBatch, partials: list[pa.RecordBatch]) -> KeyedCells:
        """`places`: of each cell its pane, those of one side by side."""
        starts = (np.diff(places, prepend=places[:1] - 1) != 0).nonzero()[0]
        sizes = np.diff(starts, append=len(places))
        return KeyedCells(places[starts], sizes, keys, partials, len(places))

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.sizes.sum())

    @property
    def places(self) -> Times:
        """The pane of each cell."""
        return self.panes.repeat(self.sizes)

    @property
    def cell_bytes(self) -> float:
        """Bytes of a cell; there are some."""
        return self._bytes / self.number

    @property
    def _bytes(self) -> int:
        return int(self.keys.nbytes) + sum(int(partial.nbytes) for partial in self.partials)

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        cells = self._bytes * self.held // self.number if self.held else 0
        return self.panes.nbytes + self.sizes.nbytes + cells

    def of_panes(self, wanted: Mask) -> KeyedCells:
        """Those of some panes."""
        if wanted.all():
            return self
        sizes = self.sizes[wanted]
        n, here = int(sizes.sum()), wanted.nonzero()[0]
        if KEPT_MAX * n >= self.held and int(here[-1]) - int(here[0]) + 1 == len(here):
            start = int(self.sizes[: here[0]].sum())
            keys, partials = self.keys.slice(start, n), [p.slice(start, n) for p in self.partials]
            return KeyedCells(self.panes[wanted], sizes, keys, partials, self.held)
        at = wanted.repeat(self.sizes).nonzero()[0]
        return KeyedCells(self.panes[wanted], sizes, *self._at(at), n)

    def _at(self, at: Ids) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
        keys = take_rows(self.keys, at) if self.keys.num_columns else self.keys
        return keys, [take_rows(partial, at) for partial in self.partials]

    def joined(self, more: KeyedCells) -> KeyedCells:
        """With those of other panes."""
        both = zip(self.partials, more.partials, strict=True)
        return KeyedCells(
            np.concatenate((self.panes, more.panes)),
            np.concatenate((self.sizes, more.sizes)),
            concat_batches([self.keys, more.keys]) if self.keys.num_columns else self.keys,
            [pa.concat_batches(batches) for batches in both],
            self.number + more.number,
        )

    def ordered(self) -> KeyedCells:
        """In the order of their panes."""
        order = np.argsort(self.panes)
        at = np.argsort(self.places, kind="stable")
        return KeyedCells(self.panes[order], self.sizes[order], *self._at(at), len(at))

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if len(np.unique(self.panes)) < len(self.panes):
            raise Bug("a pane has its cells in two places")
        batches: Sequence[pa.RecordBatch] = self.partials
        if self.keys.num_columns:
            batches = [self.keys, *batches]
        if any(batch.num_rows != self.number for batch in batches) or self.held < self.number:
            raise Bug("cells have columns of different lengths")
