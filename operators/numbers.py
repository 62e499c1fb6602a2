"""Columns of int64s: keys of what operators hold, how they are sorted, and tables in snapshots.

    numbers(payload=[0, 0, 1], vs=[4, 9, 4])        payload | vs
                                                     0      | 4  ...

A snapshot comes from outside, so what is read back is checked: the columns, no nulls, and that a
place, which stands for a row of another table, is one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.state import State, table
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Times

RANKED_SHARE = 16
"""As long as one number in so many is there, a table of all costs less than sorting them."""


def sorting(ids: Ids, times: Times) -> Ids:
    """The positions of pairs, sorted by id and then time; of equal ones in any order.

    As one number a pair where that fits, with INF as the time after the last: that takes a quarter
    of the time of sorting twice.
    """
    if not len(ids):
        return np.zeros(0, np.int64)
    last = min(INF, int(np.max(times, where=times < INF, initial=int(times.min()))) + 1)
    least = int(times.min())
    span = last - least + 1
    if (int(ids.max()) + 1) * span > INF:
        return np.lexsort((times, ids))
    return np.argsort(ids * span + (np.minimum(times, last) - least))


def unique(ids: Ids) -> Ids:
    """The different ids, ascending. Ids are dense: sorting them beats hashing."""
    ids = np.sort(ids)
    different: Ids = ids[np.diff(ids, prepend=-1) != 0]
    return different


def ranked(numbers: Ids, below: int) -> tuple[Ids, Ids]:
    """The different ones of numbers from 0 to `below`, ascending, and which of them each is."""
    if below > RANKED_SHARE * len(numbers):
        known, ranks = np.unique(numbers, return_inverse=True)
        return known, ranks
    there = np.zeros(below, np.bool_)
    there[numbers] = True
    known = there.nonzero()[0]
    rank = np.empty(below, np.int64)
    rank[known] = np.arange(len(known))
    return known, rank[numbers]


def read_numbers(state: State, name: str, *columns: str) -> list[Ids]:
    """The columns, all int64, of a table in a snapshot; raises `DecodeError` for another one."""
    rows = table(state, name, numbers_schema(*columns))
    if any(column.null_count for column in rows.columns):
        raise DecodeError(f"snapshot.{name}", "a null", "int64s")
    return [np.array(column.to_numpy()) for column in rows.columns]


def numbers(**columns: Ids) -> pa.RecordBatch:
    """The inverse of `read_numbers`: a table of int64 columns, for a snapshot.

    The arrays are not copied: a view of state that changes later must be.
    """
    return pa.RecordBatch.from_arrays(
        [pa.array(np.ascontiguousarray(c, np.int64)) for c in columns.values()],
        schema=numbers_schema(*columns),
    )


def numbers_schema(*columns: str) -> pa.Schema:
    """Columns of int64s that are never null: of keys, and of tables in snapshots."""
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in columns])


def at_places(ids: Ids, places: Ids, name: str) -> Ids:
    """The ids that stood at these places of a snapshot; `DecodeError` where there was none."""
    if len(places) and (places.min() < 0 or places.max() >= len(ids)):
        raise DecodeError(f"snapshot.{name}", "a place where nothing is", f"below {len(ids)}")
    found: Ids = ids[places]
    return found
