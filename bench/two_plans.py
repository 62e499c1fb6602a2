"""Two plans of one query, each dear where the other is cheap (LMerge paper, section VI-E.3).

Both select the same rows by a function of x. UDF0 is dear for small x, UDF1 for large x, and the
stream goes between small and large: so the better plan is another one in each phase. The functions
compute for as long as they cost; no clock is asked.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

X_MAX = 1_000
"""X lies below; the first half is small, the second large."""
CHEAP_ROUNDS, DEAR_ROUNDS = 2_500, 31_250
"""Of computing, for a row: about a microsecond against a dozen."""
SWITCHES = 9
"""The stream goes between small and large so often."""
SELECTED = pa.schema([("ts", pa.int64()), ("x", pa.int32())])


def small_is_dear(x: pa.Array) -> pa.Array:
    """UDF0: a selection that is dear for small x."""
    return selected(x, x.to_numpy() < X_MAX // 2, CHEAP_ROUNDS, DEAR_ROUNDS)


def large_is_dear(x: pa.Array) -> pa.Array:
    """UDF1: the same selection, dear for large x."""
    return selected(x, x.to_numpy() >= X_MAX // 2, CHEAP_ROUNDS, DEAR_ROUNDS)


def none_is_dear(x: pa.Array) -> pa.Array:
    """The same selection, as if it were known which of the two is cheap."""
    return selected(x, np.zeros(len(x), np.bool_), CHEAP_ROUNDS, DEAR_ROUNDS)


def selected(
    x: pa.Array, dear: npt.NDArray[np.bool_], cheap_rounds: int, dear_rounds: int
) -> pa.Array:
    """Which x are even, after so much computing for each of those that are dear and of others."""
    values = x.to_numpy()
    for rows, rounds in ((values[~dear], cheap_rounds), (values[dear], dear_rounds)):
        _compute(rows.astype(np.float64) / X_MAX, rounds)
    return pa.array(values % 2 == 0)


def _compute(v: npt.NDArray[np.float64], rounds: int) -> None:
    """The logistic map: work that nothing can leave out."""
    if not len(v):
        return
    w = np.empty_like(v)
    for _ in range(rounds):
        np.subtract(1.0, v, out=w)
        np.multiply(v, w, out=v)
        np.multiply(v, 3.7, out=v)


def alternating(n: int) -> pa.RecordBatch:
    """Phases of small and of large x, of random lengths."""
    rng = np.random.default_rng(9)
    ends = np.cumsum(rng.uniform(0.5, 1.5, SWITCHES + 1))
    phase = np.searchsorted(ends / ends[-1] * n, np.arange(n), side="right")
    x = rng.integers(0, X_MAX // 2, n) + phase % 2 * (X_MAX // 2)
    return pa.record_batch([np.arange(n, dtype=np.int64), x.astype(np.int32)], schema=SELECTED)


def expected(given: pa.RecordBatch) -> tuple[int, int]:
    """Rows selected in all, and their sum."""
    x = given.column("x").to_numpy()
    chosen = x[x % 2 == 0]
    return len(chosen), int(chosen.sum(dtype=np.int64))
