"""The fixed order of events: total, and blind to everything but the events."""

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.order import by_time_and_payload
from gapless.protocol.frame import Frame
from gapless.protocol.values import from_values, payload_tuples
from tests.protocol.strategies import arrays, frames, payload_types


def in_order(frame: Frame) -> list[tuple[Any, ...]]:
    positions = by_time_and_payload(frame.vs, frame.ve, frame.payload)
    taken = frame.take(positions)
    times = zip(taken.vs.tolist(), taken.ve.tolist(), strict=True)
    return [(*t, p) for t, p in zip(times, payload_tuples(taken.payload), strict=True)]


@given(frames(), st.randoms(use_true_random=False))
def test_any_arrangement_of_the_same_events_has_one_order(frame: Frame, rng: random.Random) -> None:
    again = frame.take(np.array(rng.sample(range(len(frame)), len(frame)), np.int64))
    assert in_order(frame) == in_order(again)
    assert [e[:2] for e in in_order(frame)] == sorted(e[:2] for e in in_order(frame))


@given(payload_types().flatmap(lambda t: arrays(t, length=6)), st.permutations(range(6)))
def test_payloads_alone_have_one_order_whatever_their_type(
    column: pa.Array, places: list[int]
) -> None:
    def values(order: list[int]) -> list[tuple[Any, ...]]:
        picked = from_values([rows[i] for i in order], column.type)  # other dictionaries, too
        batch = pa.RecordBatch.from_arrays([picked], ["p"])
        zeros = np.zeros(6, np.int64)
        positions = by_time_and_payload(zeros, zeros, batch).tolist()
        return [rows[order[i]] for i in positions]

    rows = [row[0] for row in payload_tuples(pa.RecordBatch.from_arrays([column], ["p"]))]
    assert values(list(range(6))) == values(places)


@pytest.mark.parametrize(
    ("t", "ascending"),
    [
        (pa.int8(), [-5, 0, 7, None]),
        (pa.float16(), [-1.5, 0.0, 2.0, float("inf"), float("nan"), None]),
        (pa.float64(), [float("-inf"), 0.0, 1e300, float("nan"), None]),
        (pa.decimal32(5, 2), [Decimal("-1.50"), Decimal("0.25"), Decimal("10.00"), None]),
        (pa.decimal256(60, 5), [Decimal("-1.50000"), Decimal("10.00000"), None]),
        (pa.bool_(), [False, True, None]),
        (pa.string_view(), ["", "Z", "a", "ab", "é", None]),
        (pa.binary_view(), [b"", b"\x00", b"\x7f", b"\xff", None]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c", None]),
        (pa.month_day_nano_interval(), [(-1, 9, 9), (0, -1, 5), (0, 0, -2), (0, 0, 1), None]),
        (
            pa.struct([("x", pa.int8()), ("y", pa.string())]),
            [(1, "b"), (2, "a"), (None, "a"), None],
        ),
    ],
    ids=str,
)
def test_values_ascend_as_the_table_says(t: pa.DataType, ascending: list[Any]) -> None:
    shuffled = random.Random(4).sample(range(len(ascending)), len(ascending))
    batch = pa.RecordBatch.from_arrays([from_values([ascending[i] for i in shuffled], t)], ["p"])
    zeros = np.zeros(len(ascending), np.int64)
    positions = by_time_and_payload(zeros, zeros, batch)
    assert [shuffled[i] for i in positions.tolist()] == list(range(len(ascending)))
