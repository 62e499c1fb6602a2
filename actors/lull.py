"""The lull of a replica: how long it leaves a source alone once it has read that to its end.

    machine       a wait of 1 ms ends    lull      the feed of a record each 10 ms is read
    has room      0.1 ms late            none      100 times a second, as it comes
    is taken      2 ms late              20 ms     50 times, two records at once

A frame costs a read, a pass through the plan, a message to each merger with an ack, and a dozen
switches between threads, however few rows it has. Where the cores are idle that buys the latency of
a row. Where they are taken it buys nothing: rows wait for their turn everywhere, and the more so
the more frames there are. There a source that is read to its end gathers rows for a moment. The
delay is of the order of what the machine adds anyhow, and ends as soon as it has room again.

A source that has more to be read at once knows no lull.
"""

from __future__ import annotations

LULL_TIMES = 20
"""How many times longer than its pump is late: cores that keep one waiting for 1 ms are taken."""
LULL_MS_MAX = 20
"""A fraction of what a row may take from a journal to its answer (60 ms), and of a pause."""
NAP_MS_MAX = 10
"""Of a merger, which would add a lull to those of its replicas: what several of them send within
that time it takes together."""


def lull_ms(late_ms: float, most: int = LULL_MS_MAX) -> int:
    """How long rows gather for a pump that is so late."""
    return min(most, int(LULL_TIMES * late_ms))


class Lull:
    """Of the sources of one replica. Pure: times are handed in."""

    def __init__(self) -> None:
        self._ended_at: dict[str, int] = {}

    def was_read(self, source: str, *, to_its_end: bool, now: int) -> None:
        """Something was read of it just now."""
        if to_its_end:
            self._ended_at[source] = now
        else:
            self._ended_at.pop(source, None)

    def left_ms(self, source: str, late_ms: float, now: int) -> int:
        """How much longer it is to be left alone, where the pump is so late."""
        ended_at = self._ended_at.get(source)
        if ended_at is None:
            return 0
        return max(0, ended_at + lull_ms(late_ms) - now)
