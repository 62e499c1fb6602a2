"""Where in a journal a record belongs: two bytes of its envelope.

bit 15  more             records follow that were appended with it, and count only with it
bit 14  follows unsafe   a record before it was not safe yet when it was appended
0..13   partition
"""

from __future__ import annotations

from typing import NamedTuple

from gapless.protocol.errors import Misuse

MORE, FOLLOWS_UNSAFE = 1 << 15, 1 << 14


class Place(NamedTuple):
    """Where in a journal a record belongs."""

    partition: int = 0
    more: bool = False
    """Whether more records follow that were appended with it, and count only with it."""
    follows_unsafe: bool = False
    """Whether a record before it in its file may not have been safe yet when it was appended, so
    that a crash may take that one and leave this one. Only where appends are synced.
    """

    def bits(self) -> int:
        """As it stands in an envelope. Raises `Misuse` where the partition does not fit."""
        if not 0 <= self.partition < FOLLOWS_UNSAFE:
            raise Misuse(f"partition {self.partition}: not one of 0 to {FOLLOWS_UNSAFE - 1}")
        more = MORE if self.more else 0
        return self.partition | more | (FOLLOWS_UNSAFE if self.follows_unsafe else 0)


def place_of(bits: int) -> Place:
    """The place that stands in an envelope."""
    return Place(bits & (FOLLOWS_UNSAFE - 1), bool(bits & MORE), bool(bits & FOLLOWS_UNSAFE))


NO_PLACE = Place()
"""Of an envelope that is in no journal, and of one that is the whole of a batch."""
