"""Sub-aggregates of many ranges of a list at once, of functions that need not be subtracted.

    list      a b c d e f                      level 0
    level 1   ab bc cd de ef                   each is two of the level below
    level 2   abcd bcde cdef
    [1, 6)    b + cdef                         by the bits of its length, the lowest first

So n entries and p ranges cost (n + p) log n merges in a few calls, where ranges overlap however
much. Which entries are put together first depends on a range's length alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator


def over_ranges(
    states: Sequence[Accumulator],
    scratch: Sequence[Accumulator],
    partials: Sequence[pa.RecordBatch],
    low: Ids,
    high: Ids,
) -> None:
    """Puts into id i of `states` what the list has from low[i] to below high[i]. `states` and
    `scratch` are new; one of `partials` belongs to each.
    """
    lengths = high - low
    longest = int(lengths.max(initial=0))
    for state in states:
        state.fit(len(low))
    entries = int(lengths.sum())
    if entries <= (len(partials[0]) + len(low)) * longest.bit_length() and all(
        state.repeats for state in states
    ):
        ids = np.arange(len(low)).repeat(lengths)
        at = pa.array(np.arange(entries) - (np.cumsum(lengths) - lengths - low)[ids])
        for state, partial in zip(states, partials, strict=True):
            state.merge(ids, partial.take(at))
        return
    levels, at, width = list(partials), low.copy(), 1
    while width <= longest:
        asked = (lengths & width).nonzero()[0]
        if len(asked):
            places = pa.array(at[asked])
            for state, level in zip(states, levels, strict=True):
                state.merge(asked, level.take(places))
            at[asked] += width
        width *= 2
        if width <= longest:
            levels = [
                _of_two(state, level, width // 2)
                for state, level in zip(scratch, levels, strict=True)
            ]


def _of_two(scratch: Accumulator, level: pa.RecordBatch, apart: int) -> pa.RecordBatch:
    """Each entry with the one so far behind it."""
    n = max(0, level.num_rows - apart)
    ids = np.arange(n)
    scratch.fit(n)
    scratch.merge(ids, level.slice(0, n))
    scratch.merge(ids, level.slice(apart, n))
    made = scratch.take(ids)
    scratch.clear(ids)
    return made
