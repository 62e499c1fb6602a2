from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.columns import compact, take
from gapless.protocol.elements import BEGIN, INF, Adjust, Insert, Stable
from gapless.protocol.errors import FrameError, SchemaError
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import to_values
from tests.protocol.plain_frames import SCHEMA, batch_of
from tests.protocol.strategies import arrays, frames, payload_types, row_times, stables

# -- making one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stable", [BEGIN, BEGIN - 1, INF + 1])
def test_a_stable_is_checked_wherever_it_comes_in(stable: int) -> None:
    frame = Frame(batch_of((1, 2, BEGIN)))
    with pytest.raises(FrameError, match="stable"):
        Frame(frame.batch, stable)
    for derive in (frame.slice, frame.take):
        argument: Any = 0 if derive == frame.slice else np.array([0])
        with pytest.raises(FrameError, match="stable"):
            derive(argument, stable=stable)
    with pytest.raises(FrameError, match="stable"):
        frame.with_stable(stable)


def test_columns_that_do_not_fit_are_one_frame_error() -> None:
    one = np.array([1])
    for payload in ([], [pa.array([[7]])], [pa.array(["A", "B"])], [pa.array(["A"])] * 2):
        with pytest.raises(FrameError):
            Frame.from_columns(SCHEMA, one, one + 1, payload)
    with pytest.raises(FrameError, match="1 columns"):
        Frame.from_elements(SCHEMA, [Insert(("A", "B"), 1, 2)])
    with pytest.raises(FrameError, match="ends with its stable"):
        Frame.from_elements(SCHEMA, [Stable(1), Stable(2)])


# -- frames from frames ---------------------------------------------------------------------------


@given(frames())
def test_elements_make_the_frame_that_they_came_from(frame: Frame) -> None:
    elements = frame.elements()
    again = Frame.from_elements(frame.schema, elements)
    assert again == frame
    assert again.elements() == elements


@given(st.data(), frames())
def test_a_slice_has_its_parents_rows(data: st.DataObject, frame: Frame) -> None:
    start = data.draw(st.integers(0, len(frame)))
    length = data.draw(st.integers(0, len(frame)))
    stable = data.draw(stables())
    part = frame.slice(start, length, stable)
    rows = frame.with_stable(None).elements()[start : start + length]
    assert part.elements() == rows + ([] if stable is None else [Stable(stable)])
    assert part.compact() == part


@given(st.data(), frames())
def test_taking_by_mask_and_by_position_pick_the_same_rows(
    data: st.DataObject, frame: Frame
) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(frame), max_size=len(frame))))
    mask = mask.astype(np.bool_)
    rows = [e for e, picked in zip(frame.with_stable(None).elements(), mask, strict=True) if picked]
    assert frame.take(mask).elements() == rows
    assert frame.take(np.flatnonzero(mask)).elements() == rows
    assert frame.inserts.elements() + frame.adjusts.elements() == sorted(
        frame.with_stable(None).elements(), key=lambda e: isinstance(e, Adjust)
    )


@given(st.data(), frames())
def test_concat_undoes_a_cut(data: st.DataObject, frame: Frame) -> None:
    cut = data.draw(st.integers(0, len(frame)))
    parts = [frame.slice(0, cut), frame.slice(cut, None, frame.stable)]
    assert Frame.concat(parts) == frame


def test_concat_of_inserts_and_adjusts_knows_that_it_has_both() -> None:
    inserts, adjusts = Frame(batch_of((1, 2, BEGIN))), Frame(batch_of((1, 3, 2)))
    assert inserts.insert_only
    assert not Frame.concat([inserts, adjusts]).insert_only
    assert Frame.concat([inserts, inserts]).insert_only


def test_concat_refuses_what_it_cannot_join() -> None:
    ended = Frame.empty(SCHEMA, 5)
    with pytest.raises(FrameError, match="only the last"):
        Frame.concat([ended, ended])
    with pytest.raises(FrameError, match="one frame at least"):
        Frame.concat([])
    with pytest.raises(SchemaError, match="column 3"):
        Frame.concat([Frame.empty(SCHEMA), Frame.empty(StreamSchema({"p": "int8"}))])


@given(frames())
def test_a_frame_survives_pickling(frame: Frame) -> None:
    again = pickle.loads(pickle.dumps(frame))  # noqa: S301  # our own bytes
    assert again == frame
    assert again.schema == frame.schema
    assert again.stable == frame.stable


@given(st.data(), st.lists(st.one_of(row_times(), stables().filter(lambda t: t is not None))))
def test_a_stream_is_cut_after_each_stable_and_loses_nothing(
    data: st.DataObject, rows: list[Any]
) -> None:
    def element(row: Any) -> Insert | Adjust | Stable:
        if isinstance(row, int):
            return Stable(row)
        vs, ve, was = row
        p = (data.draw(st.sampled_from("AB")),)
        return Insert(p, vs, ve) if was == BEGIN else Adjust(p, vs, was, ve)

    elements = [element(row) for row in rows]
    cut = list(frames_of(SCHEMA, elements))
    assert [e for frame in cut for e in frame.elements()] == elements
    assert all(frame.stable is not None for frame in cut[:-1])
    assert all(cut)


# -- memory ---------------------------------------------------------------------------------------

WIDE = StreamSchema(
    {
        "number": "int64",
        "text": "string",
        "view": "string_view",
        "word": pa.dictionary(pa.int32(), pa.string()),
        "struct": pa.struct([("view", pa.binary_view()), ("flag", pa.bool_())]),
    }
)


def wide_frame(rows: int) -> Frame:
    names = [f"a name of some length, number {i}" for i in range(rows)]
    start = np.arange(rows)
    struct = [{"view": name.encode(), "flag": True} for name in names]
    columns = [
        pa.array(start),
        pa.array(names),
        pa.array(names, pa.string_view()),
        pa.array(names).dictionary_encode(),
        pa.array(struct, WIDE.payload.field("struct").type),
    ]
    return Frame.from_columns(WIDE, start, start + 1, columns)


def test_a_slice_leaves_its_parents_bytes_behind_when_pickled_or_compacted() -> None:
    whole = wide_frame(5_000)
    part = whole.slice(2_000, 4)
    assert part.batch.get_total_buffer_size() > 500_000
    assert part.compact().batch.get_total_buffer_size() < 3_000
    assert part.compact() == part
    assert len(pickle.dumps(part)) < len(pickle.dumps(wide_frame(4))) + 1_000


def test_a_frame_that_is_compact_is_not_copied() -> None:
    frame = wide_frame(1_000)
    address = frame.batch.column(0).buffers()[1].address
    assert frame.compact().batch.column(0).buffers()[1].address == address


@given(st.data(), payload_types())
def test_a_compacted_column_has_the_same_rows_and_type(data: st.DataObject, t: pa.DataType) -> None:
    array = data.draw(arrays(t))
    small = compact(array)
    assert small.type == t
    assert to_values(small) == to_values(array)
    small.validate(full=True)


@given(st.data(), payload_types())
def test_rows_can_be_taken_from_every_type(data: st.DataObject, t: pa.DataType) -> None:
    array = data.draw(arrays(t))
    picked = data.draw(st.lists(st.integers(0, max(0, len(array) - 1)), max_size=len(array)))
    taken = take(array, pa.array(picked, pa.int64()))
    assert taken.type == t
    assert to_values(taken) == [to_values(array)[i] for i in picked]


# -- for people -----------------------------------------------------------------------------------


def test_a_frame_is_true_when_it_says_something() -> None:
    assert not Frame.empty(SCHEMA)
    assert Frame.empty(SCHEMA, 5)
    assert Frame(batch_of((1, 2, BEGIN)))
    assert repr(Frame(batch_of((1, 2, BEGIN)), INF)) == "Frame(1 rows, stable(inf))"


def test_a_frame_is_no_key() -> None:
    with pytest.raises(TypeError):
        hash(Frame.empty(SCHEMA))


def test_pandas_sees_times_as_timestamps_and_nothing_where_there_is_no_time() -> None:
    table = Frame(batch_of((1, INF, BEGIN), (1, 7, INF))).to_pandas()
    assert table.columns.tolist() == ["_vs", "_ve", "_was", "p"]
    assert table["_vs"].tolist() == [pd.Timestamp(1, unit="ms")] * 2
    assert table["_ve"].tolist() == [pd.NaT, pd.Timestamp(7, unit="ms")]
    assert table["_was"].isna().all()


def test_times_in_columns_are_int64_and_a_stable_is_an_int() -> None:
    one = np.array([1], np.int64)
    for bad in (np.array([1.5]), np.array([1], np.int32)):
        with pytest.raises(FrameError, match="they are int64"):
            Frame.from_columns(SCHEMA, bad, one + 1, [])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(FrameError, match="a time is an integer"):
        Frame.empty(SCHEMA, 1.5)  # type: ignore[arg-type]  # wrong on purpose
    stable = Frame.empty(SCHEMA, np.int64(5)).stable  # type: ignore[arg-type]  # common enough
    assert type(stable) is int


def test_other_ends_make_a_frame_of_the_same_schema_that_is_checked_while_we_test() -> None:
    vs = np.arange(3)
    frame = Frame.from_columns(SCHEMA, vs, vs + 1, [pa.array(["a", "b", "c"])], stable=5)
    longer = frame.with_ends(vs + 7)
    assert longer.elements() == [Insert((p,), t, t + 7) for t, p in enumerate("abc")]
    assert longer.batch.schema.equals(SCHEMA.arrow, check_metadata=True)
    assert longer.insert_only
    with pytest.raises(FrameError):
        frame.with_ends(vs)
