"""Waiting for a condition, without sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WAIT_S = 20.0
LOOK_S = 0.01


def eventually(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < until, what
        threading.Event().wait(LOOK_S)
