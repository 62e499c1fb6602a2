"""What Arrow cannot do, or does wastefully, with columns of some types that a payload may have.

- `take` and `filter` do not know the view layouts (string_view, binary_view), nor structs of them.
  In lists there are none (`lists.py`).
- Arrow writes a sliced column without its parent's bytes, but not one in a view layout (its data
  buffers go whole) nor a dictionary (all its values go). `compact` leaves what the rows need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INT64 = pa.int64()
_VIEW_BYTES = 16
_INLINE_BYTES = 12  # a view up to this long holds its bytes itself


def int64s(values: np.typing.NDArray[np.int64]) -> pa.Array:
    """Times, ids or counts as a column, without a copy: `pa.array` first asks what it was given,
    which takes longer than a few rows.
    """
    held = values if values.flags.c_contiguous else values.copy()
    return pa.Array.from_buffers(_INT64, len(held), [None, pa.py_buffer(held)])


def has_views(t: pa.DataType) -> bool:
    """Whether type `t` is a view layout or a struct that has one in it."""
    if pa.types.is_struct(t):
        return any(has_views(field.type) for field in t)
    return bool(pa.types.is_string_view(t) or pa.types.is_binary_view(t))


def without_views(t: pa.DataType) -> pa.DataType:
    """The large layout in place of a view layout; any other type as it is."""
    if pa.types.is_string_view(t):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(t) else t


def take(array: pa.Array, rows: pa.Array) -> pa.Array:
    """The rows at the given positions, or those that a mask picks; of every payload type."""
    t = array.type
    if has_views(t):
        if pa.types.is_struct(t):
            children = [take(array.field(i), rows) for i in range(t.num_fields)]
            mask = take(array.is_null(), rows)
            return pa.StructArray.from_arrays(children, fields=list(t), mask=mask)
        return take(array.cast(without_views(t)), rows).cast(t)
    return array.filter(rows) if pa.types.is_boolean(rows.type) else array.take(rows)


def take_rows(batch: pa.RecordBatch, rows: np.typing.NDArray[Any]) -> pa.RecordBatch:
    """`take` of all columns: the rows that a mask or an array of positions names."""
    picked = pa.array(rows)
    if any(has_views(t) for t in batch.schema.types):
        columns = [take(column, picked) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch.filter(picked) if rows.dtype == np.bool_ else batch.take(picked)


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one. Arrow unites no dictionaries in which a value is null: such a null is one of
    the indices then. Raises Arrow's errors.
    """
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid:
        return pa.concat_batches([_without_null_values(batch) for batch in batches])


def _without_null_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_null_by_index(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _null_by_index(array: pa.Array) -> pa.Array:
    t = array.type
    if pa.types.is_struct(t):
        children = [_null_by_index(array.field(i)) for i in range(t.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(t), mask=mask)
    if not pa.types.is_dictionary(t) or not array.dictionary.null_count:
        return array
    there = array.dictionary.is_valid().to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(there) - 1, t.index_type, mask=~there)
    values = take(array.dictionary, pa.array(there))
    return pa.DictionaryArray.from_arrays(places.take(array.indices), values, ordered=t.ordered)


def compact(array: pa.Array) -> pa.Array:
    """The same rows, without the bytes and dictionary values that they do not use.

    Hands `array` itself back where there is little to gain.
    """
    t = array.type
    if pa.types.is_dictionary(t) and len(array.dictionary) > len(array):
        used = pa.array(np.unique(array.indices.drop_null().to_numpy()), t.index_type)
        indices = pc.index_in(array.indices, used).cast(t.index_type)
        return pa.DictionaryArray.from_arrays(
            indices, take(array.dictionary, used), ordered=t.ordered
        )
    if pa.types.is_struct(t) and any(can_shrink(field.type) for field in t):
        children = [compact(array.field(i)) for i in range(t.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(t), mask=mask)
    if has_views(t) and not pa.types.is_struct(t) and _is_sparse(array):
        return array.cast(without_views(t)).cast(t)
    return array


def compact_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of about their own size: a slice lets go of its parent's buffers."""
    columns = [compact(column) for column in batch.columns]
    batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    if batch.get_total_buffer_size() <= 2 * batch.nbytes:
        return batch
    sink = pa.BufferOutputStream()  # Arrow's writer is what cuts buffers to the rows
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_next_batch()


def can_shrink(t: pa.DataType) -> bool:
    """Whether `compact` may have something to do for columns of type `t`."""
    if pa.types.is_struct(t):
        return any(can_shrink(field.type) for field in t)
    return pa.types.is_dictionary(t) or has_views(t)


def _is_sparse(array: pa.Array) -> bool:
    """Whether a column of views holds over twice the bytes that its rows refer to."""
    held = sum(buffer.size for buffer in array.buffers()[2:] if buffer is not None)
    if not held:
        return False
    first = array.offset * _VIEW_BYTES
    views = np.frombuffer(array.buffers()[1], np.int32, len(array) * _VIEW_BYTES // 4, first)
    sizes = views[::4].astype(np.int64)
    return bool(held > 2 * int(sizes[sizes > _INLINE_BYTES].sum()))
