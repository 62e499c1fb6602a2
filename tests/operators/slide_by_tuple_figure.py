"""Figure 6-7 as it is corrected (docs/windows.md), bin by bin: the slow twin of slide-by-tuple.

    a tuple at s     opens the bin s in S and the bin s + range in E, each from the bin before it,
                     and counts in every bin from s to below s + range
    a stable at p    answers the bins of S below p; of those and of E's the last one stays: the base

Bins hold the rows that count in them. The three corrections can be undone, each by itself: the
figure looks for the bin before s with `<`, where a bin of that very time exists already; puts the
end bin into S, where it is answered; and purges every bin below p, so that nothing is left to open
the next ones from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

BEFORE_ALL = float("-inf")
"""The bin that is there from the beginning."""

Rows = list[Any]


@dataclass
class SlideByTuple:
    """Bins by when their window ends."""

    covers: int
    finds_its_own: bool = True
    end_bins_in_e: bool = True
    keeps_a_base: bool = True
    starts: dict[float, Rows] = field(default_factory=dict)
    ends: dict[float, Rows] = field(default_factory=lambda: {BEFORE_ALL: []})

    def insert(self, ts: int, row: Any) -> None:
        """ProcessTuple."""
        end = ts + self.covers
        self._open(self.starts, ts)
        self._open(self.ends if self.end_bins_in_e else self.starts, end)
        for bins in (self.starts, self.ends):
            for at, rows in bins.items():
                if ts <= at < end:
                    rows.append(row)

    def _open(self, bins: dict[float, Rows], at: int) -> None:
        """A bin, from the last one before it, or from one of its own time: that is the same."""
        if self.finds_its_own:
            same = self.starts.get(at, self.ends.get(at))
            if same is not None:
                bins.setdefault(at, list(same))
                return
        known = {**self.ends, **self.starts}
        last = max((b for b in known if b < at), default=None)
        bins[at] = [] if last is None else list(known[last])

    def stable(self, p: float) -> Iterator[tuple[float, Rows]]:
        """ProcessPunctuation: what is answered."""
        below = {**self.ends, **self.starts}
        base = max((b for b in below if b < p), default=None)
        kept = below[base] if base is not None else []
        for at in sorted(b for b in self.starts if b < p):
            yield at, self.starts.pop(at)
        self.ends = {at: rows for at, rows in self.ends.items() if at >= p}
        if self.keeps_a_base and base is not None:
            self.ends[base] = kept
        else:
            self.ends.setdefault(BEFORE_ALL, [])
