"""What a frame never holds: which rows, which columns, and what the refusal names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.elements import BEGIN, INF, Adjust, Insert
from gapless.protocol.errors import FrameError, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.protocol.plain_frames import SCHEMA, TIME_COLUMNS, batch_of
from tests.protocol.strategies import row_times

EDGES = st.integers(-2, 2) | st.sampled_from([BEGIN, BEGIN + 1, INF - 1, INF])


@given(st.lists(row_times(), max_size=3), st.tuples(EDGES, EDGES, EDGES))
def test_a_row_is_accepted_exactly_when_its_element_can_be_made(
    others: list[tuple[int, int, int]], row: tuple[int, int, int]
) -> None:
    vs, ve, was = row
    try:
        wanted = Insert(("A",), vs, ve) if was == BEGIN else Adjust(("A",), vs, was, ve)
    except FrameError:
        with pytest.raises(FrameError, match=f"row {len(others)} "):
            Frame(batch_of(*others, row))
    else:
        assert Frame(batch_of(*others, row)).elements()[-1] == wanted


@pytest.mark.parametrize("column", TIME_COLUMNS)
def test_a_time_is_never_null(column: int) -> None:
    row: list[Any] = [1, 2, BEGIN]
    row[column] = None
    with pytest.raises(FrameError, match=SCHEMA.arrow.names[column]):
        Frame(batch_of((1, 2, BEGIN), (row[0], row[1], row[2])))


def test_a_null_in_a_column_that_forbids_it_is_refused() -> None:
    schema = StreamSchema(pa.schema([pa.field("x", pa.int8(), nullable=False)]))
    one = np.array([1])
    with pytest.raises(FrameError, match="x: nulls"):
        Frame.from_columns(schema, one, one + 1, [pa.array([None], pa.int8())])


def test_a_null_inside_a_struct_counts_only_where_the_struct_is_there() -> None:
    inner = pa.struct([pa.field("x", pa.string_view(), nullable=False)])
    schema = StreamSchema({"s": inner})
    two = np.array([1, 1])

    def frame(xs: list[str | None], missing: list[bool]) -> Frame:
        column = pa.StructArray.from_arrays(
            [pa.array(xs, pa.string_view())], fields=list(inner), mask=pa.array(missing)
        )
        return Frame.from_columns(schema, two, two + 1, [column])

    assert [e.payload for e in frame(["A", None], [False, True]).elements()] == [  # type: ignore[union-attr]  # no stable in it
        (("A",),),
        (None,),
    ]
    with pytest.raises(FrameError, match="x: nulls"):
        frame(["A", None], [False, False])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([*list(SCHEMA.arrow)[:3], ("p", pa.int8())]), "column 3: expected"),
        (pa.schema([*list(SCHEMA.arrow)[:3], ("q", pa.string())]), "column 3: expected"),
        (pa.schema(list(SCHEMA.arrow)[:3]), "column 3: p string is missing"),
        (pa.schema([*SCHEMA.arrow, ("q", pa.int8())]), "column 4: unexpected"),
        (pa.schema([pa.field("_vs", pa.int64()), *list(SCHEMA.arrow)[1:]]), "column 0"),
    ],
    ids=["type", "name", "missing", "extra", "nullable time"],
)
def test_wrong_columns_are_named(schema: pa.Schema, said: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    with pytest.raises(SchemaError, match=said):
        Frame(batch, None, SCHEMA)


def test_a_batch_that_says_another_unit_is_refused_and_one_that_says_none_is_told() -> None:
    seconds = StreamSchema({"p": "string"}, "s")
    with pytest.raises(SchemaError, match="expected ms, got s"):
        Frame(seconds.empty_batch, None, SCHEMA)
    silent = seconds.empty_batch.replace_schema_metadata(None)
    assert StreamSchema.of_batch(Frame(silent, None, seconds).batch.schema) == seconds
