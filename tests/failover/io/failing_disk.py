"""A disk that raises at one of its calls, whatever is said: for tests of interpreters."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from gapless.chaos.sim.disk import View
from gapless.protocol.errors import DiskFull, Fenced, JournalError

CALLS_MAX = 200
"""Calls of a disk that an effect makes: none here comes near."""
ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: DiskFull("it is full"),
    lambda: Fenced("another life writes here"),
    lambda: JournalError("it is damaged"),
    lambda: OSError(errno.EIO, "it has failed"),
)


class Failing:
    """A disk that raises at one of its calls."""

    def __init__(self, disk: View) -> None:
        self._disk = disk
        self.left: int | None = None
        self.error: Callable[[], Exception] = ERRORS[0]

    def fail(self, at: int, error: Callable[[], Exception]) -> None:
        """At the call of that number, from 0, of those that follow."""
        self.left, self.error = at, error

    def __getattr__(self, name: str) -> Any:
        does = getattr(self._disk, name)
        if name in ("free_bytes", "is_sent"):
            return does

        def call(*args: Any) -> Any:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    self.left = None
                    raise self.error()
            return does(*args)

        return call
