"""Ctrl-C and SIGTERM as a question to stop, for work that has to finish what it has begun."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any, Self

from gapless.io.journal_handles import Stop


class StopSignals(Stop):
    """A context in which Ctrl-C and SIGTERM only ask: a waiting call wakes up and may finish.

    The second time they end the program as they always do.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._before: dict[int, Any] = {}

    def is_set(self) -> bool:
        """Whether it was asked."""
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Waits so many seconds, or until it is asked."""
        return bool(select.select([self.wakes], [], [], timeout)[0])

    def __enter__(self) -> Self:
        self.wakes, self._ask = os.pipe()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._asked)
        return self

    def _asked(self, number: int, _: FrameType | None) -> None:
        signal.signal(number, self._before[number])
        self._is_set = True
        os.write(self._ask, b"!")

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self.wakes)
        os.close(self._ask)
