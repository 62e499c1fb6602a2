"""Whether memory and descriptors stay flat over a long run: the last third against the first.

    r0.1   rss   |.:::::::::::::::|   median of the first third, of the last: no more than so much
                  first      last     above

A slot's process may have been another one in the first third than in the last; what counts is what
a slot needs. The first tenth is left out: a process fills its caches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gapless.chaos.drill.outcome import Requirement
from gapless.chaos.judge.record import Record, Seen

GROWTH_MAX = 1.15
"""Memory of the last third, as a share of the first's."""
SPARE_BYTES = 24 << 20
"""Beside that: an allocator gives back when it likes."""
FDS_MAX = 8
"""Descriptors more in the last third: some connections come and go."""
WARM_SHARE = 0.1
SAMPLES_MIN = 30
"""Of a slot, for a verdict on it."""
MB = 1 << 20


def flatness(record: Record) -> list[Requirement]:
    """What must hold of a long run: one of memory, one of descriptors."""
    by_slot: dict[str, list[Seen]] = defaultdict(list)
    for seen in record.seen("process"):
        if seen.at_ms >= 0:
            by_slot[seen.who].append(seen)
    long = {who: rows for who, rows in by_slot.items() if len(rows) >= SAMPLES_MIN}
    memory = {who: _thirds([row.rss or 0 for row in rows]) for who, rows in long.items()}
    fds = {who: _thirds([row.fds or 0 for row in rows]) for who, rows in long.items()}
    told = ", ".join(f"{who} {a / MB:.0f} to {b / MB:.0f} MB" for who, (a, b) in memory.items())
    open_ = ", ".join(f"{who} {a:.0f} to {b:.0f}" for who, (a, b) in fds.items())
    return [
        Requirement(
            "memory is flat",
            f"the last third at most {GROWTH_MAX} of the first and {SPARE_BYTES // MB} MB",
            told or "nothing was seen long enough",
            bool(memory) and all(b <= a * GROWTH_MAX + SPARE_BYTES for a, b in memory.values()),
        ),
        Requirement(
            "descriptors are flat",
            f"the last third at most {FDS_MAX} more than the first",
            open_ or "nothing was seen long enough",
            bool(fds) and all(b <= a + FDS_MAX for a, b in fds.values()),
        ),
    ]


def _thirds(values: Sequence[int]) -> tuple[float, float]:
    """The medians of the first third and the last, without what comes first of all."""
    warm = np.asarray(values[int(len(values) * WARM_SHARE) :], dtype=float)
    third = max(1, len(warm) // 3)
    return float(np.median(warm[:third])), float(np.median(warm[-third:]))
