"""The laws of `merge`, tried on drawn rows before a query runs.

    merge(f(A), f(B))  =  f(A and B)            whichever rows are in A, and which in B
    merge(a, b)        =  merge(b, a)
    merge(merge(a, b), c)  =  merge(a, merge(b, c))

Replicas cut the same rows into different frames and panes: where a law is broken they tell
different tables. A mean of means breaks the first one. Trials cannot prove a law; they find what
breaks it on rows of small values. Floats count as equal if they differ in their last digits alone.
Rows for which a function raises tell nothing.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa

from gapless.operators.aggregates.custom import Custom, Said
from gapless.operators.order import by_time_and_payload
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import Misuse
from gapless.protocol.values import from_values, to_values

TRIALS = 32
"""Rows are drawn so often, up to four for each of three parts."""
PART_ROWS_MAX = 4
JUDGED_KEPT = 256
"""Functions whose laws are not tried again."""
FLOATS_DIFFER = 1e-9
"""By so much, relatively, may floats differ that are added up in another order."""

_TEXTS = ("", "a", "b", "ab", "10.0.0.7")
_DAY_MS = 86_400_000


def try_laws(custom: Custom, types: tuple[pa.DataType, ...]) -> None:
    """Raises `Misuse` where the function's `merge` breaks a law for columns of these types."""
    try:
        hash(custom)
    except TypeError:  # an object with a function's call, and no hash: tried each time
        broken = _broken(custom, types)
    else:
        broken = _known(custom, types)
    if broken is not None:
        raise Misuse(
            f"{custom}: merge breaks a law: {broken}. Replicas would tell different tables: leave "
            "merge= out, or return all that two answers need to become one, such as a sum and a "
            "count for a mean"
        )


def _broken(custom: Custom, types: tuple[pa.DataType, ...]) -> str | None:
    """The first law that a trial finds broken, with the rows; None where none does."""
    rng = Random(7)
    for _ in range(TRIALS):
        parts = [_rows(custom, types, rng) for _ in range(3)]
        a, b, c = (_answer(custom, part) for part in parts)
        whole = _answer(custom, pa.concat_batches(parts[:2]))
        if isinstance(a, str) or isinstance(b, str) or isinstance(whole, str):
            continue
        shown = f"of {_shown(parts[0])} the function gives {a}, of {_shown(parts[1])} {b}"
        both, turned = custom.merged(a, b), custom.merged(b, a)
        if isinstance(both, str) or isinstance(turned, str):
            return f"{shown}; {both if isinstance(both, str) else turned}"
        if not _same(both, whole):
            return f"{shown}, of all of them {whole}, and merge gives {both}"
        if not _same(both, turned):
            return f"{shown}; merge gives {both} one way, {turned} the other"
        if isinstance(c, str):
            continue
        left, rest = custom.merged(both, c), custom.merged(b, c)
        right = rest if isinstance(rest, str) else custom.merged(a, rest)
        if isinstance(left, str) or isinstance(right, str):
            return f"{shown}; {left if isinstance(left, str) else right}"
        if not _same(left, right):
            return f"{shown}; with {c} it is {left} or {right}: whichever two are merged first"
    return None


_known = lru_cache(JUDGED_KEPT)(_broken)


def _rows(custom: Custom, types: tuple[pa.DataType, ...], rng: Random) -> pa.RecordBatch:
    """Some rows; their times come first."""
    n = rng.randint(1, PART_ROWS_MAX)
    times = [rng.randint(0, 5) if custom.of_rows else 0 for _ in range(n)]
    nulls = custom.of_rows and rng.random() < 0.3
    drawn = [[_value(t, rng, nulls) for _ in range(n)] for t in types]
    columns = [from_values(values, t) for values, t in zip(drawn, types, strict=True)]
    names = [str(i) for i in range(1 + len(types))]
    return pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), *columns], names)


def _answer(custom: Custom, rows: pa.RecordBatch) -> Said:
    """What the function says of rows, once they are in order."""
    times, rows = rows.column(0).to_numpy(), rows.select(range(1, rows.num_columns))
    return custom.ask(take_rows(rows, by_time_and_payload(times, times, rows)).columns)


def _value(t: pa.DataType, rng: Random, nulls: bool = False) -> Any:
    """A small value of a type, as `from_values` takes it."""
    types = pa.types
    if nulls and rng.random() < 0.3:
        return None
    if types.is_boolean(t):
        return rng.random() < 0.5
    if types.is_decimal(t):
        return Decimal(rng.randint(0, 9)).scaleb(-t.scale)
    if types.is_floating(t):
        return rng.randint(-16, 16) / 4
    if types.is_date64(t):
        return rng.randint(0, 9) * _DAY_MS
    if types.is_interval(t):
        return pa.MonthDayNano([rng.randint(0, 9), rng.randint(0, 9), 0])
    if types.is_fixed_size_binary(t):
        return bytes([rng.randint(0, 2)]) * t.byte_width
    if types.is_dictionary(t):
        return _value(t.value_type, rng)
    if types.is_struct(t):
        return tuple(_value(field.type, rng) for field in t)
    if types.is_list(t):
        return tuple(_value(t.value_type, rng) for _ in range(rng.randint(0, 2)))
    if types.is_integer(t) or types.is_temporal(t):
        signed = types.is_signed_integer(t)
        return rng.randint(-9 if signed else 0, 9)
    text = rng.choice(_TEXTS)
    return (
        text
        if types.is_string(t) or types.is_large_string(t) or types.is_string_view(t)
        else text.encode()
    )


def _shown(rows: pa.RecordBatch) -> str:
    """Rows in a message, without their times."""
    columns = [to_values(column) for column in rows.columns[1:]]
    shown = [row[0] if len(row) == 1 else row for row in zip(*columns, strict=True)]
    return f"{shown}"


def _same(one: pa.Scalar, other: pa.Scalar) -> bool:
    """Equal, except in the last digits of floats."""
    return _equal(one.as_py(), other.as_py())


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=FLOATS_DIFFER, abs_tol=FLOATS_DIFFER)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    return bool(one == other)
