"""Exact casts: against what Arrow does with one value, and against Python's own arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from math import isinf
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol import casts
from gapless.protocol.casts import exact
from gapless.protocol.values import from_values, to_values

_EDGES = [0, 1, 999, 1000, 86_400_000, 127, 128, 2**11, 2**24, 2**31, 2**53, 2**62, 2**63 - 1]
INTEGERS = [*map(pa.type_for_alias, ("int8", "int16", "int32", "int64", "uint8", "uint64"))]
UNITS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
PAIRS: list[tuple[pa.DataType, pa.DataType]] = [
    *[(a, b) for a in INTEGERS for b in [*INTEGERS, pa.float16(), pa.float32(), pa.float64()]],
    *[(a, b) for a in UNITS for b in UNITS],
    *[(pa.duration(a.unit), pa.duration(b.unit)) for a in UNITS for b in UNITS],
    (pa.date64(), pa.date32()),
    (pa.date32(), pa.date64()),
    (pa.float64(), pa.float32()),
    (pa.float64(), pa.float16()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(20, 6), pa.decimal128(5, 2)),
    (pa.decimal128(5, 2), pa.decimal256(70, 30)),
    (pa.int64(), pa.decimal128(3, 2)),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.dictionary(pa.int32(), pa.int64()), pa.int8()),
    (pa.string_view(), pa.dictionary(pa.int32(), pa.large_string())),
]


def values_of(t: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_dictionary(t):
        return values_of(t.value_type)
    if pa.types.is_floating(t):
        return st.floats(width=t.bit_width, allow_nan=False)
    if pa.types.is_decimal(t):
        return st.integers(-(10**t.precision) + 1, 10**t.precision - 1).map(
            lambda n: Decimal(n).scaleb(-t.scale)
        )
    if pa.types.is_string_view(t):
        return st.text(max_size=15)
    ticks = t if pa.types.is_integer(t) else pa.int32() if t.bit_width == 32 else pa.int64()
    bounds = np.iinfo(ticks.to_pandas_dtype())
    edges = [e + d for e in _EDGES for d in (-1, 0, 1)]
    near = [v for e in edges for v in (e, -e) if bounds.min <= v <= bounds.max]
    found = st.sampled_from(near) | st.integers(int(bounds.min), int(bounds.max))
    if t == pa.date64():
        return found.map(lambda v: int(v / 86_400_001) * 86_400_000)
    return found


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Array, pa.DataType]:
    had, wanted = draw(st.sampled_from(PAIRS))
    return from_values(draw(st.lists(st.none() | values_of(had), max_size=12)), had), wanted


@contextmanager
def nothing_halved() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(casts, "halved", None)
        yield


@given(columns())
def test_differential_a_value_fits_among_others_as_it_does_alone(
    case: tuple[pa.Array, pa.DataType],
) -> None:
    column, t = case
    made, misfits = exact(column, t)
    assert made.type == t
    alone = [exact(column.slice(i, 1), t) for i in range(len(column))]
    assert [to_values(one.column)[0] for one in alone] == to_values(made)
    bad = [one.misfits is not None for one in alone]
    assert bad == ([False] * len(column) if misfits is None else misfits.tolist())


@given(columns())
def test_oracle_what_fits_is_the_same_value_and_what_is_cut_does_not_fit(
    case: tuple[pa.Array, pa.DataType],
) -> None:
    column, t = case
    made, misfits = exact(column, t)
    lost = misfits if misfits is not None else np.zeros(len(column), np.bool_)
    for before, after, bad in zip(to_values(column), to_values(made), lost, strict=True):
        if bad or before is None:
            assert after is None
        elif pa.types.is_floating(t):
            assert isinf(after) == isinf(before)
            if not isinstance(before, float):
                assert int(after) == before
        elif hasattr(t, "unit"):
            had = casts._TICKS[column.type.unit]
            assert before * casts._TICKS[t.unit] == after * had
        elif not pa.types.is_date(t):
            assert before == after


@given(columns())
def test_what_does_not_fit_is_found_by_column(case: tuple[pa.Array, pa.DataType]) -> None:
    with nothing_halved():
        exact(*case)


def test_what_fits_is_taken() -> None:
    """The oracle above is content where nothing fits; this is what has to."""
    for had, wanted in PAIRS:
        value = "a" if had == pa.string_view() else Decimal(1) if pa.types.is_decimal(had) else 1
        if pa.types.is_temporal(had):
            value = 0
        made = exact(from_values([value, None], had), wanted)
        assert made.misfits is None, (had, wanted)
        assert to_values(made.column)[1] is None
