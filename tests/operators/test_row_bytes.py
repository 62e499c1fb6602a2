"""What rows take, known before they are laid out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gapless.operators.row_bytes import OFFSET_BYTES, RowBytes

TEXTS = ["", "four", "a longer one"]


@pytest.mark.parametrize(
    ("t", "rows", "bytes_"),
    [
        (pa.list_(pa.int64()), [[1, 2], None, [], [7]], [16, 0, 0, 8]),
        (pa.list_(pa.bool_()), [[True] * 5, [None]], [5, 1]),
        (
            pa.list_(pa.string()),
            [TEXTS, ["four"], []],
            [16 + 3 * OFFSET_BYTES, 4 + OFFSET_BYTES, 0],
        ),
        (pa.list_(pa.list_(pa.int8())), [[[1], [], [2, 3]], None], [3 + 3 * OFFSET_BYTES, 0]),
    ],
    ids=str,
)
def test_a_list_takes_what_its_elements_take_and_no_mean_of_all(
    t: pa.DataType, rows: list[object], bytes_: list[int]
) -> None:
    column = pa.array([[]] * 3 + rows, t).slice(3)
    found = RowBytes(pa.schema([("l", t)])).of(pa.record_batch([column], ["l"]))
    assert found.tolist() == [OFFSET_BYTES + n for n in bytes_]
