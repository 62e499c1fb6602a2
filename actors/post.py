"""The post: sends messages to other processes, in batches, as calls of their actors.

    send("m0.1", message) --> box of m0.1/3.2: gathers --> flush: one call with all that gathered
                                                           CALLS_MAX calls of a box under way

While a process takes its calls slowly, messages to it gather and go as fewer, larger calls. Beyond
the bounds of a box a message is lost, as on any network: its sender sends it again. The calls go
from process to process; none needs the cluster's directory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray

from gapless.actors.book import Book
from gapless.actors.wire import Wire, slices
from gapless.failover.messages import Life, Message

CALLS_MAX = 4
"""Calls to one process under way: a few round trips' worth. The rest gathers."""
BOX_MESSAGES_MAX = 256
"""Messages that gather for one process. One that is stopped answers nothing for seconds, and all
that matters is resent."""


CALL_BYTES_MAX = 32 << 20
"""Of one call, unless a single message is larger: half of what Ray puts into one, so that what has
gathered for a slow process does not go by an object store (`wire.SLICE_BYTES`)."""
UNKNOWN_MAX = 64
"""Messages to lives that the book does not have yet, kept for its next version: a life that has
just begun may have asked us before we hear of it."""


class _Box:
    """What is on its way to one life."""

    __slots__ = ("calls", "handle", "is_watched", "waiting")

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.calls: list[Any] = []
        self.waiting: list[Message] = []
        self.is_watched = False

    def has_room(self) -> bool:
        """Whether another call may be under way."""
        if len(self.calls) >= CALLS_MAX:
            _, self.calls = ray.wait(self.calls, num_returns=len(self.calls), timeout=0)
        return len(self.calls) < CALLS_MAX


class Post:
    """Sends messages for one process. For one thread."""

    def __init__(self, wire: Wire, wake: Callable[[Callable[[], None]], None]) -> None:
        """`wake` has the owner's thread do something soon: a box with calls to be answered is
        flushed again when one is.
        """
        self._wire = wire
        self._wake = wake
        self._boxes: dict[Life, _Box] = {}
        self._dirty: dict[Life, _Box] = {}
        self._found: dict[str, tuple[Life, _Box] | None] = {}
        self._unknown: list[tuple[str, Message]] = []
        self.book = Book()
        self.lost = 0
        """Messages that nobody was there for, or that there was no room for."""

    def take_book(self, book: Book) -> None:
        """From now on messages go where this book says, unless an older one says more."""
        if book.version <= self.book.version:
            return
        self.book = book
        self._found.clear()
        self._boxes = {life: box for life, box in self._boxes.items() if life in book.lives}
        self._dirty = {life: box for life, box in self._dirty.items() if life in book.lives}
        unknown, self._unknown = self._unknown, []
        for to, message in unknown:
            self.send(to, message)

    def send(self, to: str, message: Message) -> None:
        """Puts a message into its receiver's box. It may get lost."""
        found = self._find(to)
        if found is None and self._may_come(to) and len(self._unknown) < UNKNOWN_MAX:
            self._unknown.append((to, message))
            return
        if found is None or len(found[1].waiting) >= BOX_MESSAGES_MAX:
            self.lost += 1
            return
        life, box = found
        box.waiting.append(message)
        self._dirty[life] = box

    def flush(self) -> None:
        """Sends what has gathered."""
        for life, box in list(self._dirty.items()):
            if not box.has_room():
                self._watch(box)
                continue
            gathered, box.waiting = box.waiting, []
            del self._dirty[life]
            for data in self._calls_of(gathered):
                box.calls.append(box.handle.hear.remote(*slices(data)))

    def _calls_of(self, gathered: list[Message]) -> list[bytes]:
        """Messages as bytes, in their order, in as many calls as their size asks for."""
        data = self._wire.encode(gathered)
        if len(data) <= CALL_BYTES_MAX or len(gathered) == 1:
            return [data]
        half = len(gathered) // 2
        return [*self._calls_of(gathered[:half]), *self._calls_of(gathered[half:])]

    def _may_come(self, to: str) -> bool:
        """Whether it is a life that is later than those of its slot in the book."""
        life = Life.parse(to)
        known = None if life is None else self.book.newest(life.slot)
        return life is not None and (known is None or known[0] < life)

    def _find(self, to: str) -> tuple[Life, _Box] | None:
        if to in self._found:
            return self._found[to]
        found = self.book.find(to)
        answer = None
        if found is not None:
            life, entry = found
            box = self._boxes.get(life)
            if box is None:
                box = self._boxes[life] = _Box(entry.handle)
            answer = life, box
        self._found[to] = answer
        return answer

    def _watch(self, box: _Box) -> None:
        """Flushes again as soon as the oldest call is answered, or has failed."""
        if box.is_watched:
            return
        box.is_watched = True

        def answered(_: Any) -> None:
            self._wake(again)

        def again() -> None:
            box.is_watched = False  # the owner flushes when its thread has nothing else to do

        box.calls[0].future().add_done_callback(answered)
