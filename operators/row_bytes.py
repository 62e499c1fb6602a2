"""How many bytes rows take, known before they are laid out again, and where to cut them.

    id      text                 bytes       at most 40 bytes, 3 rows
    int64   string
    1       "ab"                 14          }
    2       "a long text"        23          }  37
    3       "abc"                15             15

Of columns of one width that is a number, of texts it is their lengths, of lists what their elements
take. Of all others (structs, views) it is the mean of the batch that a row came with.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.kernels.keys import Ids
from gapless.protocol.lists import elements, lengths

OFFSET_BYTES = 4
"""What a value of a column of no one width takes beside itself."""


class RowBytes:
    """Of rows of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.least = 0
        """What each row takes; all of it where `is_fixed`."""
        self._variable = []
        for i, field in enumerate(schema):
            width = _width(field.type)
            self.least += OFFSET_BYTES if width is None else width
            if width is None:
                self._variable.append(i)

    @property
    def is_fixed(self) -> bool:
        """Whether all rows take as many."""
        return not self._variable

    def of(self, rows: pa.RecordBatch) -> Ids:
        """By row."""
        found = np.full(rows.num_rows, self.least, np.int64)
        for i in self._variable:
            column = rows.column(i)
            if len(column):
                found += _beside_offsets(column)
        return found


def _beside_offsets(column: pa.Array) -> Ids | int:
    """What each value takes, or all of them in the mean."""
    if pa.types.is_dictionary(column.type):  # laid out as what it stands for
        if not len(column.dictionary):
            return 0
        values = np.broadcast_to(_beside_offsets(column.dictionary), len(column.dictionary))
        found: Ids = values[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        return found
    if _has_length(column.type):
        lengths: Ids = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths
    if pa.types.is_list(column.type):
        return _of_lists(column)
    return int(column.nbytes) // len(column) if len(column) else 0


def _of_lists(column: pa.ListArray) -> Ids:
    counts, width = lengths(column), _width(column.type.value_type)
    if width is not None:
        return counts * width
    inside = elements(column)
    each = np.broadcast_to(OFFSET_BYTES + _beside_offsets(inside), len(inside))
    upto, ends = np.concatenate([[0], np.cumsum(each)]), np.cumsum(counts)
    found: Ids = upto[ends] - upto[ends - counts]
    return found


def _width(t: pa.DataType) -> int | None:
    if pa.types.is_dictionary(t):
        return None
    try:
        return -(-int(t.bit_width) // 8)
    except ValueError:  # of no one width
        return None


def _has_length(t: pa.DataType) -> bool:
    return any(
        is_it(t)
        for is_it in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def cuts(row_bytes: Ids, rows_max: int, bytes_max: int) -> Iterator[slice]:
    """Parts of rows that take so many bytes each: of no more rows and bytes than that, but of one
    row at least.
    """
    upto = np.cumsum(row_bytes)
    start, before = 0, 0
    while start < len(upto):
        end = int(np.searchsorted(upto, before + bytes_max, side="right"))
        end = max(start + 1, min(end, start + rows_max))
        yield slice(start, end)
        start, before = end, int(upto[end - 1])
