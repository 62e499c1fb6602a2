"""Panes: the stretches of time that windows share, and which windows have which.

Every window is a run of whole panes, so rows count once a pane (section 6.2).

    Hopping(4, 2)        panes of 2                  window 1 = p0 p1      window 2 = p1 p2
    Hopping(9, 6)        panes of 3                  window 1 = p1 p2 p3   window 2 = p3 p4 p5
    Hopping(5, 3)        panes of 1 and 2, in turn   window 1 = p1 p2 p3   window 2 = p3 p4 p5
    Cumulating(6, 2)     panes of 2                  windows 0, 1, 2 = p0, p0 p1, p0 p1 p2
                                                     window 3 = p3, for it begins anew there

The thesis's panes are gcd(range, slide) long: a single tick, if 4000 of them slide by 999. But
windows end at multiples of the slide, and begin there or `rest = range % slide` before. Pairs are
cut there, two a slide at the most ("paired windows", Krishnamurthy et al., SIGMOD 2006): in that
window they have 995 ticks and 4, in turn. `paned` and `two_level` have them.

Numbers may be those of one pane or window, or many as an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TypeVar

import numpy as np

from gapless.operators.windows import Cumulating, Cut
from gapless.protocol.frame import Times

Number = TypeVar("Number", int, Times)


@dataclass(frozen=True, slots=True)
class Panes:
    """The panes of some windows."""

    length: int
    """The time that each one covers; with a rest that of two together."""
    rest: int
    """How long the second of two is; 0 where all are as long."""
    step: int
    """Panes from the end of one window to that of the next."""
    span: int
    """Panes of a window, the most that one has."""
    cumulate: bool
    """Whether windows begin at a multiple of the span, and not the span before their end."""

    @property
    def range(self) -> int:
        """The time that a window covers, the most that one does."""
        return self.span // (2 if self.rest else 1) * self.length + self.rest

    @property
    def slide(self) -> int:
        """The time from the end of one window to that of the next."""
        return self.length if self.rest else self.step * self.length

    def of(self, time: Number) -> Number:
        """The pane of a time, relative to the windows' origin."""
        if not self.rest:
            return time // self.length
        begun = time + self.rest
        begun //= self.length
        begun += time // self.length
        return begun

    def starts(self, pane: int) -> int:
        """When a pane starts, the inverse."""
        if not self.rest:
            return pane * self.length
        slides, second = divmod(pane, 2)
        return slides * self.length + (self.length - self.rest) * second

    def first(self, window: Number) -> Number:
        """The first pane of a window."""
        if self.cumulate:
            return window // self.span * self.span
        return (window + 1) * self.step - self.span

    def end(self, window: Number) -> Number:
        """The pane behind a window's last one."""
        return (window + 1) * self.step

    def windows(self, pane: Number) -> tuple[Number, Number]:
        """The first window that has a pane, and the one behind the last."""
        if self.cumulate:
            return pane, (pane // self.span + 1) * self.span
        return pane // self.step, (pane + self.span) // self.step

    def between(self, panes: Times) -> np.typing.NDArray[np.bool_]:
        """Which panes lie between two windows: some do where the slide is longer than the range."""
        found: np.typing.NDArray[np.bool_] = panes % self.step < self.step - self.span
        return found


def panes_of_windows(window: Cut) -> Panes:
    """The longest panes of one length that all of these windows are made of."""
    if isinstance(window, Cumulating):
        return Panes(window.slide, 0, 1, window.windows_per_row, cumulate=True)
    length = gcd(window.range, window.slide)
    return Panes(length, 0, window.slide // length, window.range // length, cumulate=False)


def pairs_of_windows(window: Cut) -> Panes:
    """The longest panes of all: where the slide does not divide the range two in each slide."""
    if isinstance(window, Cumulating) or not window.range % window.slide:
        return panes_of_windows(window)
    whole, rest = divmod(window.range, window.slide)
    return Panes(window.slide, rest, 2, 2 * whole + 1, cumulate=False)
