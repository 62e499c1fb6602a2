"""Rows for people: each has a form, whatever is in it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from gapless.protocol.plain_rows import plain_rows

FAR = (1 << 31) - 1
NO_TEXT = pa.array([b"caf\xe9"]).view(pa.string())


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([FAR], pa.int32()).view(pa.date32()), FAR),
        (pa.array([-FAR], pa.int32()).view(pa.date32()), -FAR),
        (pa.array([1 << 60], pa.timestamp("s")), 1 << 60),
        (pa.array([-(1 << 60)], pa.timestamp("us", "UTC")), -(1 << 60)),
        (pa.array([0], pa.timestamp("us", "No/Where")), 0),
        (pa.array([1 << 62], pa.duration("s")), 1 << 62),
        (pa.array([FAR], pa.int32()).view(pa.date32()).dictionary_encode(), FAR),
        (NO_TEXT, "caf\ufffd"),
        (NO_TEXT.cast(pa.large_string()), "caf\ufffd"),
        (pa.StructArray.from_arrays([NO_TEXT], ["s"]), "{'s': 'caf\ufffd'}"),
        (pa.array([float("nan")]), "nan"),
        (pa.array([b"\xff"]), "b'\\xff'"),
    ],
)
def test_a_value_that_python_has_no_form_for_is_shown_all_the_same(
    column: pa.Array, shown: object
) -> None:
    rows = plain_rows(pa.RecordBatch.from_arrays([column, pa.array(["b"])], ["a", "b"]))
    assert rows == [{"a": shown, "b": "b"}]
    assert json.loads(json.dumps(rows)) == rows


def test_a_null_beside_such_a_value_stays_null() -> None:
    dates = pa.array([FAR, None, 0], pa.int32()).view(pa.date32())
    rows = plain_rows(pa.RecordBatch.from_arrays([dates], ["d"]))
    assert [row["d"] for row in rows] == [FAR, None, "1970-01-01"]
