"""The address book of a job: which process is which life, so that messages find them.

    version (3, 7)      r0.1/1.4 -> an actor       a message to "r0.1/1.4" goes to that life,
                        r0.1/3.2 -> another        one to "r0.1" to the newest: 3.2

The root writes it, and sends a new version to everybody whenever a life begins or ends; it travels
with handles, so that no message needs a look-up in the cluster's own directory, which may be away.
Of two versions the later term's counts, then the higher number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.failover.messages import Life


@dataclass(frozen=True)
class Entry:
    """One process."""

    handle: Any
    """Of its actor."""
    node: str
    """Where it runs; empty where nobody knows."""


@dataclass(frozen=True)
class Book:
    """One version of it."""

    version: tuple[int, int] = (0, 0)
    """Term of the root that wrote it, and which of its versions."""
    lives: Mapping[Life, Entry] = field(default_factory=dict)

    def newest(self, slot: str) -> tuple[Life, Entry] | None:
        """The last life of a slot."""
        lives = [life for life in self.lives if life.slot == slot]
        return (max(lives), self.lives[max(lives)]) if lives else None

    def find(self, to: str) -> tuple[Life, Entry] | None:
        """The process that a message to a slot or a life goes to; None where there is none."""
        life = Life.parse(to)
        if life is None:
            return self.newest(to)
        entry = self.lives.get(life)
        return None if entry is None else (life, entry)
