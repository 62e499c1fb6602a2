"""Alarms of one stream: what a person should know, raised by any thread.

a worker: the disk is nearly full --> the log, at once
--> the stream, on its loop, once it lives
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

_log = logging.getLogger("gapless.sidecar")


class Alarms:
    """The alarms of one life of a stream."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._tell: Callable[[str], object] | None = None

    def begin(self, hear: Callable[[str], object]) -> None:
        """From now on `hear` is called with each alarm, on the event loop that calls this."""
        loop = asyncio.get_running_loop()
        self._tell = lambda what: loop.call_soon_threadsafe(hear, what)

    def say(self, what: str) -> None:
        """Raises an alarm, from any thread."""
        _log.warning("stream %s: %s", self._stream, what)
        if self._tell is not None:
            self._tell(what)
