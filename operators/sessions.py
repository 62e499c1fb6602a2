"""Which pieces of time make a session: those of a partition that lie at most a gap apart.

    gap 5      partition A      |2 4|  |8 9|            |20 21|
                                8 - 4 <= 5              20 - 9 > 5
    sessions                    A [2, 9], end 14        A [20, 21], end 26

A piece is from its earliest row to its latest, which belong together already: one row, the rows of
a pane no longer than the gap, or a session so far. Two pieces may overlap: those of two groups of a
partition do. A session ends a gap after its last row; a row at that very time still belongs to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapless.kernels.keys import Ids, Mask
from gapless.operators.numbers import sorting
from gapless.protocol.frame import Times


class Sessions(NamedTuple):
    """Sessions in order of their partitions, those of one in order of time."""

    numbers: Ids
    """By piece, as pieces were given: its session."""
    partitions: Ids
    """By session, as the rest."""
    starts: Times
    """The earliest row."""
    ends: Times
    """A gap after the latest row."""
    is_last: Mask
    """Whether it is the last one of its partition."""


def sessions_of(partitions: Ids, earliest: Times, latest: Times, gap: int) -> Sessions:
    """The sessions that these pieces make. `latest` and the gap make a time."""
    order = sorting(partitions, earliest)
    partition, earliest = partitions[order], earliest[order]
    ends = _reached(partition, latest[order]) + gap
    follows = partition[1:] == partition[:-1]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = ~follows | (earliest[1:] > ends[:-1])
    first = is_first.nonzero()[0]
    last = np.append(first[1:], len(order))[: len(first)] - 1
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    of = partition[first]
    is_last = np.ones(len(first), np.bool_)
    is_last[:-1] = of[1:] != of[:-1]
    return Sessions(numbers, of, earliest[first], ends[last], is_last)


def _reached(partition: Ids, latest: Times) -> Times:
    """By piece, the latest row of it and those before it in its partition."""
    falls = (latest[1:] < latest[:-1]) & (partition[1:] == partition[:-1])
    if not np.count_nonzero(falls):
        return latest
    order = sorting(partition, latest)  # partitions stay where they are
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    reached: Times = latest[order][np.maximum.accumulate(rank)]
    return reached
