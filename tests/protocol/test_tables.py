"""Rows as people read them, in data frames and in notebooks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import TIME_UNITS, StreamSchema
from gapless.protocol.tables import CELL_CHARS_MAX, ROWS_SHOWN_MAX, html_of, readable, time_text


@given(
    st.sampled_from(TIME_UNITS),
    st.lists(st.integers(BEGIN, INF) | st.sampled_from([BEGIN, INF]), max_size=20),
)
def test_every_time_is_its_timestamp_and_inf_and_begin_are_nothing(
    unit: str, times: list[int]
) -> None:
    rows = pa.record_batch({"_vs": pa.array(times, pa.int64()), "_ve": pa.array(times, pa.int64())})
    table = readable(rows, unit)
    for name in ("_vs", "_ve"):
        assert table.schema.field(name).type == pa.timestamp(unit)
        told = table.column(name).cast(pa.int64()).to_pylist()
        assert told == [None if t in (BEGIN, INF) else t for t in times]


def test_other_columns_stay_as_they_are() -> None:
    rows = pa.table({"_vs": pa.array(["a"]), "n": pa.array([INF]), "_was": pa.array([INF])})
    table = readable(rows, "ms")
    assert table.column("_vs").to_pylist() == ["a"], "a text is no time, whatever it is called"
    assert table.column("n").to_pylist() == [INF]
    assert table.column("_was").to_pylist() == [None]


def test_times_far_beyond_the_years_of_python_are_there() -> None:
    far = 1 << 60
    schema = StreamSchema({"at": "timestamp[s]", "day": "date32"}, "s")
    payload = [pa.array([far], pa.timestamp("s")), pa.array([1], pa.date32())]
    frame = Frame.from_columns(schema, np.array([far]), np.array([INF]), payload)
    table = frame.to_pandas()
    assert table["_vs"].to_numpy().astype(np.int64).tolist() == [far]
    assert table["_ve"].tolist() == [pd.NaT]
    html = frame._repr_html_()
    assert html.count(str(np.datetime64(far, "s"))) == 2
    assert "<td>1970-01-02</td>" in html


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (BEGIN, "begin"),
        (INF, "inf"),
        (0, "1970-01-01T00:00:00.000"),
        (-1, "1969-12-31T23:59:59.999"),
    ],
)
def test_a_time_in_words(t: int, text: str) -> None:
    assert time_text(t, "ms") == text


def test_a_notebook_gets_the_first_rows_with_nothing_of_them_taken_for_markup() -> None:
    names = ["<b>", "x" * 1000, *map(str, range(ROWS_SHOWN_MAX))]
    html = html_of(pa.table({"name": names}), "ms", "22 & more")
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "x" * (CELL_CHARS_MAX + 1) not in html
    assert html.count("<tr>") == 1 + ROWS_SHOWN_MAX
    assert html.endswith("<p>22 &amp; more; 2 more rows</p>")
