"""Batches made into declared columns: what does not fit is said, whatever the types are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gapless.engine.conform import Conform
from gapless.protocol.errors import SchemaError


def conformed(given: pa.Array, t: pa.DataType) -> tuple[list[Any], list[bool], list[str]]:
    columns, misfits = Conform(pa.schema([("x", t)]), "source s")(
        pa.RecordBatch.from_arrays([given], ["x"])
    )
    assert columns[0].type == t
    bad = misfits[0][1].tolist() if misfits else [False] * len(given)
    return columns[0].to_pylist(), bad, [why for why, _ in misfits]


def test_a_float_that_would_become_infinite_is_no_value_of_the_narrower_width() -> None:
    given = pa.array([1.5, 1e39, None, float("inf"), -1e300])
    values, bad, why = conformed(given, pa.float32())
    assert (values, bad) == (
        [1.5, None, None, float("inf"), None],
        [False, True, False, False, True],
    )
    assert why == ["x: the value is no float"]
    assert conformed(pa.array([1e5, 2.0]), pa.float16())[1] == [True, False]


def test_an_integer_becomes_a_decimal_of_any_digits_that_can_hold_it() -> None:
    values, bad, _ = conformed(pa.array([5, 500, None]), pa.decimal128(3, 2))
    assert (values, bad) == ([Decimal("5.00"), None, None], [False, True, False])


def test_a_dictionary_of_views_is_read_as_any_other() -> None:
    views = pa.array(["a", "b"], pa.string_view())
    given = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), views)
    for t in (pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert conformed(given, t)[0] == ["b", None, "a"]


def test_more_values_than_the_indices_count_are_a_mistake_in_the_declaration() -> None:
    given = pa.array([str(i) for i in range(200)])
    with pytest.raises(SchemaError, match=r"source s: column 'x': 200 different values .* wider"):
        conformed(given, pa.dictionary(pa.int8(), pa.string()))
