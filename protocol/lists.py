"""Lists: one layout for all that Arrow has, and what a column of them is made of.

    large_list<item: string>    fixed_size_list<item: string>[2]
    list_view<element: string>  list<l: dictionary<values=string, ...>>    -> list<item: string>

Two lists are equal when they have the same elements in the same order, nulls among them; an empty
list is no null. For that one layout is enough, so a stream has one: 32-bit offsets, elements named
`item`, and in them neither dictionaries nor view layouts, which few of Arrow's functions know
inside a list. Schemas say so (`normal_type`), and columns of any other layout are made that
(`normal`) where they come in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.columns import without_views

_LEVELS_MAX = 64
"""Levels that are looked at: a schema refuses what nests far less deep."""

_is = pa.types


def is_list(t: pa.DataType) -> bool:
    """Whether the values of type `t` are lists, in whatever layout."""
    return bool(
        _is.is_list(t)
        or _is.is_large_list(t)
        or _is.is_fixed_size_list(t)
        or _is.is_list_view(t)
        or _is.is_large_list_view(t)
    )


def normal_type(t: pa.DataType, in_list: bool = False, depth: int = 0) -> pa.DataType:
    """Type `t` with every list in it of the one layout; itself where it has none."""
    if depth > _LEVELS_MAX:
        return t
    if is_list(t):
        field = t.value_field
        item = normal_type(field.type, True, depth + 1)
        return pa.list_(pa.field("item", item, field.nullable))
    if _is.is_struct(t):
        fields = [f.with_type(normal_type(f.type, in_list, depth + 1)) for f in t]
        return pa.struct(fields)
    if in_list:
        return without_views(t.value_type if _is.is_dictionary(t) else t)
    return t


def normal(array: pa.Array) -> pa.Array:
    """A column with every list in it of the one layout."""
    t = array.type
    return array if not _is.is_nested(t) else _normal(array, normal_type(t))


def _normal(array: pa.Array, t: pa.DataType) -> pa.Array:
    had = array.type
    if had == t:
        return array
    if _is.is_dictionary(had):
        return array.dictionary_decode().cast(t)
    missing = array.is_null() if array.null_count else None
    if _is.is_struct(t):
        children = [_normal(array.field(i), field.type) for i, field in enumerate(t)]
        return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)
    if not _is.is_list(t):
        return array.cast(t)
    return list_of(elements(array), lengths(array), t, missing, convert=True)


def own(array: pa.Array) -> pa.Array:
    """The same column without other rows' elements: Arrow's cast of a slice looks at those, too."""
    t = array.type
    if not _is.is_nested(t):
        return array
    missing = array.is_null() if array.null_count else None
    if _is.is_struct(t):
        children = [own(array.field(i)) for i in range(t.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)
    return list_of(own(elements(array)), lengths(array), t, missing)


def lengths(array: pa.Array) -> np.typing.NDArray[np.int64]:
    """How many elements each list of a column has; a null one has none."""
    counted = pc.list_value_length(array)
    counts: np.typing.NDArray[np.int64] = counted.fill_null(0).to_numpy().astype(np.int64)
    return counts


def elements(array: pa.Array) -> pa.Array:
    """The elements of all lists of a column that are not null, one behind another."""
    return array.flatten()


def list_of(
    values: pa.Array,
    counts: np.typing.NDArray[np.int64],
    t: pa.DataType,
    missing: pa.Array | None = None,
    convert: bool = False,
) -> pa.Array:
    """The column of lists of type `t` that have these elements, so many each; null where `missing`.

    Raises `ValueError` where they are too many for one column.
    """
    ends = np.concatenate([[0], np.cumsum(counts)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"{ends[-1]} elements of lists are more than one column holds")
    if convert:
        values = _normal(values, t.value_type)
    offsets = pa.array(ends.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=t, mask=missing)
