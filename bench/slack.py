"""Slack: how an engine without punctuation waits for late rows, and what it leaves out.

    window [0, 6), slack 2        rows, as they arrive     7   5   8   4   9
                                  largest time - slack     5   5   6   6   7
                                                                   |   4 is late
                                                                   [0, 6) is answered

A window is answered by the first row that is as far beyond its end as the slack. A row that comes
behind the answer of one of its windows is late for that one (window-queries, section 6.1.5.2):

    consistent   it counts in none of its windows
    generous     it counts in those that have not been answered

What is answered and when follows from times alone, so it is computed over all rows at once. A row
belongs to windows whose numbers follow each other: it is added where they begin and taken away
behind their end, and the sums over these changes are the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from gapless.bench.netflow import Ints
from gapless.operators.windows import Hopping

Kind = Literal["consistent", "generous"]


@dataclass(frozen=True)
class Arrivals:
    """Rows in the order of their arrival."""

    ts: Ints
    at: Ints
    """When each arrives; never falls."""
    value: Ints

    @property
    def low_watermarks(self) -> Ints:
        """Behind each row, the smallest time that still comes (Eq. 4.1); none behind the last."""
        return np.minimum.accumulate(self.ts[::-1])[::-1][1:]


class Counted(NamedTuple):
    """The answers of consecutive windows."""

    ends: Ints
    n: Ints
    total: Ints
    at: Ints
    """When each was answered; the end of the rows where none of them has."""


def without_loss(rows: Arrivals, window: Hopping) -> Counted:
    """What is right: each row counts in all of its windows."""
    ends = _ends(rows, window)
    at = np.full(len(ends), rows.at[-1])
    return Counted(ends, *_sums(rows, window, np.zeros(len(rows.ts), np.int64)), at)


def with_slack(rows: Arrivals, window: Hopping, slack: int, kind: Kind) -> Counted:
    """What a buffer with slack answers, and when."""
    ends = _ends(rows, window)
    answered_by = np.searchsorted(np.maximum.accumulate(rows.ts), ends + slack)
    open_from = np.searchsorted(answered_by, np.arange(len(rows.ts)))
    at = rows.at[np.minimum(answered_by, len(rows.at) - 1)]
    if kind == "consistent":
        late = open_from > _first(rows, window)
        open_from = np.where(late, len(ends), 0)
    return Counted(ends, *_sums(rows, window, open_from), at)


def _first(rows: Arrivals, window: Hopping) -> Ints:
    """The number of each row's first window, counted from the earliest row's."""
    first: Ints = rows.ts // window.slide - int(rows.ts.min()) // window.slide
    return first


def _ends(rows: Arrivals, window: Hopping) -> Ints:
    first = int(rows.ts.min()) // window.slide
    last = (int(rows.ts.max()) + window.range) // window.slide
    return (np.arange(first, last) + 1) * window.slide


def _sums(rows: Arrivals, window: Hopping, open_from: Ints) -> tuple[Ints, Ints]:
    """Rows and sum of values of each window, of windows numbered `open_from` or higher alone."""
    windows = len(_ends(rows, window))
    begin = np.maximum(_first(rows, window), open_from)
    end = (rows.ts + window.range) // window.slide - int(rows.ts.min()) // window.slide
    counts = begin < end
    changes = np.zeros((2, windows + 1), np.int64)
    for place, sign in ((begin[counts], 1), (end[counts], -1)):
        np.add.at(changes[0], place, sign)
        np.add.at(changes[1], place, sign * rows.value[counts])
    n, total = np.cumsum(changes, axis=1)[:, :-1]
    return n, total
