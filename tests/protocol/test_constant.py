"""A constant stands for its value, and takes the type of what stands beside it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.constant import Constant
from gapless.protocol.documents import pack, unpack
from gapless.protocol.expr import Expr, lit
from gapless.protocol.values import to_values
from tests.protocol.expressions import COMPARISONS, A
from tests.protocol.strategies import arrays, payload_types


@given(st.integers(0, 2**64 - 1), st.integers(0, 3))
def test_a_bare_number_bends_to_a_uint64_beside_it(a: int, n: int) -> None:
    batch = pa.record_batch([pa.array([a], pa.uint64())], ["a"])
    assert (n < A).evaluate(batch).to_pylist() == [a > n]
    assert (lit(n) == A).evaluate(batch).to_pylist() == [a == n]


@given(st.data(), payload_types())
def test_a_literal_of_every_payload_type_goes_through_a_document(
    data: st.DataObject, t: pa.DataType
) -> None:
    array = data.draw(arrays(t, length=1))
    there = lit(array[0])
    back = Expr.from_document(unpack(pack(there.to_document())))
    assert back.same_as(there)
    plain = t.value_type if pa.types.is_dictionary(t) else t
    one_row = pa.record_batch({"x": [0]})
    assert back.evaluate(one_row).type == there.evaluate(one_row).type == plain
    assert to_values(back.evaluate(one_row)) == to_values(array)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 7, 1.5, "x", b"x", Decimal("1.50"), dt.date(2020, 1, 2), dt.time(1, 2),
        dt.datetime(2020, 1, 2, tzinfo=dt.UTC), dt.timedelta(seconds=3), pa.scalar(7, pa.int8()),
    ],
    ids=repr,
)  # fmt: skip
def test_a_python_value_stands_for_itself(value: Any) -> None:
    there = lit(value)
    wanted = value.as_py() if isinstance(value, pa.Scalar) else value
    for tree in (there, Expr.from_document(there.to_document())):
        assert tree.evaluate(pa.record_batch({"x": [0, 1]})).to_pylist() == [wanted] * 2


INTEGERS = [pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


@given(st.data(), st.sampled_from(INTEGERS[:-1]), st.integers(-(2**63), 2**63 - 1))
def test_a_constant_compares_with_integers_of_any_width(
    data: st.DataObject, t: pa.DataType, number: int
) -> None:
    bits = t.bit_width - pa.types.is_signed_integer(t)
    low, high = -(2**bits) if pa.types.is_signed_integer(t) else 0, 2**bits - 1
    number = data.draw(st.sampled_from([number, low - 1, low, high, high + 1, 0, 5]))
    number = min(max(number, -(2**63)), 2**63 - 1)
    held = data.draw(st.lists(st.none() | st.integers(low, high) | st.sampled_from([low, high])))
    held += [None, low, high]
    batch = pa.RecordBatch.from_arrays([pa.array(held, t)], names=["a"])
    for compare in COMPARISONS:
        for expr, flipped in ((compare(A, number), False), (compare(lit(number), A), True)):
            wanted = [
                None if v is None else compare(number, v) if flipped else compare(v, number)
                for v in held
            ]
            assert expr.evaluate(batch).to_pylist() == wanted


def test_beside_an_integer_a_constant_is_one_of_its_type_where_that_holds_it() -> None:
    five, many = Constant.of(5), Constant.of(300)
    assert five.beside(pa.uint8()).type == pa.uint8()
    assert many.beside(pa.uint8()).type == pa.int64()
    assert five.beside(pa.float32()).type == pa.int64()
    assert five.beside(pa.uint8()) is five.beside(pa.uint8()), "cast once"
    said = Constant.of(5, "int64")
    assert [c.beside_uint64(c.scalar).type for c in (five, said, Constant.of(-5))] == [
        pa.uint64(),
        pa.int64(),
        pa.int64(),
    ]
