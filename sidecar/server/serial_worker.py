"""A serial worker: what would keep the event loop waiting, done by other threads, in order.

    do(work, then)    work | work | work  -->  a thread of the pool, one at a time
                                          <--  then(result), on the loop

All streams share the threads. What one worker is asked for is done in that order, one thing at a
time. What waits is bounded: a merger has one append or seal under way, a subscriber one read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

_R = TypeVar("_R")


class SerialWorker:
    """Does one thing after the other. To be used on the loop's thread."""

    def __init__(self, pool: Executor, broken: Callable[[BaseException], None]) -> None:
        """`broken` is called with an unforeseen error; nothing is done after that."""
        self._pool = pool
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._work: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._under_way: asyncio.Future[Any] | None = None
        self._is_over = False

    def do(self, work: Callable[[], _R], then: Callable[[_R], None]) -> None:
        """Has `work` done by another thread, and `then` called here with what it gave."""
        self._work.append((work, then))
        if self._under_way is None:
            self._next()

    async def idle(self) -> None:
        """Waits until all that was asked for is done."""
        while self._under_way is not None:
            await asyncio.wait([self._under_way])

    def end(self) -> None:
        """Nothing is begun any more; what is under way is not waited for."""
        self._is_over = True
        self._work.clear()

    def _next(self) -> None:
        if not self._work or self._is_over:
            self._under_way = None
            return
        work, then = self._work.popleft()
        self._under_way = self._loop.run_in_executor(self._pool, work)
        self._under_way.add_done_callback(lambda future: self._done(future, then))

    def _done(self, future: asyncio.Future[Any], then: Callable[[Any], None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._is_over = True
            self._under_way = None
            self._broken(error)
            return
        self._next()  # the threads need not wait for what follows here
        if not future.cancelled():
            then(future.result())
