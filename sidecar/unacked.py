"""Rows on their way: what was pushed, and some sidecar has not taken in yet.

    pushed      10     25     40     55         rows in all, behind each frame
    x has            25                          30 rows are on their way to it
    y has                   40

What a sidecar has taken in it bounds by itself. So a producer that lives with millions of rows that
are not over is held back by what is on its way, and never by what lives.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from gapless.failover.link import CLOSED, Link
from gapless.failover.messages import Session
from gapless.protocol.errors import Bug


class Unacked:
    """Counts rows, by the numbers that frames have in a tail."""

    def __init__(self) -> None:
        self._pushed = 0
        self._ends: deque[int] = deque()  # the numbers behind frames with rows, and
        self._totals: deque[int] = deque()  # how many rows were pushed up to there
        self._taken: dict[str, int] = {}
        self._sent: dict[str, deque[tuple[int, int]]] = {}  # sequence, rows up to it
        self._sessions: dict[str, Session | None] = {}

    @property
    def rows(self) -> int:
        """That the slowest of the sidecars that take part has not taken in."""
        return self._pushed - min(self._taken.values(), default=self._pushed)

    def take_part(self, sidecars: tuple[str, ...]) -> None:
        """These take part. Of one that is new nothing that was pushed before is waited for: it is
        told as a whole.
        """
        self._taken = {name: self._taken.get(name, self._pushed) for name in sidecars}
        self._forget()

    def push(self, rows: int, end: int) -> None:
        """A frame was pushed; its number is the one before `end`."""
        self._pushed += rows
        self._ends.append(end)
        self._totals.append(self._pushed)

    def send(self, link: Link) -> None:
        """Something may have been sent over this link, which is one of those that take part."""
        if link.state == CLOSED:
            return
        sent = self._sent.setdefault(link.merger, deque())
        if self._sessions.get(link.merger) != link.session:
            self._sessions[link.merger] = link.session
            sent.clear()
        if not sent or sent[-1][0] < link.sent:
            sent.append((link.sent, self._up_to(link.cursor)))

    def hear(self, link: Link) -> None:
        """Something was heard over this link."""
        sent = self._sent.get(link.merger)
        if not sent or self._sessions[link.merger] != link.session:
            return
        while sent and sent[0][0] <= link.acked:
            rows = sent.popleft()[1]
            self._taken[link.merger] = max(self._taken[link.merger], rows)
        self._forget()

    def _up_to(self, number: int) -> int:
        """Rows in the frames before this number."""
        place = bisect_right(self._ends, number)
        if place:
            return self._totals[place - 1]
        return min(self._taken.values(), default=self._pushed)

    def _forget(self) -> None:
        everybody_has = self._pushed - self.rows
        while self._totals and self._totals[0] <= everybody_has:
            self._totals.popleft()
            self._ends.popleft()

    def validate(self) -> None:
        """Raises `Bug` where rows are on their way that nobody has pushed."""
        if not 0 <= self.rows <= self._pushed or len(self._ends) != len(self._totals):
            raise Bug(f"{self.rows} rows are on their way of {self._pushed}")
