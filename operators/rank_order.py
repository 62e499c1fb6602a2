"""The order in which rows are ranked: total, so that no order of arrival shows.

by        largest first, or smallest first; then NaN; then null, whichever way it is
ties      by payload, in the fixed order of `order.py`, the smallest first
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids
from gapless.operators.order import by_time_and_payload
from gapless.protocol.casts import decoded


def best_first(by: pa.Array, rows: pa.RecordBatch, largest: bool) -> Ids:
    """The positions of rows, the first of the ranking first; row i is ranked by `by[i]`."""
    places = places_of_values(by, largest)
    return by_time_and_payload(places, places, rows).astype(np.int64)


def places_of_values(values: pa.Array, largest: bool) -> Ids:
    """By row, the place of its value among the different values in their order."""
    if pa.types.is_dictionary(values.type):
        values = decoded(values)  # what stands in it may be NaN, or null
    schema = pa.schema([pa.field("by", values.type)])
    table = KeyTable(schema)
    ids, first = table.intern(pa.RecordBatch.from_arrays([values], schema=schema))
    different = table.rows(ids[first])
    nothing = np.zeros(different.num_rows, np.int64)
    order = by_time_and_payload(nothing, nothing, different).astype(np.int64)
    if largest:
        numbers = different.num_rows - _without_order(different.column(0))
        order[:numbers] = order[:numbers][::-1]
    place = np.empty(len(order), np.int64)
    place[ids[first][order]] = np.arange(len(order))
    return place[ids]


def _without_order(different: pa.Array) -> int:
    """How many of these different values are NaN or null: they come last in both directions."""
    count = int(different.null_count)
    if pa.types.is_floating(different.type):
        numbers = different.drop_null().to_numpy(zero_copy_only=False)
        count += int(np.count_nonzero(np.isnan(numbers)))
    return count
