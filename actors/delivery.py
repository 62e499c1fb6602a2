"""The delivery of frames to a program: what waits for it, and how it waits, as a thread or a task.

    pump --put--> handover --> next()         a thread: a condition
                           --> anext()        a task: a future of its loop
    handover      of failover/subscriber/handover.py

Both are woken, look, and take in one step on their own thread: nothing is taken on behalf of a call
that may be gone by then. A task that is cancelled leaves a future that nobody sets, and no thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import overload

from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.handover import Handover, Numbered
from gapless.protocol.frame import Frame


@dataclass(frozen=True, slots=True)
class LastEmit:
    """What the program was handed last, without its rows."""

    number: int
    emit: Emit | None
    """Of it the tokens, and what a reset replaces: rows that the program has are not kept."""


NOTHING = LastEmit(0, None)


class EmitQueue:
    """Emits on their way to the program. For any thread, but one that takes at a time."""

    def __init__(self, room: Callable[[], None]) -> None:
        """`room` is called, by the thread that takes, when there is room again."""
        self._room = room
        self._changed = threading.Condition()
        self._handover: Handover[Emit] = Handover()
        self._wakers: list[Callable[[], None]] = []
        self._is_full = False  # the pump has been answered that there is no room
        self.last = NOTHING

    # -- for the pump -------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether more should be asked for; a caller that was told no is told when there is room
        again.
        """
        with self._changed:
            self._is_full = not self._handover.has_room(self.last.number)
            return not self._is_full

    def put(self, emit: Emit) -> None:
        """One emit more."""
        with self._changed:
            self._handover.put(emit, emit.frame.nbytes)
            self._wake()

    def end(self, error: BaseException | None) -> None:
        """The end; what waits is still taken."""
        with self._changed:
            self._handover.end(error)
            self._wake()

    def close(self) -> None:
        """The end, which drops what waits."""
        with self._changed:
            self._handover.end()
            self._handover.drop()
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    # -- for the program ----------------------------------------------------------------------

    @overload
    def take(self, timeout_s: None = None) -> Emit: ...

    @overload
    def take(self, timeout_s: float | None) -> Emit | None: ...

    def take(self, timeout_s: float | None = None) -> Emit | None:
        """The next emit; None after so long without. Raises what it ends with, `StopIteration`
        where that is no error. Interrupted, whatever it was about to do, it has taken nothing.
        """
        before = mine = self.last
        try:
            with self._changed:
                while (found := self._head()) is None:
                    if self._handover.has_ended:
                        self._check()
                        raise StopIteration
                    if not self._changed.wait_for(self._is_ready, timeout_s):
                        return None
                mine = _handed(found)
                self.last = mine
                self._make_room()
            return found.what
        except BaseException:
            if self.last is mine:
                self.last = before
            raise

    async def take_async(self) -> Emit | None:
        """The same, awaited; None at the end."""
        loop = asyncio.get_running_loop()
        while True:
            woken: asyncio.Future[None] = loop.create_future()
            wake = _waker(loop, woken)
            with self._changed:
                found = self._head()
                if found is not None:
                    self.last = _handed(found)
                    self._make_room()
                    return found.what
                if self._handover.has_ended:
                    self._check()
                    return None
                self._wakers.append(wake)
            try:
                await woken
            finally:
                self._forget(wake)

    def _head(self) -> Numbered[Emit] | None:
        return self._handover.head(self.last.number)

    def _is_ready(self) -> bool:
        return self._head() is not None or self._handover.has_ended

    def _make_room(self) -> None:
        """Has more asked for, where nothing was because of what waited."""
        if self._is_full and self._handover.has_room(self.last.number):
            self._is_full = False
            self._room()

    def _check(self) -> None:
        error = self._handover.error
        if error is not None:
            raise error

    def _forget(self, waker: Callable[[], None]) -> None:
        with self._changed:
            if waker in self._wakers:
                self._wakers.remove(waker)

    @property
    def waiters(self) -> int:
        """Tasks that wait."""
        return len(self._wakers)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        with self._changed:
            self._handover.validate()


def _handed(taken: Numbered[Emit]) -> LastEmit:
    """What is kept of what the program takes."""
    emit = taken.what
    return LastEmit(taken.number, replace(emit, frame=Frame.empty(emit.frame.schema)))


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None]) -> Callable[[], None]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(_set, woken)
        except RuntimeError:
            return  # the loop is over, and with it every waiting task

    return wake


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
