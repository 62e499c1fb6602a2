"""Hands: one thread that does what would keep a pump waiting, in the order in which it was asked.

A pump has several where kinds of work must not wait for each other: a merger's reads for
subscribers do not wait for its disk to sync. The askers bound what is asked for: the machines
have one append, one seal, one read of a kind under way at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Hands:
    """Does one thing after the other. What fails unexpectedly is told to `broken`, and is the last
    that is done: nobody would wait for an answer that never comes.
    """

    def __init__(self, name: str, broken: Callable[[Exception], None]) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._broken = broken
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """Has something done, from any thread."""
        self._work.put(work)

    def end(self) -> None:
        """Nothing more is done, once what was asked for is."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception as e:  # noqa: BLE001  # told to the owner of these hands
                self._broken(e)
                return
