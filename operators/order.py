"""One fixed order of events: by `vs`, then `ve`, then payload, whatever order they arrived in.

Two replicas that release the same events must do so in the same order. So the order may depend on
nothing but the events: not on arrival, not on ids, not on how a dictionary was built. Payloads are
compared column by column, as Arrow sorts them:

    numbers, times, decimals   by value; of floats NaN is the largest, and -0.0 is 0.0
    bool                       false, true
    strings, binary            by their bytes
    dictionaries               by their values
    structs                    field by field; a null struct comes last, as every null does
    lists                      element by element; one that goes on comes after what it begins with
    intervals                  by months, then days, then nanoseconds

Arrow sorts record batches of most of these; the rest (half floats, view layouts, dictionaries,
intervals, structs, lists, and small decimals, which pyarrow 26 takes but puts in a wrong order) are
first turned into columns that it sorts in the order above. Payloads that compare as equal here are
equal by the product's rule, and the other way round: the order is total.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids
from gapless.operators.numbers import sorting
from gapless.protocol.columns import has_views, take, take_rows, without_views
from gapless.protocol.frame import Times
from gapless.protocol.lists import elements, lengths

_INTERVAL = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
"""How Arrow lays out a month_day_nano_interval."""
_RANK = np.dtype(">u4")
"""More than a column has elements."""


def by_time_and_payload(vs: Times, ve: Times, payload: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """The positions of the rows in the fixed order."""
    columns = [pa.array(vs), pa.array(ve)]
    for column in payload.columns:
        columns += _sortable(column)
    names = [str(i) for i in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    positions = pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in names])
    return np.asarray(positions.to_numpy(), np.uint64)


def by_key_and_rank(keys: Ids, times: Times, rows: pa.RecordBatch) -> Ids:
    """The positions of rows by key, then time, then payload; fast where few have both in common."""
    order = sorting(keys, times)
    same = (np.diff(keys[order]) == 0) & (np.diff(times[order]) == 0)
    if not np.count_nonzero(same):
        return order
    tied = np.zeros(len(order), np.bool_)  # with a neighbour
    tied[1:] |= same
    tied[:-1] |= same
    at = order[tied]
    ranked = by_time_and_payload(keys[at], times[at], take_rows(rows, at)).astype(np.int64)
    order[tied] = at[ranked]
    return order


def _sortable(column: pa.Array) -> Iterator[pa.Array]:
    """Columns of types that Arrow sorts, which in this order say what `column` says."""
    t = column.type
    if pa.types.is_dictionary(t):
        yield from _sortable(take(column.dictionary, column.indices))
    elif pa.types.is_struct(t):
        if column.null_count:
            yield column.is_null()
        for field in column.flatten():
            yield from _sortable(field)
    elif pa.types.is_list(t):
        yield _ranked(column)
    elif pa.types.is_interval(t):
        yield from _interval_parts(column)
    elif pa.types.is_float16(t):
        yield column.cast(pa.float32())
    elif pa.types.is_decimal32(t) or pa.types.is_decimal64(t):
        yield column.view(pa.int32() if t.bit_width == 32 else pa.int64())
    elif has_views(t):
        yield column.cast(without_views(t))
    else:
        yield column


def _ranked(column: pa.Array) -> pa.Array:
    """Lists as bytes in their order: of each element its rank among all, the highest byte first."""
    inside = pa.RecordBatch.from_arrays([elements(column)], ["item"])
    known = KeyTable(inside.schema)
    ids, _ = known.intern(inside)
    every = known.rows(np.arange(len(known)))
    nothing = np.zeros(len(known), np.int64)
    ranks = np.empty(len(known), _RANK)
    ranks[by_time_and_payload(nothing, nothing, every)] = np.arange(len(known))
    ends = np.concatenate([[0], np.cumsum(lengths(column))]) * _RANK.itemsize
    valid = column.is_valid().buffers()[1] if column.null_count else None
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(ranks[ids])]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def _interval_parts(column: pa.Array) -> Iterator[pa.Array]:
    parts = np.frombuffer(column.buffers()[1], _INTERVAL, len(column), column.offset * 16)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    for name in _INTERVAL.names or ():
        yield pa.array(parts[name], mask=missing)
