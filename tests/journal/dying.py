"""A disk whose user dies: at the k-th thing that changes something, before it or in its middle.

What the dead had written stays. With `loses` the machine dies as well: of what was not synced only
a prefix is left, as chance has it.
"""

from __future__ import annotations

import random
from typing import Any

from gapless.chaos.sim.disk import SimulatedDisk


class Died(BaseException):
    """Nothing of ours catches it."""


class DyingDisk(SimulatedDisk):
    """Counts what is changed; dies at `at`, where that is reached."""

    def __init__(self, at: int, *, halfway: bool = False) -> None:
        super().__init__()
        self.at = at
        self.changes = 0
        self._halfway = halfway

    def revived(self) -> DyingDisk:
        """The same files, for somebody who does not die."""
        self.at = -1
        return self

    def crash_machine(self, rng: random.Random) -> None:
        """Of each file some prefix survives that has at least what was synced."""
        for name in list(self._files):
            self.crash(name, rng)

    def _change(self, name: str, data: bytes | None = None, *, puts: bool = False) -> None:
        self.changes += 1
        if self.changes != self.at:
            return
        if data is not None and self._halfway:
            half = data[: len(data) // 2]
            if puts:
                super().put(name, half)
            else:
                super().append(name, half)
        raise Died

    def create(self, name: str, data: bytes) -> None:
        if not self.exists(name):
            self._change(name, data)
        super().create(name, data)

    def append(self, name: str, data: bytes) -> int:
        self._change(name, data)
        return super().append(name, data)

    def put(self, name: str, data: bytes) -> None:
        self._change(name, data, puts=True)
        super().put(name, data)

    def sync(self, name: str) -> None:
        self._change(name)
        super().sync(name)

    def truncate(self, name: str, size: int) -> None:
        self._change(name)
        super().truncate(name, size)

    def link(self, source: str, name: str) -> None:
        self._change(name)
        super().link(source, name)

    def unlink(self, name: str) -> None:
        self._change(name)
        super().unlink(name)

    def __repr__(self) -> str:
        return "a disk"

    def close(self, *_: Any) -> None:
        """Nothing is kept open."""
