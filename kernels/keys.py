"""What a key may be made of, and the checks that native kernel and twin share.

Errors of this folder are Python's own, for `kernels` stands on nothing of ours:

    TypeError     a schema, a batch or an argument of the wrong type; the message names the column
    ValueError    the right type with a wrong content: an id that is not live, a row that is not
                  stored, a dictionary index out of range
    RuntimeError  `validate()` found an invariant of ours broken

Whichever is raised, nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NESTING_MAX = 32
"""Levels of structs and lists in a key: readers of a schema recurse, and a schema may come from
outside."""

_is = pa.types
_LEAVES: tuple[Callable[[pa.DataType], bool], ...] = (
    _is.is_boolean,
    _is.is_integer,
    _is.is_floating,
    _is.is_decimal,
    _is.is_temporal,  # dates, times, timestamps, durations, intervals
    _is.is_fixed_size_binary,
    _is.is_string,
    _is.is_large_string,
    _is.is_string_view,
    _is.is_binary,
    _is.is_large_binary,
    _is.is_binary_view,
)


def _is_leaf(t: pa.DataType) -> bool:
    return any(accepts(t) for accepts in _LEAVES)


def check_type(name: str, t: pa.DataType, level: int = 0, in_list: bool = False) -> None:
    """Raises `TypeError` unless a column of type `t` may be part of a key."""
    if level > NESTING_MAX:
        raise TypeError(f"column {name!r}: types nest deeper than {NESTING_MAX} levels")
    if in_list and (_is.is_dictionary(t) or _is.is_string_view(t) or _is.is_binary_view(t)):
        raise TypeError(f"column {name!r}: {t} is not supported in a list; plain values are")
    if _is.is_struct(t):
        for field in t:
            check_type(f"{name}.{field.name}", field.type, level + 1, in_list)
    elif _is.is_list(t):
        check_type(f"{name}.{t.value_field.name}", t.value_type, level + 1, in_list=True)
    elif not _is_leaf(t.value_type if _is.is_dictionary(t) else t):
        raise TypeError(
            f"column {name!r}: type {t} is not supported in a key (fixed width, bool, decimal, "
            "string, binary, dictionaries of these, lists and structs of all of them are)"
        )


def check_schema(schema: pa.Schema) -> None:
    """Raises `TypeError` unless rows of `schema` may be keys."""
    if not isinstance(schema, pa.Schema):
        raise TypeError(f"a pyarrow.Schema is needed, not {type(schema).__name__}")
    for field in schema:
        check_type(field.name, field.type)


def _essence(t: pa.DataType) -> object:
    """A type without the nullability and the metadata of its fields, to be compared."""
    if _is.is_struct(t):
        return [(field.name, _essence(field.type)) for field in t]
    if _is.is_list(t):
        return ["item", _essence(t.value_type)]
    return t


class Gate:
    """Lets batches of one schema pass; metadata and nullability of fields do not matter."""

    def __init__(self, schema: pa.Schema) -> None:
        check_schema(schema)
        self.schema = schema
        self._passed = schema  # the last one that did: a stream's batches share theirs

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises `TypeError` unless `batch` is a record batch of the schema."""
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"a pyarrow.RecordBatch is needed, not {type(batch).__name__}")
        schema = batch.schema
        if not schema.equals(self._passed):
            self._compare(schema)
            self._passed = schema

    def _compare(self, schema: pa.Schema) -> None:
        for i, wanted in enumerate(self.schema):
            text = f"column {i}: the table has {wanted.name!r} of type {wanted.type}"
            if i >= len(schema):
                raise TypeError(f"{text}, the batch has no such column")
            got = schema.field(i)
            if got.name != wanted.name or _essence(got.type) != _essence(wanted.type):
                raise TypeError(f"{text}, the batch has {got.name!r} of type {got.type}")
        if len(schema) > len(self.schema):
            extra = schema.field(len(self.schema))
            raise TypeError(f"column {len(self.schema)}: the table has no {extra.name!r}")


def as_int64(name: str, values: Any) -> Ids:
    """`values` as a contiguous one-dimensional int64 array; `TypeError` where that loses any."""
    array = np.asarray(values)
    if array.dtype == np.int64 and array.ndim == 1 and array.flags.c_contiguous:
        return array
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
        raise TypeError(f"{name}: needs a one-dimensional array of integers, got {array.dtype}")
    if array.dtype == np.uint64 and array.size > 0 and int(array.max()) > np.iinfo(np.int64).max:
        raise TypeError(f"{name}: {array.max()} is no int64")
    return np.ascontiguousarray(array, np.int64)


def as_pairs(ids: Any, rows: Any) -> tuple[Ids, Ids]:
    """Ids and rows of the same length."""
    ids, rows = as_int64("ids", ids), as_int64("rows", rows)
    if len(ids) != len(rows):
        raise ValueError(f"{len(ids)} ids and {len(rows)} rows: needs one id a row")
    return ids, rows


# -- dictionaries ---------------------------------------------------------------------------------
# A key does not remember which dictionary its values came from, so rows are first made with plain
# values and then encoded again.


def plain_type(t: pa.DataType) -> pa.DataType:
    """Type `t` with every dictionary replaced by its values."""
    if _is.is_dictionary(t):
        return t.value_type
    if _is.is_struct(t):
        return pa.struct([field.with_type(plain_type(field.type)) for field in t])
    return t


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Schema `schema` with every dictionary replaced by its values."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def encode_again(array: pa.Array, t: pa.DataType, name: str) -> pa.Array:
    """Turns an array of `plain_type(t)` into one of type `t`."""
    if _is.is_dictionary(t):
        return _encode(array, t, name)
    if not _is.is_struct(t) or plain_type(t) == t:
        return array
    children = [
        encode_again(array.field(i), field.type, f"{name}.{field.name}")
        for i, field in enumerate(t)
    ]
    missing = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)


def _encode(array: pa.Array, t: pa.DictionaryType, name: str) -> pa.Array:
    plain = array.type
    if _is.is_decimal(plain):  # Arrow cannot encode every width of them; it can their bytes
        array = array.view(pa.binary(plain.bit_width // 8))
    encoded = array.dictionary_encode()
    try:
        indices = encoded.indices.cast(t.index_type)
    except pa.ArrowInvalid:
        raise ValueError(
            f"column {name!r}: {len(encoded.dictionary)} different values are more than "
            f"{t.index_type} indices can tell apart; ask for fewer rows at once"
        ) from None
    dictionary = encoded.dictionary.view(plain)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=t.ordered)
