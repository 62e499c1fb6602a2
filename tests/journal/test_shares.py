"""A batch is divided by partition, each row once, and counted as its facts will say."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.journal.layout import Layout
from gapless.journal.segment import span, times_of
from gapless.journal.shares import Shares
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.journal.journals import SCHEMA, Row, batch, by_partition, layout, memory

ROWS = st.lists(
    st.tuples(
        st.integers(0, 50), st.none() | st.sampled_from(["a", "b", "c", "dd"]), st.integers(0, 9)
    ),
    max_size=20,
)
OTHER = StreamSchema({"ts": "int64", "m": "int32"})


@given(ROWS, st.integers(1, 5), st.booleans())
def test_each_row_is_in_the_share_of_its_partition_and_is_counted_there(
    rows: list[Row], partitions: int, knows_times: bool
) -> None:
    shape = layout(partitions)
    whole = batch(rows)
    times = span(times_of(whole, shape)) if knows_times and rows else None
    shares = Shares(memory(), shape).of(whole, times)
    wanted = {p: some for p, some in by_partition(rows, partitions).items() if some}
    assert [share.partition for share in shares] == sorted(wanted)
    for share in shares:
        assert isinstance(share.rows, pa.RecordBatch)
        there = wanted[share.partition]
        columns = [column.to_pylist() for column in share.rows.columns]
        assert list(zip(*columns, strict=True)) == there
        at = [row[0] for row in there if row[0] is not None]
        part = share.part
        assert (part.rows, part.least, part.largest) == (len(there), min(at), max(at))


def test_a_frame_is_one_share_and_one_without_rows_is_none() -> None:
    shares = Shares(memory(), Layout(SCHEMA))
    assert shares.of(Frame.empty(SCHEMA, 7), None) == []


def test_what_a_journal_does_not_hold_is_refused_with_what_it_does() -> None:
    of_rows, of_frames = Shares(memory(), layout()), Shares(memory(), Layout(SCHEMA))
    with pytest.raises(Misuse, match="append record batches, not frames"):
        of_rows.frame(Frame.empty(SCHEMA))
    with pytest.raises(Misuse, match="append frames, not record batches"):
        of_frames.batch(batch([]))
    with pytest.raises(SchemaError, match="holds"):
        of_frames.frame(Frame.empty(OTHER))
    with pytest.raises(SchemaError, match="this is one of"):
        of_rows.batch(pa.RecordBatch.from_pylist([], schema=OTHER.payload))
    with pytest.raises(SchemaError, match="this is one of list"):
        of_rows.batch([])
