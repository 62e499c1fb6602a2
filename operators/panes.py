"""Panes: the stretches of time that windows share, and which windows have which.

Every window is a run of whole panes, so rows count once a pane (section 6.2).

    Hopping(4, 2)        panes of gcd(4, 2) = 2      window 1 = p0 p1      window 2 = p1 p2
    Cumulating(6, 2)     panes of 2                  windows 0, 1, 2 = p0, p0 p1, p0 p1 p2
                                                     window 3 = p3, for it begins anew there

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
    """The time that each one covers."""
    step: int
    """Panes from the end of one window to that of the next."""
    span: int
    """Panes of a window, the most that one has."""
    cumulate: bool
    """Whether windows begin at a multiple of the span, and not the span before their end."""

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
    """The longest panes that all of these windows are made of."""
    if isinstance(window, Cumulating):
        return Panes(window.slide, 1, window.windows_per_row, cumulate=True)
    length = gcd(window.range, window.slide)
    return Panes(length, window.slide // length, window.range // length, cumulate=False)
