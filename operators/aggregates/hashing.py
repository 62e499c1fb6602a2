"""A 64-bit hash of values that is the same on every machine, in every process, for ever.

    integers, times, bools      splitmix64 of the value in 64 bits
    floats                      of the float64's bits; -0.0 as 0.0, and one NaN
    strings, binary             of  sum of (byte[i] + 1) * P^i  mod 2^64,  and the length
    wide decimals, intervals    the same, of their bytes
    dictionaries                of the value; a plain column hashes alike, and so does every layout
    structs                     h = splitmix64(h * P + hash of the field), field by field; a null
                                inside counts as a value of its own

Sketches (`hll.py`) stand on it: two replicas, and a sketch from a file of last year, must put a
value into the same register. So there is no seed, and nothing comes from libm. An author who
chooses the values can choose ones that collide; a sketch then counts too few, and nothing else
happens.

All of it is numpy over whole columns; a byte of a string costs some nanoseconds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.operators.aggregates.inputs import NumberColumn, has_numbers
from gapless.protocol.columns import without_views
from gapless.protocol.lists import elements, lengths

Hashes = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_P = np.uint64(0x9FB21C651E98DF25)
"""Odd, and its bits look like chance: no more is asked of it."""
_NULL = np.uint64(0x6E756C6C)
BYTES_AT_ONCE_MAX = 1 << 20
"""Bytes of strings that are multiplied at once: each takes eight in between."""

_is = pa.types


def splitmix64(x: Hashes) -> Hashes:
    """Steele, Lea and Flood's finaliser: every bit of the input decides about every bit."""
    x = x + _GAMMA
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def hash_column(column: pa.Array) -> Hashes:
    """The hash of each row; of a null some constant."""
    t = column.type
    if _is.is_dictionary(t):
        return _of_dictionary(column)
    if _is.is_struct(t):
        hashes = np.zeros(len(column), np.uint64)
        for child in column.flatten():
            hashes = splitmix64(hashes * _P + hash_column(child))
    elif _is.is_list(t):
        hashes = _of_lists(column)
    elif has_numbers(t):
        hashes = _of_numbers(column)
    else:
        hashes = _of_bytes(column)
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _of_dictionary(column: pa.DictionaryArray) -> Hashes:
    values, places = hash_column(column.dictionary), column.indices
    hashes = np.full(len(column), _NULL, np.uint64)
    valid = places.is_valid().to_numpy(zero_copy_only=False)
    hashes[valid] = values[places.drop_null().to_numpy()]
    return hashes


def _of_numbers(column: pa.Array) -> Hashes:
    reader = NumberColumn(0, column.type)
    numbers, valid = reader.read(pa.RecordBatch.from_arrays([column], ["value"]))
    if numbers.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # a NaN that signals is as good as another
            floats = numbers.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        floats[np.isnan(floats)] = np.nan
        words = floats.view(np.uint64)
    else:
        words = numbers.astype(np.int64, copy=False).view(np.uint64)
    if valid is None:
        return splitmix64(words)
    hashes = np.zeros(len(column), np.uint64)
    hashes[valid] = splitmix64(words)
    return hashes


def _of_lists(column: pa.Array) -> Hashes:
    """As of bytes, with the hashes of the elements in the place of bytes."""
    counts = lengths(column)
    ends = np.concatenate([[0], np.cumsum(counts)])
    sums = _polynomials(hash_column(elements(column)), ends)
    return splitmix64(sums ^ (counts.astype(np.uint64) * _GAMMA))


# -- bytes ----------------------------------------------------------------------------------------


def _of_bytes(column: pa.Array) -> Hashes:
    data, ends = _bytes_of(column)
    hashes = np.empty(len(column), np.uint64)
    row = 0
    while row < len(column):
        stop = int(np.searchsorted(ends, ends[row] + BYTES_AT_ONCE_MAX, side="right")) - 1
        stop = min(max(stop, row + 1), len(column))
        hashes[row:stop] = _polynomials(data, ends[row : stop + 1])
        row = stop
    return splitmix64(hashes ^ (np.diff(ends).astype(np.uint64) * _GAMMA))


def _bytes_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of all rows one after the other, and where each begins; of a null none matter."""
    t = without_views(column.type)
    if _is.is_string(t) or _is.is_large_string(t) or _is.is_binary(t) or _is.is_large_binary(t):
        large = column.cast(t).cast(pa.large_binary())
        _, offsets, data = large.buffers()
        starts = np.frombuffer(offsets, np.int64, len(large) + 1, large.offset * 8)
    else:  # fixed size: decimals, intervals, fixed_size_binary
        width = t.byte_width if _is.is_fixed_size_binary(t) else t.bit_width // 8
        data = column.buffers()[1]
        starts = (np.arange(len(column) + 1) + column.offset) * width
    return np.frombuffer(data or b"", np.uint8), starts


def _polynomials(data: npt.NDArray[np.uint8] | Hashes, ends: npt.NDArray[np.int64]) -> Hashes:
    """Of each string, given where it begins, and where the last ends: sum of (byte + 1) * P^i."""
    sizes = np.diff(ends)
    total = int(ends[-1] - ends[0])
    hashes = np.zeros(len(sizes), np.uint64)
    filled = sizes.nonzero()[0]
    if not len(filled):
        return hashes
    powers = np.full(int(sizes.max()), _P, np.uint64)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    begins = ends[filled] - ends[0]
    places = np.arange(total) - np.repeat(begins, sizes[filled])
    terms = (data[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)) * powers[places]
    hashes[filled] = np.add.reduceat(terms, begins)
    return hashes
