"""Columns from Spark's types to a journal's and back: exact, and what does not fit is said."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.protocol.errors import BadData
from gapless.protocol.values import to_values
from gapless.spark_sources import conform
from gapless.spark_sources.conform import Conformed, conformed, for_spark
from gapless.spark_sources.spark_types import spark_fields
from tests.spark_sources.test_data_source_options import TYPES

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INT64_MAX = 2**63 - 1


def spark_form(t: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark sends a journal's type."""
    schema = to_arrow_schema(spark_fields([pa.field("x", t)]), timezone="UTC")
    return schema.field("x").type


def values_of(t: pa.DataType, rng: random.Random, nulls: float = 0.2) -> pa.Array:
    """Random values of a journal's type that Spark can hold, some null, behind others."""
    count = 60
    if pa.types.is_struct(t):
        children = [values_of(f.type, rng, nulls if f.nullable else 0) for f in t]
        rows = len(children[0])
        mask = pa.array([rng.random() < nulls for _ in range(rows)])
        fields = [pa.field(f.name, f.type) for f in t]
        loose = pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        return pa.StructArray.from_arrays(loose.flatten(), fields=list(t), mask=mask)
    if pa.types.is_list(t):
        nulls_in = nulls if t.value_field.nullable else 0
        ends = np.cumsum([0, *(rng.randrange(3) for _ in range(count))])
        items = [values_of(t.value_type, rng, nulls_in) for _ in range(3)]
        mask = pa.array([rng.random() < nulls for _ in range(count)])
        offsets, inside = pa.array(ends, pa.int32()), pa.concat_arrays(items)
        return pa.ListArray.from_arrays(offsets, inside, type=t, mask=mask).slice(7)
    if pa.types.is_dictionary(t):
        plain = values_of(t.value_type, rng, nulls).dictionary_encode()
        indices = plain.indices.cast(t.index_type)
        return pa.DictionaryArray.from_arrays(indices, plain.dictionary, ordered=t.ordered)
    made: list[Any] = [value_of(t, rng) for _ in range(count)]
    made = [None if rng.random() < nulls else value for value in made]
    if pa.types.is_temporal(t):
        raw = pa.int32() if t.bit_width == 32 else pa.int64()
        return pa.array(made, raw).view(t).slice(7)
    return pa.array(made, t).slice(7)


def value_of(t: pa.DataType, rng: random.Random) -> Any:
    if pa.types.is_boolean(t):
        return rng.random() < 0.5
    if pa.types.is_integer(t):
        least = 0 if pa.types.is_unsigned_integer(t) else -(2 ** (t.bit_width - 1))
        return rng.choice([least, least + 2**t.bit_width - 1, rng.randrange(100)])
    if pa.types.is_floating(t):
        return float(np.float32(rng.choice([-0.0, 1.5, float("nan"), float("inf"), rng.random()])))
    if pa.types.is_decimal(t):
        return Decimal(rng.randint(-(10**t.precision) + 1, 10**t.precision - 1)).scaleb(-t.scale)
    if pa.types.is_date32(t):
        return rng.randrange(-(10**6), 10**6)
    if pa.types.is_date64(t):
        return rng.randrange(-(10**6), 10**6) * 86_400_000
    if pa.types.is_time(t):
        return rng.randrange(86_400 * PER_SECOND[t.unit])
    if pa.types.is_temporal(t):
        step = 1_000 if t.unit == "ns" else 1
        most = INT64_MAX // (10**6 // PER_SECOND[t.unit] if t.unit in ("s", "ms") else 1)
        return rng.randint(-most // step, most // step) * step
    if pa.types.is_fixed_size_binary(t):
        return rng.randbytes(t.byte_width)
    text = "".join(rng.choices("aé日🦆", k=rng.randrange(20)))
    is_text = pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
    return text if is_text else text.encode()


def clean(array: pa.Array) -> list[Any]:
    """Values, of a struct that is null only that."""
    valid = array.is_valid().to_pylist()
    return [v if ok else None for v, ok in zip(map(repr, to_values(array)), valid, strict=True)]


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_every_value_comes_back_as_it_was(t: pa.DataType) -> None:
    rng = random.Random(str(t))
    for _ in range(5):
        array = values_of(t, rng)
        there, misfits = conformed(array, spark_form(t))
        assert misfits is None
        assert there.type == spark_form(t)
        back, misfits = conformed(there, t)
        assert misfits is None
        assert back.type == t
        back.validate(full=True)
        assert clean(back) == clean(array)
        empty, misfits = conformed(there.slice(0, 0), t)
        assert (len(empty), empty.type, misfits) == (0, t, None)


def test_what_agrees_is_handed_on_as_it_is() -> None:
    for t in (pa.int64(), pa.string(), pa.timestamp("us"), pa.struct([("a", pa.int8())])):
        array = pa.nulls(3, t)
        assert conformed(array, t).column is array


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
@pytest.mark.parametrize("make", [pa.timestamp, pa.duration])
def test_a_time_between_two_ticks_or_beyond_all_does_not_fit(unit: str, make: Any) -> None:
    rng = random.Random(unit)
    step = max(1, 10**6 // PER_SECOND[unit])
    per_micro = max(1, PER_SECOND[unit] // 10**6)
    micros = [rng.randint(-(10**15), 10**15) // step * step for _ in range(50)]
    micros += [m + rng.choice((-1, 1)) for m in micros]
    micros += [0, step, -step, INT64_MAX, -INT64_MAX - 1, INT64_MAX // per_micro]
    array = pa.array([None, *micros], pa.int64()).view(make("us")).slice(1)
    column, misfits = conformed(array, make(unit))
    expected = [m % step != 0 or not -(2**63) <= m * per_micro <= INT64_MAX for m in micros]
    assert misfits is not None
    assert misfits.tolist() == expected
    got = column.view(pa.int64()).to_pylist()
    assert all(
        tick * step == m * per_micro
        for tick, m, bad in zip(got, micros, expected, strict=True)
        if not bad
    )


def test_that_check_sees_a_time_that_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(array: pa.Array, t: pa.DataType) -> Conformed:
        return Conformed(array.cast(t, safe=False), None)

    monkeypatch.setattr(conform, "_ticks", rounded)
    with pytest.raises(AssertionError):
        test_a_time_between_two_ticks_or_beyond_all_does_not_fit("ms", pa.timestamp)


@pytest.mark.parametrize(
    ("given", "t", "bad"),
    [
        (pa.array([0, 127, 128, -128, -129, None]), pa.int8(), [2, 4]),
        (pa.array([0, 255, 256, -1], pa.int16()), pa.uint8(), [2, 3]),
        (pa.array([0, 2**32 - 1, 2**32, -1]), pa.uint32(), [2, 3]),
        (pa.array([5, -5, None]), pa.uint64(), [1]),
        (
            pa.array([Decimal(2**64 - 1), Decimal(2**64), Decimal(-1), None], pa.decimal128(20, 0)),
            pa.uint64(),
            [1, 2],
        ),
        (pa.array([b"ab", b"", b"abc", None]), pa.binary(2), [1, 2]),
        (pa.array(["a", None]).cast(pa.large_string()), pa.string(), []),
    ],
    ids=str,
)
def test_a_value_that_a_width_cannot_hold_does_not_fit(
    given: pa.Array, t: pa.DataType, bad: list[int]
) -> None:
    column, misfits = conformed(given, t)
    assert ([] if misfits is None else np.flatnonzero(misfits).tolist()) == bad
    assert column.type == t
    kept = [v for i, v in enumerate(column.to_pylist()) if i not in bad]
    assert kept == [v for i, v in enumerate(given.to_pylist()) if i not in bad]


def test_what_misfits_in_a_struct_is_its_row_and_in_a_null_struct_nothing() -> None:
    inner = pa.array([0, 1, 1_000, 1], pa.int64()).view(pa.timestamp("us"))
    other = pa.array([1, 2, 300, 4])
    given = pa.StructArray.from_arrays(
        [inner, other], ["at", "n"], mask=pa.array([False, False, False, True])
    )
    column, misfits = conformed(given, pa.struct([("at", pa.timestamp("ms")), ("n", pa.uint8())]))
    assert misfits is not None
    assert misfits.tolist() == [False, True, True, False]
    assert column[3].as_py() is None


def test_nanoseconds_that_spark_cannot_count_are_an_error_and_not_rounded() -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    fits = pa.array([1_000, None], pa.timestamp("ns"))
    assert for_spark([fits], schema, "segment s").column(0).view(pa.int64()).to_pylist() == [
        1,
        None,
    ]
    with pytest.raises(BadData, match="segment s: column 'at' is timestamp"):
        for_spark([pa.array([1_001], pa.timestamp("ns"))], schema, "segment s")
