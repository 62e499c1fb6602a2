"""Adoption: what a new supervisor does with lives that an earlier one started.

    reported, of slot r0.2        slot r0.2 then
    r0.2/1.4                      current 1.4
    r0.2/1.9                      current 1.4, successor 1.9: it was replaced when the root died
    r0.2/1.2                      neither: it has to go once a later one qualifies

For a while (`adopt_ms`) it only listens; what is missing then is started. The order in which lives
report says nothing about them. Of two replicas in a slot the later is the successor, whichever
was first, unless it qualifies: then the earlier has to go. Of two mergers only the later counts:
the journal has fenced the other.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from gapless.failover.messages import Life
from gapless.failover.supervisor.slots import Role, Slot

SLOT_NAME = re.compile(r"([rm])(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]?)")
"""As `desired.slot` makes them, within the bounds of a job."""

Part = Literal["current", "successor", "before", "none", "wait"]
"""What a life becomes in its slot: the current one, its successor, the current one with what was
current as its successor, or nothing: at once, or once a later one qualifies.
"""


class Named(NamedTuple):
    """The parts of a slot's name."""

    role: Role
    shard: int
    number: int
    """In its shard."""


def named(slot: str) -> Named | None:
    """The parts of a slot's name; None where it is not one."""
    match = SLOT_NAME.fullmatch(slot)
    if match is None:
        return None
    return Named("r" if match[1] == "r" else "m", int(match[2]), int(match[3]))


def part(slot: Slot, life: Life, term: int, qualifies: bool) -> Part:
    """What a life of a term before `term` becomes.

    `qualifies`: whether the slot's current life does.
    """
    current = slot.current
    if slot.fence is not None and life < slot.fence:
        return "none"
    if current is None:
        return "current" if slot.successor is None else "wait"
    if slot.role == "m":
        return "successor" if life > current.life else "none"
    if life > current.life and slot.successor is None:
        return "successor"
    if qualifies:
        return "none"
    if slot.successor is None and current.life.incarnation.term < term:
        return "before"
    return "wait"
