"""What the operators of one graph may hold, and whom they ask before they take it.

    memory_limit 100 MB    all steps hold 80 MB
    memory.ask(12 MB, "pairs of rows")             goes on
    memory.ask(30 MB, "answers of windows")        MemoryLimit, and nothing was laid out

A limit that is looked at behind a push comes too late: what was laid out was there. So who lays out
what may be large asks first, and makes its parts as small as there is room for; for each frame that
it hands to an operator the graph asks. What is asked for is free again when a part is with the
graph; what stays is counted in what steps hold, which the graph looks at behind each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gapless.protocol.elements import INF
from gapless.protocol.errors import MemoryLimit, Misuse

PART_BYTES_MAX = 8 << 20
"""Bytes of one part of an output: wide rows make parts of fewer rows."""
ROOM_SHARE = 8
"""Of the room that is left one part, or what is laid out for it, takes this fraction at the most:
what one step lays out, its followers lay out again."""


class Holder(Protocol):
    """What has bytes: an operator."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""


class Memory:
    """What is held by some holders, each with its name, and how much it may be."""

    def __init__(
        self, limit: int | None = None, holders: Sequence[tuple[str, Holder]] = ()
    ) -> None:
        """`limit` None: any amount, and nobody looks."""
        if limit is not None and (type(limit) is not int or limit < 1):
            raise Misuse(f"memory_limit {limit!r}: it is a number of bytes, 1 or more")
        self.limit = limit
        self._holders = holders
        self._held = [0] * len(holders)

    def look(self) -> None:
        """Looks at what is held. Raises `MemoryLimit` where that is too much."""
        if self.limit is not None:
            self._held = [holder.nbytes for _, holder in self._holders]
            self.ask(0, "")

    def ask(self, more: int, what: str) -> None:
        """Raises `MemoryLimit` unless there is room for so many bytes more."""
        if more > self.room:
            raise self._refusal(more, what)

    @property
    def room(self) -> int:
        """Bytes that may yet be taken."""
        return INF if self.limit is None else self.limit - sum(self._held)

    def rows(self, row_bytes: float, most: int) -> int:
        """How many rows of so many bytes are laid out at once: `most`, fewer where they are wide or
        there is little room, one at least.
        """
        return max(1, min(most, int(self.part_bytes / max(row_bytes, 1.0))))

    @property
    def part_bytes(self) -> int:
        """How many bytes are laid out at once, if it is more than a row."""
        return min(PART_BYTES_MAX, self.room // ROOM_SHARE)

    def _refusal(self, more: int, what: str) -> MemoryLimit:
        held = self._held
        says = f"the query holds {sum(held):,} bytes"
        if more:
            says += f" and needs {int(more):,} more for {what}"
        says += f", its memory_limit is {self.limit:,}"
        if any(held):
            most = max(range(len(held)), key=held.__getitem__)
            says += f"; most of what it holds, {held[most]:,}, is in {self._holders[most][0]}"
        return MemoryLimit(
            f"{says}: give it more, or bound its state (a shorter window, fewer groups, a source "
            "that promises more)"
        )


UNBOUNDED = Memory()
"""Where nobody has set a limit."""
