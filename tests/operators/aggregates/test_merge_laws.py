"""The laws of merge: which functions keep them, which break one, and on rows of which types."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.merge_laws import try_laws
from gapless.protocol.errors import Misuse
from tests.protocol.strategies import payload_types

INT64 = (pa.int64(),)


def count(*columns: pa.Array) -> int:
    return len(columns[0])


@given(t=payload_types())
def test_rows_are_drawn_of_every_type(t: pa.DataType) -> None:
    for of_rows in (False, True):
        try_laws(Custom(("x",), count, pa.int64(), operator.add, of_rows), (t,))
        with pytest.raises(Misuse, match="breaks a law"):
            try_laws(Custom(("x",), count, pa.int64(), max, of_rows), (t,))


def test_floats_may_differ_in_their_last_digits() -> None:
    def tenth(values: pa.Array) -> float:
        return float(sum(0.1 * x for x in values.to_pylist()))

    try_laws(Custom(("x",), tenth, pa.float64(), operator.add), INT64)


def test_answers_of_several_parts_are_compared_part_by_part() -> None:
    def mean(values: pa.Array) -> dict[str, float]:
        return {"n": len(values), "sum": float(sum(values.to_pylist()))}

    def both(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
        return {name: one[name] + other[name] for name in one}

    def of_one(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
        return {"n": one["n"] + other["n"], "sum": one["sum"]}

    returns = pa.struct([("n", pa.int64()), ("sum", pa.float64())])
    try_laws(Custom(("x",), mean, returns, both), INT64)
    with pytest.raises(Misuse, match="breaks a law"):
        try_laws(Custom(("x",), mean, returns, of_one), INT64)


def test_rows_for_which_a_function_raises_tell_nothing() -> None:
    def picky(_: pa.Array) -> int:
        raise ValueError("only addresses of ours")

    try_laws(Custom(("x",), picky, pa.int64(), max), INT64)


def test_a_null_is_neutral() -> None:
    def known(values: pa.Array) -> int | None:
        return max((x for x in values.to_pylist() if x > 0), default=None)

    try_laws(Custom(("x",), known, pa.int64(), max), INT64)


def test_a_function_without_a_hash_is_tried_as_well() -> None:
    class Counts:
        __hash__: Any = None

        def __call__(self, values: pa.Array) -> int:
            return len(values)

    try_laws(Custom(("x",), Counts(), pa.int64(), operator.add), INT64)
    with pytest.raises(Misuse, match="breaks a law"):
        try_laws(Custom(("x",), Counts(), pa.int64(), min), INT64)
