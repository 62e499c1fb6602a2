"""Values in the one layout that Arrow can do everything with, and back into their own.

    dictionary<string_view>    ->    large_string
    struct<a: string_view>     ->    struct<a: large_string>

Sub-aggregates are sliced, taken from, joined together and written into files by their holder.
For views, and for dictionaries inside other columns, Arrow lacks some of that. So accumulators keep
values plain, and give them their type again only in results.
"""

from __future__ import annotations

import pyarrow as pa

from gapless.kernels.keys import encode_again
from gapless.kernels.keys import plain_type as without_dictionaries
from gapless.protocol.columns import has_views, take, without_views


def plain_type(t: pa.DataType) -> pa.DataType:
    """The type of `plain_values`."""
    if pa.types.is_struct(t):
        return pa.struct([field.with_type(plain_type(field.type)) for field in t])
    return without_views(t.value_type if pa.types.is_dictionary(t) else t)


def plain_values(column: pa.Array) -> pa.Array:
    """A column without dictionaries and views."""
    t = column.type
    if pa.types.is_dictionary(t):
        return plain_values(take(column.dictionary, column.indices))
    plain = plain_type(t)
    if plain.equals(t):
        return column
    if not pa.types.is_struct(t):
        return column.cast(plain)
    children = [plain_values(column.field(i)) for i in range(t.num_fields)]
    missing = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(plain), mask=missing)


def restored(column: pa.Array, t: pa.DataType) -> pa.Array:
    """The inverse of `plain_values`: a column of type `t`."""
    if column.type.equals(t):
        return column
    return encode_again(_with_views(column, without_dictionaries(t)), t, "value")


def _with_views(column: pa.Array, t: pa.DataType) -> pa.Array:
    if not has_views(t):
        return column
    if not pa.types.is_struct(t):
        return column.cast(t)
    children = [_with_views(column.field(i), field.type) for i, field in enumerate(t)]
    missing = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)
