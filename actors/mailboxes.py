"""Mailboxes: a merger's answers to subscribers, which are not actors, so that nobody can call them.

    subscriber --ask([Fetch])--> its mailbox waits for an answer, ASK_MS at most
               <--[Delivery]----

A subscriber polls: it has one question under way, and answers wait here until it asks. An answer
that comes too late for its call is there when the same question comes again, which is then not put
to the merger a second time. Answers to an older question are dropped: one that was given twice
would stand before all that follow, and each of those would come a retry interval late.

What does not fit into a mailbox is lost, and its subscriber asks again. If all waiting answers
together are too large, those of the subscriber that has been silent longest go first: one that has
vanished costs little.
"""

from __future__ import annotations

import threading
import time
from collections import deque

ASK_MS = 200
"""How long a question waits for its answer: as long as a subscriber waits before it asks again."""
LETTERS_MAX = 8
"""In one mailbox: more than one question has answers."""
BYTES_MAX = 32 << 20
"""Of all letters that wait to be fetched. An asker has its letter at once, so what waits is mostly
for those that do not."""
MAILBOXES_MAX = 1024
"""As many as a merger serves (failover/merger/readers.py); the longest silent one goes."""


class Mailboxes:
    """By subscriber, what waits to be fetched. For any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._boxes: dict[str, deque[bytes]] = {}
        self._questions: dict[str, bytes] = {}  # the last of each
        self._bytes = 0  # of all letters
        self._ended = False

    def open(self, subscriber: str) -> None:
        """From now on answers to it are kept."""
        with self._changed:
            box = self._boxes.pop(subscriber, None)
            self._boxes[subscriber] = deque(maxlen=LETTERS_MAX) if box is None else box
            if len(self._boxes) > MAILBOXES_MAX:
                gone = next(iter(self._boxes))
                self._bytes -= sum(map(len, self._boxes.pop(gone)))
                self._questions.pop(gone, None)

    def asks(self, subscriber: str, question: bytes) -> bool:
        """Whether a question is to be put: its answer does not wait here. Answers to another one
        go.
        """
        with self._changed:
            self.open(subscriber)
            box, before = self._boxes[subscriber], self._questions.get(subscriber)
            if box and question == before:
                return False
            self._bytes -= sum(map(len, box))
            box.clear()
            self._questions[subscriber] = question
            return True

    def has(self, name: str) -> bool:
        """Whether there is a mailbox of that name."""
        return name in self._boxes

    def put(self, subscriber: str, letter: bytes) -> None:
        """Leaves what was encoded, if the mailbox is still there."""
        with self._changed:
            box = self._boxes.get(subscriber)
            if box is not None:
                if len(box) == box.maxlen:
                    self._bytes -= len(box[0])
                box.append(letter)
                self._bytes += len(letter)
                if self._bytes > BYTES_MAX:
                    self._lose(subscriber)
                self._changed.notify_all()

    def _lose(self, subscriber: str) -> None:
        """Loses letters to others until what waits is not too large."""
        for name, box in self._boxes.items():
            if self._bytes <= BYTES_MAX:
                return
            if name != subscriber:
                self._bytes -= sum(map(len, box))
                box.clear()

    def fetch(self, subscriber: str) -> list[bytes]:
        """Takes what is there, as soon as there is something; nothing after a while without."""
        until = time.monotonic() + ASK_MS / 1000
        with self._changed:
            while not self._ended:
                box = self._boxes.get(subscriber)
                left_s = until - time.monotonic()
                if box:
                    letters = list(box)
                    self._bytes -= sum(map(len, box))
                    box.clear()
                    return letters
                if left_s <= 0 or box is None:
                    break
                self._changed.wait(left_s)
            return []

    def end(self) -> None:
        """Nobody waits any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
