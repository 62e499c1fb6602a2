"""What becomes of a batch that a writer appends, and what it survives."""

from __future__ import annotations

from typing import Literal, NamedTuple

Durability = Literal["process", "machine"]
"""What an appended batch survives: the end of its writer, or that of the machine."""


class Written(NamedTuple):
    """What has become of one batch."""

    batch: int
    """Its number: how many were appended before it."""
    rows: int
    """Those that are in the journal."""
    rejected: int
    """Those that are not: late, or no rows of this journal."""
    stable: int
    late: int = 0
    """Those of the rejected that came too late."""
