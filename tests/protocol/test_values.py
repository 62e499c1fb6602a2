from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.protocol.errors import FrameError
from gapless.protocol.values import canonical_float, from_values, payload_tuples, to_values
from tests.protocol.strategies import LEAF_TYPES, arrays, payload_types, values


@given(st.data(), payload_types())
def test_every_type_round_trips_from_values_to_arrow_and_back(
    data: st.DataObject, t: pa.DataType
) -> None:
    rows = data.draw(st.lists(values(t), max_size=6))
    array = from_values(rows, t)
    assert array.type == t
    assert to_values(array) == rows


@given(st.data(), payload_types())
def test_what_comes_out_of_a_column_makes_the_same_column(
    data: st.DataObject, t: pa.DataType
) -> None:
    array = data.draw(arrays(t))
    assert to_values(from_values(to_values(array), t)) == to_values(array)


@pytest.mark.parametrize("t", LEAF_TYPES, ids=str)
def test_values_hash(t: pa.DataType) -> None:
    @given(st.lists(values(t), max_size=4))
    def check(rows: list[Any]) -> None:
        assert len(set(to_values(from_values(rows, t)))) == len(set(rows))

    check()


@pytest.mark.parametrize("t", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_nan_equals_nan_and_zero_has_no_sign(t: pa.DataType) -> None:
    rows = [float("nan"), -float("nan"), 0.0, -0.0]
    batch = pa.record_batch([from_values(rows, t)], ["x"])
    nan, other_nan, zero, negative_zero = payload_tuples(batch)
    assert nan == other_nan
    assert hash(nan) == hash(other_nan)
    assert zero == negative_zero
    assert math.copysign(1, negative_zero[0]) == 1


def test_a_float_is_canonical_whatever_its_bits() -> None:
    assert canonical_float(-float("nan")) is canonical_float(float("nan"))
    assert math.copysign(1, canonical_float(-0.0)) == 1
    assert canonical_float(-1.5) == -1.5


def test_a_dictionary_is_equal_to_its_plain_column() -> None:
    plain = pa.array(["b", None, "a", "b"])
    with_spare_and_null = pa.DictionaryArray.from_arrays(
        pa.array([1, 3, 2, None], pa.int8()), pa.array(["z", "b", "a", None])
    )
    assert to_values(with_spare_and_null) == ["b", None, "a", None]
    assert to_values(plain.dictionary_encode()) == to_values(plain)


def test_timestamps_keep_their_nanoseconds_and_lose_their_zone() -> None:
    ticks = [1, 2**62 + 1, -7]
    for zone in (None, "UTC", "America/New_York"):
        array = pa.array(ticks, pa.int64()).view(pa.timestamp("ns", zone))
        assert to_values(array) == ticks


@pytest.mark.parametrize(
    ("t", "value"),
    [
        (pa.int8(), 128),
        (pa.uint64(), -1),
        (pa.int64(), "seven"),
        (pa.string(), b"\xff"),
        (pa.string(), 7),
        (pa.int64(), Decimal("1.5")),
        (pa.timestamp("ms"), Decimal("1.5")),
        (pa.decimal128(5, 2), Decimal("1.234")),
        (pa.decimal32(3, 0), Decimal(1000)),
        (pa.binary(2), b"abc"),
        (pa.time32("s"), 86_400),
        (pa.time64("ns"), -1),
        (pa.date64(), 5),
        (pa.struct([("x", pa.int8())]), (1, 2)),
        (pa.struct([("x", pa.int8())]), (300,)),
        (pa.dictionary(pa.int8(), pa.int8()), 300),
        (pa.month_day_nano_interval(), (1, 2)),
        (pa.timestamp("s"), 2**63),
        (pa.float32(), 1e39),
        (pa.float16(), -65_520.0),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_an_error_that_names_column_and_type(
    t: pa.DataType, value: Any
) -> None:
    with pytest.raises(FrameError) as caught:
        from_values([value], t, "speed")
    assert "speed" in str(caught.value)
    assert str(t) in str(caught.value)


@given(st.lists(st.floats(), max_size=3), st.lists(st.floats(), max_size=3))
@example([math.nan], [-math.nan])
@example([0.0], [-0.0])
def test_tuples_are_equal_exactly_when_the_payloads_are(a: list[float], b: list[float]) -> None:
    def same(x: float, y: float) -> bool:
        return x == y or (math.isnan(x) and math.isnan(y))

    wanted = len(a) == len(b) and all(map(same, a, b))
    got = [to_values(pa.array(rows, pa.float64())) for rows in (a, b)]
    assert (got[0] == got[1]) == wanted
