"""Rows of a batch by position: as Arrow's `take` gives them, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.kernels import KERNEL
from gapless.kernels.pick import Picker
from tests.kernels.conftest import Kernel
from tests.kernels.raw_columns import raw_batch, schemas

PLAIN = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int8()),
        ("c", pa.float32()),
        ("d", pa.decimal128(20)),
        ("e", pa.timestamp("ms")),
        ("f", pa.float16()),
    ]
)
SEEDS = st.integers(0, 2**32 - 1)


def plain(rows: int) -> pa.RecordBatch:
    columns = [
        pa.array(np.arange(rows), pa.int64()).cast(t) if t != pa.float16() else halves(rows)
        for t in PLAIN.types
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PLAIN)


def halves(rows: int) -> pa.Array:
    return pa.array(np.arange(rows).astype(np.float16))


@given(schema=schemas(), seed=SEEDS)
def test_differential_whatever_it_picks_arrow_takes(schema: pa.Schema, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = raw_batch(rng, schema, int(rng.choice([1, 20, 300])))
    positions = rng.integers(0, batch.num_rows, int(rng.integers(0, 40)))
    picked = Picker(schema).take(batch, positions)
    if picked is None:
        return
    picked.validate(full=True)
    for column, expected in zip(picked.columns, batch.columns, strict=True):
        # Bit by bit: comparing as Arrow does would let NaN differ from NaN.
        width = column.type.bit_width // 8
        got, whole = (
            bytes(c.buffers()[1])[c.offset * width : (c.offset + len(c)) * width]
            for c in (column, expected)
        )
        assert got == b"".join(whole[p * width : (p + 1) * width] for p in positions)


@pytest.mark.usefixtures("native")
def test_plain_columns_are_picked_also_out_of_a_slice() -> None:
    if KERNEL != "native":
        pytest.skip("the twin picks nothing")
    whole = plain(100)
    for batch in (whole, whole.slice(7), whole.slice(50, 20)):
        for positions in ([0, 3, 19], [], [5, 5, 0]):
            picked = Picker(PLAIN).take(batch, np.array(positions, np.int64))
            assert picked is not None
            picked.validate(full=True)
            assert picked.equals(batch.take(pa.array(positions, pa.int64())))


def test_a_column_outlives_its_batch() -> None:
    picked = Picker(PLAIN).take(plain(100), np.array([7, 5]))
    if picked is None:
        pytest.skip("the twin picks nothing")
    column = picked.column(0)
    del picked
    assert column.to_pylist() == [7, 5]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False]),
        pa.array(["a", "b"]),
        pa.array([1, None]),
        pa.array([1, 2]).dictionary_encode(),
        pa.array([{"x": 1}, {"x": 2}]),
        pa.array(["a", "b"], pa.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_other_columns_are_left_to_arrow(column: pa.Array) -> None:
    batch = pa.record_batch([pa.array([1, 2]), column], names=["a", "b"])
    assert Picker(batch.schema).take(batch, np.array([1, 0])) is None


def test_a_batch_of_another_schema_is_left_to_arrow() -> None:
    other = pa.record_batch([pa.array([1], pa.int32())], names=["a"])
    assert Picker(pa.schema([("a", pa.int64())])).take(other, np.array([0])) is None


@pytest.mark.parametrize("bad", [[-1], [0, 10], [2**62]])
def test_a_position_that_is_not_a_rows_is_refused(native: Kernel, bad: list[int]) -> None:
    widths = np.array([t.bit_width // 8 for t in PLAIN.types], np.int64)
    with pytest.raises(ValueError, match="not a row's"):
        native.raw.gather(plain(10), np.array(bad), widths)


@pytest.mark.parametrize("positions", [[0], np.zeros(1), np.zeros(1, np.int32), np.zeros((1, 1))])
def test_positions_are_int64_in_one_dimension(native: Kernel, positions: Any) -> None:
    with pytest.raises(TypeError):
        native.raw.gather(plain(10), positions, np.full(6, 8))


def test_one_width_a_column_is_needed(native: Kernel) -> None:
    with pytest.raises(ValueError, match="one width a column"):
        native.raw.gather(plain(10), np.array([0]), np.array([8]))


def test_what_nobody_takes_over_is_given_back(native: Kernel) -> None:
    widths = np.array([t.bit_width // 8 for t in PLAIN.types], np.int64)
    for _ in range(3):
        assert native.raw.gather(plain(10), np.arange(10), widths) is not None
