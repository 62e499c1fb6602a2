"""The pace: how many rows a replica reads at once, by how long its plan has taken for the last.

    a call      a row     rows      a push takes
    0.3 ms      1 us      16,384    17 ms         what a frame costs is nothing to so many
    0.3 ms      100 us    497       50 ms         and the pump turns from tick to tick
    30 ms       1 us      16,384    46 ms         small frames would pay for a call each
    200 ms      100 us    500       250 ms        no longer than that, whatever it would gain

A pump that is inside its plan hears nothing: no ack that would spare it the rest, no request of a
peer for a snapshot; and nobody hears its heartbeat. So no push should take longer than from tick to
tick. But a frame costs something, too: the call of a user's function, a model's, may take as long
as all rows of a small frame. So both costs are fitted to the last pushes, and where the cost of a
frame is what counts, frames are larger, up to PUSH_MS_MAX.

    rows      | 1 | 2-3 | 4-7 | 8-15 | ... | 16,384 |    of each octave the median of its pushes;
    cost, ms      31          30             47           a line through the largest, its slope the
                                                          median over the others

- Where one octave is all that is known, its rows are taken to cost everything: one that believes
  that is never inside a plan for longer than it expects. A smaller frame then shows what is true.
- Rows grow with full frames only: a short one says nothing of long ones. A frame is full from half
  of its rows on, as records of a journal are not cut where one fits.
- A push that takes far longer, or far shorter, than any fit says was disturbed, or the plan has
  changed: all that was known is forgotten, and a handful of small frames says which.
- A fit is never believed against what was seen: where smaller frames turned out to be slower by the
  row than larger ones, the larger ones are read again.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import NamedTuple

from gapless.actors.pump import TICK_MS
from gapless.journal.reader import FRAME_ROWS

PUSH_MS_MAX = 250
"""How long one push should take at most, however costly its frame is: several fit into the time
after which a silent replica is replaced (`RAY_TIMING.hang_ms`). Where a single call costs a good
part of that, its rows may take half of it again."""
ROWS_FIRST = 16
"""Before anything is known of the plan: five full frames later it is as much as it may be."""
GROWTH_MAX = 4
"""How many times larger the next frame may be than any that was seen; twice over where it is known
what a row costs."""
SMALL = 4
"""How many times smaller a frame has to be to show what a row costs: no hiccup looks like that."""
SURE = 0.9
"""Of what a small frame took, the share that it would have taken without them."""
SEEN_MAX = 32
"""Pushes that are fitted: a plan's cost changes with its state, slowly."""
WORTH = 9
"""The rows of a frame should cost so many times what the frame itself costs: then nine tenths of
the rate that there can be are reached."""
LOSS = 0.8
"""Smaller frames that are slower by the row than that share of the best rate are too small."""
STRANGE = 2
"""How many times longer, or shorter, than expected a push takes that was disturbed."""


class Push(NamedTuple):
    """What was seen."""

    rows: int
    ms: float

    @property
    def rate(self) -> float:
        """Rows a millisecond."""
        return self.rows / max(self.ms, 1e-6)


class Cost(NamedTuple):
    """What a push costs, in milliseconds: so much for the frame, and so much for each row."""

    frame: float
    row: float

    def of(self, rows: float) -> float:
        """A frame of so many rows."""
        return self.frame + self.row * rows

    @property
    def ms_max(self) -> float:
        """How long a push may take."""
        return max(PUSH_MS_MAX, 1.5 * self.frame)

    @property
    def rows(self) -> int:
        """The best frame: as many rows as fit from tick to tick; more where the frame is what
        costs; in no more than `ms_max`.
        """
        row = max(self.row, 1e-9)
        wanted = max((TICK_MS - self.frame) / row, WORTH * self.frame / row)
        return max(1, int(min(wanted, (self.ms_max - self.frame) / row, FRAME_ROWS)))


class Pace:
    """Of one replica. Pure: the durations of pushes are handed in."""

    def __init__(self) -> None:
        self.rows = ROWS_FIRST
        """To be read at once."""
        self._seen: deque[Push] = deque(maxlen=SEEN_MAX)

    def took(self, rows: int, ms: float) -> int:
        """The plan alone has taken so long for a frame of so many rows. How many to read next."""
        if rows < 1:
            return self.rows
        push, is_full = Push(rows, ms), 2 * rows > self.rows
        if self._is_strange(push):
            self._seen.clear()
            if ms > PUSH_MS_MAX:
                self.rows = max(1, int(rows * TICK_MS / ms))
                return self.rows
        self._seen.append(push)
        wanted = self._wanted(is_full=is_full)
        if wanted < self.rows:
            self.rows = wanted
        elif is_full:
            self.rows = min(wanted, _reach(_octaves(self._seen)))
        return self.rows

    def _is_strange(self, push: Push) -> bool:
        octaves = _octaves(self._seen)
        if not octaves or (len(octaves) == 1 and _octave(push.rows) not in octaves):
            return False  # nothing is known of such frames
        expected = _fitted(octaves).of(push.rows)
        if push.ms > PUSH_MS_MAX:
            return push.ms > STRANGE * expected
        return expected > TICK_MS and push.ms < expected / STRANGE

    def _wanted(self, *, is_full: bool) -> int:
        octaves = _octaves(self._seen)
        cost = _fitted(octaves)
        wanted = cost.rows
        if len(octaves) == 1:
            known = next(iter(octaves.values()))
            if is_full and _octave(wanted) == _octave(known.rows) and known.rows < FRAME_ROWS:
                return known.rows // 2 or 2  # what the frame costs, and what its rows
            return wanted
        allowed = [p for p in octaves.values() if p.ms <= cost.ms_max]
        if allowed:
            best = max(allowed, key=lambda push: push.rate)
            seen = octaves.get(_octave(wanted), Push(wanted, cost.of(wanted)))
            if wanted < best.rows and seen.rate < LOSS * best.rate:
                return best.rows
        return wanted


def _reach(octaves: dict[int, Push]) -> int:
    """How many rows the next frame may have. If rows were all that costs, it would take no longer
    than it should, or twice as long as one that was seen. Where much smaller frames have shown what
    a row costs, no more than a tick longer than the largest, though these had been disturbed.
    """
    reach = max(
        push.rows * min(GROWTH_MAX, max(2.0, PUSH_MS_MAX / max(push.ms, 1.0)))
        for push in octaves.values()
    )
    largest = octaves[max(octaves)]
    small = [push for push in octaves.values() if SMALL * push.rows <= largest.rows]
    if small:
        row = max((largest.ms - SURE * p.ms) / (largest.rows - p.rows) for p in small)
        more = TICK_MS / max(row, 1e-9)
        reach = max(reach, min(GROWTH_MAX**2 * largest.rows, largest.rows + more))
    return int(reach)


def _octave(rows: int) -> int:
    return rows.bit_length()


def _octaves(seen: deque[Push]) -> dict[int, Push]:
    """Of each octave of rows the push that took the median time: one that was disturbed, among
    several, does not count.
    """
    pushes: dict[int, list[Push]] = {}
    for push in seen:
        pushes.setdefault(_octave(push.rows), []).append(push)
    return {
        octave: sorted(of_it, key=lambda push: push.ms)[(len(of_it) - 1) // 2]
        for octave, of_it in pushes.items()
    }


def _fitted(octaves: dict[int, Push]) -> Cost:
    """The line through the largest push, with the median of the slopes to the others."""
    largest = octaves[max(octaves)]
    slopes = [
        (largest.ms - push.ms) / (largest.rows - push.rows)
        for push in octaves.values()
        if push is not largest
    ]
    most = largest.ms / largest.rows
    row = min(max(median(slopes), 0.0), most) if slopes else most
    return Cost(largest.ms - row * largest.rows, row)
