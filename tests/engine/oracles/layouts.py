"""One column, laid out in memory in another of the ways that Arrow allows.

    [a, null, b]      a slice of [b, a, null, b, a]
                      values below a null that say something
                      indices [2, null, 0] of a dictionary [b, null, a, b], or [2, 1, 0]
                      a struct whose fields are laid out in such a way, with values below its nulls

What is drawn has the type and the values of what is given.
"""

from __future__ import annotations

import random

import pyarrow as pa

from gapless.protocol.columns import take


def laid_out(rng: random.Random, column: pa.Array) -> pa.Array:
    """The same values in another layout, or in the plain one; now and then between other rows."""
    before, after = (rng.randint(0, 9), rng.randint(0, 2)) if rng.random() < 0.5 else (0, 0)
    some = column.slice(0, 1)
    whole = pa.concat_arrays([*[some] * before, column, *[some] * after])
    made = _other(rng, whole).slice(before if len(some) else 0, len(column))
    made.validate(full=True)
    return made


def _other(rng: random.Random, column: pa.Array) -> pa.Array:
    t = column.type
    if pa.types.is_dictionary(t):
        return _encoded(rng, column)
    if pa.types.is_struct(t):
        return _struct(rng, column)
    if column.null_count and rng.random() < 0.5:
        return _over_nulls(column)
    return column


def _over_nulls(column: pa.Array) -> pa.Array:
    """Nulls over bytes that are not zero."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column
    filled = column.fill_null(17)
    buffers = [column.buffers()[0], filled.buffers()[1]]
    return pa.Array.from_buffers(column.type, len(column), buffers)


def _encoded(rng: random.Random, column: pa.DictionaryArray) -> pa.Array:
    """Values in another order, some twice or not at all; nulls among the indices or the values."""
    t = column.type
    old = column.dictionary
    known: list[int | None] = [*range(len(old)), *rng.choices(range(len(old)), k=len(old) and 2)]
    rng.shuffle(known)
    if rng.random() < 0.6:
        known.insert(rng.randint(0, len(known)), None)
    values = take(old, pa.array(known, pa.int64()))
    places = {i: [at for at, k in enumerate(known) if k == i] for i in (*range(len(old)), None)}
    drawn = [
        rng.choice([*places[i], None] if i is None else places[i])
        for i in column.indices.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(pa.array(drawn, t.index_type), values, ordered=t.ordered)


def _struct(rng: random.Random, column: pa.StructArray) -> pa.Array:
    """Fields laid out anew, with values below the struct's nulls."""
    fields = [laid_out(rng, column.field(i)) for i in range(column.type.num_fields)]
    missing = column.is_null()
    return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=missing)
