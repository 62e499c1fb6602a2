"""Pairs of rows that a change concerns, and the rows that come out of it.

    changed    [2, 9) becomes [2, 6)          pair   vs 4   was 9   ve 6      adj(.., 4, 9, 6)
    stored     [4, 20)

A pair starts where the later of its rows does and ends where the earlier one ends, before the
change and after it. An end equal to the start: the pair was not there, or is no longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gapless.kernels.keys import Ids, Mask
from gapless.kernels.live_rows import Met
from gapless.operators.join_changes import Changes
from gapless.operators.join_columns import Columns
from gapless.operators.join_nulls import Revised
from gapless.operators.memory import Memory
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.row_bytes import cuts
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema


class Pairs(NamedTuple):
    """Changed events, each with a stored one of the other side."""

    asked: Ids
    """Which change."""
    id: Ids
    """Which stored event."""
    vs: Times
    was: Times
    ve: Times

    @staticmethod
    def of(changes: Changes, met: Met) -> Pairs:
        """The pairs of changes with those whom they meet, before or after."""
        vs = np.maximum(changes.vs[met.asked], met.vs)
        ve = np.minimum(changes.ve[met.asked], met.ve)
        was = vs
        if changes.old:
            ve = np.maximum(ve, vs)
            was = np.maximum(np.minimum(changes.was[met.asked], met.ve), vs)
        return Pairs(met.asked, met.id, vs, was, ve)

    def pick(self, mask: Mask) -> Pairs:
        """Those that a mask picks."""
        if mask.all():
            return self
        rows = mask.nonzero()[0]
        return Pairs(*(column[rows] for column in self))

    def part(self, part: slice) -> Pairs:
        """Those that stand there."""
        return Pairs(*(column[part] for column in self))

    def changing(self) -> Pairs:
        """Those that are not as they were."""
        return self.pick(self.was != self.ve)


class JoinRows:
    """Output rows of one push, handed out in frames of some rows."""

    def __init__(self, schema: StreamSchema, memory: Memory) -> None:
        self._schema = schema
        self._memory = memory
        self._parts: list[tuple[Times, Times, Columns, Times | None]] = []
        self._rows = 0
        self._bytes = 0

    def cuts(self, row_bytes: Ids) -> Iterator[slice]:
        """Which of rows that take so many bytes each are to be added one after the other, each time
        `memory` has been asked; a frame is to be taken wherever `is_full`.
        """
        for part in cuts(row_bytes, ANSWER_ROWS_MAX // 2, self._memory.part_bytes // 2):
            size = int(row_bytes[part].sum())
            self._memory.ask(size, "rows of a join")
            self._bytes += size
            yield part

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a frame."""
        return 2 * self._rows >= ANSWER_ROWS_MAX or 2 * self._bytes >= self._memory.part_bytes

    def add(self, vs: Times, was: Times | None, ve: Times, columns: Columns) -> None:
        """Rows that were not there, where `was` is None or equal to `vs`, and rows that change."""
        if was is not None:
            was = np.where(was == vs, BEGIN, was)
        self._parts.append((vs, ve, columns, was))
        self._rows += len(vs)

    def revise(self, lost: Revised, columns: Columns) -> None:
        """Null rows and how they change."""
        self.add(lost.vs, lost.was, lost.ve, columns)

    def frame(self, stable: int | None = None) -> Frame:
        """All that has been added since the last one, then the stable."""
        parts, self._parts = self._parts, []
        self._rows = self._bytes = 0
        if not parts:
            return Frame.empty(self._schema, stable)
        if len(parts) == 1:
            return Frame.made(self._schema, *parts[0], stable)
        frames = [Frame.made(self._schema, *part) for part in parts]
        return Frame.concat(frames).with_stable(stable)
