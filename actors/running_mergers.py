"""The mergers of a running job, as a subscriber asks them: one question at a time to each of them.

    ask(slot, question) --> the life that the root's book names --> answered(slot, messages)
                            none, or it has died: the root is asked for its book, again and again

All of it happens on one pump's thread. A merger that dies is looked up again; a cluster that is
gone, and a root that is gone for good, are told to every caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ray.exceptions import RayError

from gapless.actors import cluster
from gapless.actors.book import Book
from gapless.actors.door import Door
from gapless.actors.pump import Pump
from gapless.actors.wire import MessageDecoder, Wire
from gapless.failover.messages import Message
from gapless.protocol.schema import StreamSchema

CONNECTED_MS = 1000
"""Between two looks whether this process is still in the job's cluster."""
BOOK_MS = 100
"""Between two looks for a merger that has died."""


class RunningMergers:
    """The mergers of a job, as a subscriber's pump asks them."""

    def __init__(
        self,
        name: str,
        slots: tuple[str, ...],
        schema: StreamSchema,
        door: Door,
        book: Book,
        alarm: Callable[[str], None],
    ) -> None:
        """`name`: the subscriber's, whom answers are for."""
        self._name = name
        self._slots = slots
        self._wire = Wire(schema)
        self._intake = MessageDecoder(self._wire, alarm)
        self._door = door
        self._book = book
        self._connection = cluster.connection()
        self._under_way: dict[str, Future[Any]] = {}
        self._is_looking = False
        self._is_over = False
        self._pump: Pump
        self._answered: Callable[[str, list[Message]], None]
        self._changed: Callable[[], None]
        self._left: Callable[[], None]

    def begin(
        self,
        pump: Pump,
        answered: Callable[[str, list[Message]], None],
        changed: Callable[[], None],
        left: Callable[[], None],
    ) -> None:
        """Before the pump turns. `answered` hears the answers of a slot, none where it has died;
        `changed` that a merger may be somewhere else; `left` that nobody can be asked any more.
        """
        self._pump, self._answered, self._changed, self._left = pump, answered, changed, left
        pump.do(self._look_at_connection)

    def end(self) -> None:
        """Nobody is asked any more."""
        self._is_over = True

    def ask(self, slot: str, question: Message) -> bool:
        """Asks, if nothing is under way there; else, and where nobody is there now, False."""
        if slot in self._under_way or self._is_over or not self._is_connected():
            return False
        found = self._book.newest(slot)
        if found is None:
            self._look()
            return False
        life, entry = found

        def answered(future: Any) -> None:
            self._pump.do(lambda: self._take(slot, life, future))

        data = self._wire.encode([question])
        call = self._under_way[slot] = entry.handle.ask.remote(self._name, data).future()
        call.add_done_callback(answered)
        return True

    @property
    def under_way(self) -> list[Future[Any]]:
        """Questions that are not answered; of a connection that is gone none will be."""
        is_there = cluster.connection() == self._connection
        return [call for call in list(self._under_way.values()) if is_there and not call.done()]

    def _take(self, slot: str, life: Any, future: Any) -> None:
        self._under_way.pop(slot, None)
        if self._is_over:
            return
        error = future.exception()
        if error is None:
            letters: list[bytes] = future.result()
            # A damaged one is asked for again.
            self._answered(slot, [said for data in letters for said in self._intake.take(data)])
            return
        if not isinstance(error, RayError):
            raise error
        found = self._book.newest(slot)
        if found is not None and found[0] == life:
            lives = {k: v for k, v in self._book.lives.items() if k != life}
            self._book = Book(self._book.version, lives)
        self._look()

    # -- where they are -----------------------------------------------------------------------

    def _look(self) -> None:
        """Asks the root where the mergers are, soon, and again until it is known."""
        if self._is_looking or self._is_over or not self._is_connected():
            return
        self._is_looking = True

        def found(future: Any) -> None:
            self._pump.do(lambda: self._found(future))

        self._door.actor.book.remote().future().add_done_callback(found)

    def _found(self, future: Any) -> None:
        if self._is_over:
            return
        if future.exception() is None:
            book: Book = future.result()
            if book.version > self._book.version:
                self._book = book
                self._changed()
        else:
            self._left()
            # Beside the pump, as the cluster's directory may be away.
            threading.Thread(target=self._door.turn, name="door", daemon=True).start()
        if any(self._book.newest(slot) is None for slot in self._slots):
            self._pump.later(BOOK_MS, self._look_again)
        else:
            self._is_looking = False

    def _look_again(self) -> None:
        self._is_looking = False
        self._look()

    def _is_connected(self) -> bool:
        """Whether this process is still in the job's cluster; where not, this is the end."""
        if cluster.connection() == self._connection:
            return True
        self._left()
        if not self._is_over:
            self._pump.stop("this process has left the job's cluster; go on by the last token")
        return False

    def _look_at_connection(self) -> None:
        """What was asked is not answered any more once it is gone."""
        if not self._is_over and self._is_connected():
            self._pump.later(CONNECTED_MS, self._look_at_connection)
