"""What `ends.py` asks of the kernel, in plain Python: the oracle of `cpp/ends.cpp`.

Arguments and answers are those of the native functions, which fill `found` and return counts.
Whatever they raise, nothing was changed.
"""

from __future__ import annotations

import numpy as np

from gapless.kernels.keys import Ids, Mask

BEGIN, INF = np.iinfo(np.int64).min, np.iinfo(np.int64).max
STARTS, OUTPUT, INPUTS = 0, 1, 2
SETTLED = -1


def _check(name: str, array: object, dtype: type, dimensions: int) -> None:
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != dtype
        or array.ndim != dimensions
        or not array.flags.c_contiguous
    ):
        raise TypeError(f"{name}: needs a contiguous {dtype.__name__} array")


def _check_ids(call: str, ends: Ids, ids: Ids, least: int) -> None:
    if ((ids < least) | (ids >= ends.shape[1])).any():
        raise ValueError(f"{call}: an id has no column")


def _check_input(call: str, ends: Ids, row: int) -> None:
    if not INPUTS <= row < len(ends):
        raise ValueError(f"{call}: row {row} is not an input's")


def take_ends(
    ends: Ids,
    mine: int,
    ids: Ids,
    first: Mask,
    vs: Ids,
    ve: Ids,
    was: Ids,
    stable: int,
    quorum: int,
    adjusts: bool,
    found: Ids,
) -> tuple[int, int, int, int]:
    """Takes in what the input of row `mine` says, element by element."""
    _check("ends", ends, np.int64, 2)
    _check("first", first, np.bool_, 1)
    _check("found", found, np.int64, 2)
    for name, array in (("ids", ids), ("vs", vs), ("ve", ve), ("was", was)):
        _check(name, array, np.int64, 1)
    if {len(a) for a in (first, vs, ve, was)} | {found.shape[1]} != {len(ids)} or len(found) != 3:
        raise ValueError("the arrays of one call need the same length")
    _check_input("take", ends, mine)
    _check_ids("take", ends, ids, SETTLED)
    before = ends.copy()
    chosen: list[int] = []
    chosen_was: list[int] = []
    settled: list[int] = []
    rows = zip(ids.tolist(), first.tolist(), vs.tolist(), ve.tolist(), was.tolist(), strict=True)
    for i, (key, is_new, start, end, old) in enumerate(rows):
        if key < 0:
            settled.append(i)
            continue
        column = ends[:, key]
        if is_new:
            column[:] = start
        held = int(column[mine])
        if held != (start if old == BEGIN else old):
            ends[:] = before
            return 0, 0, i, held
        column[mine] = end
        now = int(column[OUTPUT])
        if now == start:
            holders = int((column[INPUTS:] != start).sum()) + (end == start)
            goes = old == BEGIN and start >= stable and 0 < quorum <= holders
        else:
            goes = adjusts and end != now and min(now, end) >= stable
        if goes:
            column[OUTPUT] = end
            chosen.append(i)
            chosen_was.append(BEGIN if now == start else now)
    for row, values in enumerate((chosen, chosen_was, settled)):
        found[row, : len(values)] = values
    return len(chosen), len(settled), len(ids), 0


def sweep_ends(
    ends: Ids, count: int, mine: int, t: int, stable: int, follow: bool, found: Ids
) -> tuple[int, int, bool]:
    """Looks at what a stable t of the input of row `mine` freezes; changes nothing."""
    _check("ends", ends, np.int64, 2)
    _check("found", found, np.int64, 2)
    if len(found) != 2 or found.shape[1] < count:
        raise ValueError("sweep finds two things of each id")
    _check_input("sweep", ends, mine)
    if count > ends.shape[1]:
        raise ValueError("sweep: more ids than columns")
    starts, out, said = ends[STARTS, :count], ends[OUTPUT, :count], ends[mine, :count]
    lower = np.minimum(out, said)
    live = starts < INF
    wrong = live & (out != said) & ((lower < t) | (t == INF))
    if follow:
        wrong |= live & (out != said) & (out != starts) & (said != starts) & (lower >= stable)
    after = np.where(wrong & (lower >= stable), said, out)
    gone = live & ((after < t) | (t == INF))
    others = np.delete(ends[:, :count], (STARTS, OUTPUT, mine), axis=0)[:, gone]
    contested = (others != after[gone]) & (others != starts[gone])
    for row, ids in enumerate((wrong.nonzero()[0], gone.nonzero()[0])):
        found[row, : len(ids)] = ids
    return int(wrong.sum()), int(gone.sum()), bool(contested.any())


def clear_ends(ends: Ids, ids: Ids) -> None:
    """Frees columns."""
    _check("ends", ends, np.int64, 2)
    _check("ids", ids, np.int64, 1)
    _check_ids("clear", ends, ids, 0)
    ends[:, ids] = INF
