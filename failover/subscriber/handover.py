"""A handover: what waits for a program, between its maker and the call that takes it.

    machine --put--> | 7 | 8 | 9 |  --head(behind=6)--> 7     taken once the program keeps the 7
                       ^ handed out, dropped when 8 is asked for

Looking takes nothing away: what has been handed out goes with the next question. So the program's
place moves by one assignment, of the number that it was handed, and a call that is abandoned, timed
out or interrupted before that has moved nothing. What wakes and waits is the shells' affair.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from gapless.protocol.errors import Bug

WAITING_MAX = 8
"""Things that wait for the program, beside the one that it has; with as many no more is asked for.
"""
WAITING_BYTES_MAX = 1 << 20
"""Of what waits: with more, no more is asked for, so that a program that does not read costs this,
and one answer of each merger that was under way."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Numbered(Generic[_T]):
    """One thing, and which of all it is: the first is 1."""

    number: int
    what: _T
    nbytes: int


class Handover(Generic[_T]):
    """What waits, in order, and how it ends. For one thread at a time."""

    def __init__(self, count_max: int = WAITING_MAX, bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._waiting: deque[Numbered[_T]] = deque()
        self._put = 0
        self._is_over = False
        self._error: BaseException | None = None

    def put(self, what: _T, nbytes: int) -> None:
        """One thing more. What comes behind the end is dropped."""
        if not self._is_over:
            self._put += 1
            self._waiting.append(Numbered(self._put, what, nbytes))

    def end(self, error: BaseException | None = None) -> None:
        """Nothing comes any more, for this reason; the first one counts."""
        if not self._is_over:
            self._is_over, self._error = True, error

    def drop(self) -> None:
        """Nobody wants what waits."""
        self._waiting.clear()

    def head(self, behind: int) -> Numbered[_T] | None:
        """The first behind a number; None where there is none yet, or none any more. What is not
        behind it is forgotten.
        """
        waiting = self._waiting
        while waiting and waiting[0].number <= behind:
            waiting.popleft()
        return waiting[0] if waiting else None

    @property
    def has_ended(self) -> bool:
        """Whether it has, and nothing waits any more."""
        return self._is_over and not self._waiting

    @property
    def error(self) -> BaseException | None:
        """What it has ended with."""
        return self._error

    def has_room(self, behind: int) -> bool:
        """Whether more should be asked for, by a program that has what this number stands for."""
        waits = [each.nbytes for each in self._waiting if each.number > behind]
        return len(waits) < self._count_max and sum(waits) < self._bytes_max

    def __len__(self) -> int:
        return len(self._waiting)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        numbers = [each.number for each in self._waiting]
        if numbers != list(range(self._put - len(numbers) + 1, self._put + 1)):
            raise Bug(f"{numbers} wait, {self._put} were put")
