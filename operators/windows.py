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

from gapless.protocol.elements import BEGIN, INF
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

    @property
    def latest(self) -> int:
        """The last time of a row all of whose answers end before INF, which means no end."""
        return INF - 1 - self.range - self.slide

    @property
    def windows_per_row(self) -> int:
        """In how many windows a row is at most."""
        return -(-self.range // self.slide)

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
        if stable == INF:
            return INF
        return min((stable // self.slide + 1) * self.slide, INF - 1)  # no answer starts later

    def first_wanted(self, t: int) -> int:
        """The lowest window whose answer has `ve >= t`."""
        return -(-t // self.slide) - 2

    def rows_needed_from(self, t: int) -> int:
        """The earliest row that an answer with `ve >= t` needs."""
        return max(BEGIN, self.extent(self.first_wanted(t))[0])
