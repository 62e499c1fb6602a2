"""Hopping windows: which windows a row belongs to, and when their answers hold.

Window w of `range` r and `slide` s covers the rows of its extent, and its answer is an event:

    extent(w) = [(w+1)s - r, (w+1)s)          answer(w) lives [(w+1)s, (w+2)s)

    r = 10, s = 5        0    5    10   15   20   25
    extent(1)            |---------|                     answer(1) = [10,15)
    extent(2)                 |---------|                answer(2) = [15,20)
    a row at ts = 7              x                       windows(7) = 1..2

Inverses: w is in windows(ts) exactly when ts is in extent(w). Li's equations 5.3, 5.6 and 5.9 are
printed with ceilings and contradict the text's own example; floors are right. Ids count from
origin 0, never from the first row seen: replicas must agree. At stable t every window below
floor(t / s) is complete (a stable is exclusive; "equaling" in figure 6-4 skips windows).
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of `range` that start every `slide`; tumbling where both are equal."""

    range: int
    slide: int

    def __post_init__(self) -> None:
        if self.range < 1 or self.slide < 1:
            raise Misuse(f"window range {self.range}, slide {self.slide}: both are at least 1")

    def first(self, ts: Times) -> Times:
        """The lowest window that each row belongs to."""
        return ts // self.slide

    def last(self, ts: Times) -> Times:
        """The highest; below `first` where slide > range and the row falls between extents."""
        return (ts + self.range) // self.slide - 1

    def extent(self, w: int) -> tuple[int, int]:
        """The times [from, to) whose rows window w covers."""
        end = (w + 1) * self.slide
        return end - self.range, end

    def answer(self, w: int) -> tuple[int, int]:
        """The lifetime [vs, ve) of the answer of window w."""
        return (w + 1) * self.slide, (w + 2) * self.slide

    def complete_below(self, stable: int) -> int:
        """Every window below this one has all its rows; INF at the end of the stream."""
        return INF if stable == INF else stable // self.slide

    def stable(self, stable: int) -> int:
        """What an input's stable promises of the answers."""
        return INF if stable == INF else (stable // self.slide + 1) * self.slide

    def first_wanted(self, t: int) -> int:
        """The lowest window whose answer has `ve >= t`."""
        return -(-t // self.slide) - 2

    def rows_needed_from(self, t: int) -> int:
        """The earliest row that an answer with `ve >= t` needs."""
        return self.extent(self.first_wanted(t))[0]
