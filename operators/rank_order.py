"""The order in which rows are ranked: total, so that no order of arrival shows.

keys      largest first, or smallest first; then NaN; then null, whichever way it is, or null
          before all; rows of one value by the next key
ties      by payload, in the fixed order of `order.py`, the smallest first
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids
from gapless.operators.aside import Aside
from gapless.operators.evaluation import evaluate_rows
from gapless.operators.order import by_time_and_payload
from gapless.operators.rank_keys import RankKey
from gapless.protocol.casts import decoded
from gapless.protocol.frame import Frame


class Ranking:
    """Ranks rows by keys; those that a key has no answer for go aside."""

    def __init__(self, what: str, keys: Sequence[RankKey], aside: Aside) -> None:
        self._what = what
        self._keys = tuple(keys)
        self._aside = aside

    def usable(self, frame: Frame) -> Frame:
        """The rows that every key has an answer for."""
        for key in self._keys:
            _, ranked = evaluate_rows(key.by, frame.payload, self._aside, self._what)
            if ranked is not None:
                frame = frame.take(ranked, frame.stable)
        return frame

    def best_first(self, rows: pa.RecordBatch) -> Ids:
        """The positions of rows, the first of the ranking first. Each has been usable before."""
        places = np.zeros(rows.num_rows, np.int64)
        for key in self._keys:
            values, _ = evaluate_rows(key.by, rows, Aside(), self._what)
            own = places_of_values(values, key.largest, key.nulls_first)
            _, places = np.unique(places * (rows.num_rows + 1) + own, return_inverse=True)
        return by_places(places, rows)


def by_places(places: Ids, rows: pa.RecordBatch) -> Ids:
    """The positions of rows by their places; ties by payload."""
    return by_time_and_payload(places, places, rows).astype(np.int64)


def places_of_values(values: pa.Array, largest: bool, nulls_first: bool = False) -> Ids:
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
    if nulls_first:
        nulls = int(different.column(0).null_count)  # there is one at the most, and it is the last
        order = np.roll(order, nulls)
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
