"""Counts and sums of hopping windows, by plain Python over rows: what several workloads expect.

range 20, slide 10      a row at 17 is in the windows that end at 20 and 30
                        the answer of the window that ends at e lives from e to e + 10
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gapless.protocol.tdb import Event


def counts_and_sums(
    rows: Iterable[tuple[int, int, int]], covers: int, slide: int
) -> Iterator[Event]:
    """Of rows (time, group, value): for each window and group how many, and their sum."""
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for time, group, value in rows:
        end = (time // slide + 1) * slide
        while end - covers <= time:
            answer = found[end, group]
            answer[0] += 1
            answer[1] += value
            end += slide
    for (end, group), (count, total) in found.items():
        yield Event((group, count, total), end, end + slide)
