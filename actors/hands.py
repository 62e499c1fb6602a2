"""Hands: a serial worker. Its one thread does, in order, the work that would keep a pump waiting.

    pump --do(append)--> |sync ... sync| --> post(Appended)         the pump goes on meanwhile
         --do(read)----> |read| -----------> post(OutputRead)       reads do not wait for a sync

A shell has several of them, one for each kind of work that must not wait for another kind. The
queues need no bound of their own: a machine has one append, one seal, and one read of each kind
under way at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Hands:
    """Does one thing after the other. An unexpected error is passed to `broken`, and is the last
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
