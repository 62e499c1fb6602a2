"""Which partition of a journal a row belongs to: the same answer for every writer.

Spark prepares a partition's past and a Python program appends its present, so both must know where
a row with some key goes, whatever the batches, the machine or the engine. The rule, so that any
other engine can follow it, too:

1. Bring each key column into canonical bytes, by the type that the journal gives it:

   | type in the journal | bytes |
   | --- | --- |
   | bool, integer of any width | its value (false 0, true 1) as int64, 8 bytes little-endian |
   | uint64 from 2^63 on | the same 64 bits, so the value less 2^64 |
   | date, time, timestamp, duration | ticks of the column's own unit as int64, likewise; date32
   |   | counts days, date64 milliseconds; a time zone changes nothing |
   | float of any width | as a double: its 64 bits, little-endian; -0.0 as 0.0, every NaN as
   |   | 0x7FF8000000000000 |
   | decimal of up to 18 digits | the unscaled value (1.50 of scale 2: 150) as int64, likewise |
   | decimal of more digits | the unscaled value in two's complement, BIG-endian, in the fewest
   |   | bytes that hold its sign, one at least (0: 00, 127: 7F, 128: 00 80, -1: FF) |
   | string | its UTF-8 bytes, as they are; no length, no end mark |
   | binary, of fixed size or not | its bytes |
   | dictionary | what its value has |
   | struct | its fields in order, as if they were columns; a null struct: all its fields null |

   The digits of a decimal are those of the column's type, not of the value. Layouts (large, view)
   change nothing.

2. Chain the published XXH64 over the columns. The hash begins as 42. For each column in the key's
   order it becomes XXH64(canonical bytes, seed = the hash so far); a null leaves it as it is.

3. The partition is the hash, read as SIGNED 64-bit integer, modulo the number of partitions, never
   negative: -7 of 4 is 1.

    key (10 as int32, "é")   XXH64(0A 00 00 00 00 00 00 00, seed 42)      =  0x1971B627858ABB6D
                             XXH64(C3 A9, seed 0x1971B627858ABB6D)        =  0xF9C296E35B07AFC4
                             as signed: -449631109554655292; modulo 8     =  4

Over columns in this form it is Spark SQL's own `pmod(xxhash64(c1, c2, ...), n)`, which is why it is
as it is: Spark runs it in generated code. `gapless.spark_sources.partition` writes it down so.

Keys that are equal as payloads get one partition. (null, "a") and ("a", null) share one as well;
nothing minds, as a partition holds many keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.journal.xxh64 import Places, Words, fold_bytes, fold_words
from gapless.protocol.columns import has_views, take, take_rows, without_views
from gapless.protocol.errors import Misuse, SchemaError

PARTITIONS_MAX = 1024
"""Partitions of a journal: each is an open file for a writer and a cursor for a reader, and the
usual limit of open files is 1,024 a process or more."""
KEY_COLUMNS_MAX = 16
"""Columns of a key: real ones have one to three; beyond this somebody has named the whole row."""
LONG_DIGITS_MAX = 18
"""Decimal digits that always fit an int64: where the bytes of a decimal change form."""

_SEED = 42
_NAN = 0x7FF8000000000000


def check_key(schema: pa.Schema, key: Sequence[str]) -> None:
    """Raises `Misuse` unless rows of `schema` can be partitioned by the columns `key`."""
    _check_size(len(key))
    for i, name in enumerate(key):
        found = schema.get_all_field_indices(name)
        if not found:
            raise Misuse(f"key column {name!r} is not there; the columns: {schema.names}")
        if len(found) > 1:
            raise Misuse(f"key column {name!r} is there {len(found)} times; give each its own name")
        if name in key[:i]:
            raise Misuse(f"key column {name!r} is named twice in the key; name it once")
        _check_type(name, schema.field(name).type)


def check_count(count: int) -> None:
    """Raises `Misuse` unless a journal may have so many partitions."""
    if not 1 <= count <= PARTITIONS_MAX:
        raise Misuse(f"a journal has 1 to {PARTITIONS_MAX} partitions, not {count}")


def key_hashes(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """The chained hash of each row's key; `columns` are the key columns in the key's order."""
    rows = _rows(columns)
    first, *others = columns
    if pa.types.is_dictionary(first.type) and len(first.dictionary) <= len(first):
        hashes = _hashes_by_value(first)
    else:
        hashes = np.full(rows, _SEED, np.uint64)
        _fold(first, hashes)
    for column in others:
        _fold(column, hashes)
    return hashes.view(np.int64)


def partitions_of(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    """The partition of each row, from 0 to `count - 1`; one partition alone costs no hashing."""
    check_count(count)
    if count == 1:
        return np.zeros(_rows(columns), np.int64)
    hashes = key_hashes(columns)
    return hashes - hashes // count * count  # `%` gives the same in ten times the time


def split(
    batch: pa.RecordBatch, partitions: npt.NDArray[np.int64], count: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each partition that has any, partitions in order, rows in the batch's order.

    The batches are slices of one copy of the rows; of none, where all rows go to one partition.
    """
    check_count(count)
    if len(partitions) != batch.num_rows:
        raise Misuse(f"{len(partitions)} partitions for a batch of {batch.num_rows} rows")
    if not len(partitions):
        return
    least, most = int(partitions.min()), int(partitions.max())
    if least < 0 or most >= count:
        raise Misuse(f"partitions {least} to {most} of a journal that has 0 to {count - 1}")
    if least == most:
        yield least, batch
        return
    order = np.argsort(partitions.astype(np.uint16), kind="stable")  # a radix sort, for 16 bits
    rows = take_rows(batch, order)
    ends = np.cumsum(np.bincount(partitions, minlength=count))
    start = 0
    for partition, end in enumerate(ends.tolist()):
        if end > start:
            yield partition, rows.slice(start, end - start)
        start = end


# -- types ----------------------------------------------------------------------------------------


def _check_size(columns: int) -> None:
    if not 1 <= columns <= KEY_COLUMNS_MAX:
        raise Misuse(f"a key has 1 to {KEY_COLUMNS_MAX} columns, not {columns}")


def _check_type(name: str, t: pa.DataType) -> None:
    types = pa.types
    if types.is_struct(t):
        for field in t:
            _check_type(f"{name}.{field.name}", field.type)
    elif types.is_dictionary(t):
        if types.is_struct(t.value_type) or types.is_dictionary(t.value_type):
            raise SchemaError(f"key column {name!r}: {t} is not a key; decode the dictionary")
        _check_type(name, t.value_type)
    elif not (_is_ticks(t) or types.is_floating(t) or types.is_decimal(t) or _is_bytes(t)):
        raise _no_key(f"key column {name!r}", t)


def _no_key(what: str, t: pa.DataType) -> SchemaError:
    return SchemaError(
        f"{what}: a key is of bool, integer, float, decimal, date, time, timestamp, duration, "
        f"string, binary, dictionaries of those or structs of all these, not of {t}"
    )


def _is_ticks(t: pa.DataType) -> bool:
    """Whether the values are integers, or counts of a unit."""
    types = pa.types
    return bool(
        types.is_boolean(t)
        or types.is_integer(t)
        or types.is_date(t)
        or types.is_time(t)
        or types.is_timestamp(t)
        or types.is_duration(t)
    )


def _is_bytes(t: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_fixed_size_binary(t)
        or types.is_string(t)
        or types.is_large_string(t)
        or types.is_string_view(t)
        or types.is_binary(t)
        or types.is_large_binary(t)
        or types.is_binary_view(t)
    )


def _rows(columns: Sequence[pa.Array]) -> int:
    _check_size(len(columns))
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise Misuse(f"key columns of one length are needed, got lengths {sorted(lengths)}")
    return lengths.pop()


# -- columns into hashes --------------------------------------------------------------------------


def _fold(array: pa.Array, hashes: Words) -> None:
    """Chains one column into the hashes."""
    t = array.type
    if pa.types.is_struct(t):
        for field in array.flatten():  # each with the struct's nulls in it
            _fold(field, hashes)
        return
    if pa.types.is_dictionary(t):
        array = take(array.dictionary, array.indices)
    nulls = _null_rows(array)
    kept = hashes[nulls]
    _fold_values(array, hashes)
    hashes[nulls] = kept


def _null_rows(array: pa.Array) -> Places:
    if not array.null_count:
        return np.empty(0, np.int64)
    return np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))


def _hashes_by_value(array: pa.DictionaryArray) -> Words:
    """The hashes of a first column: each value of the dictionary is hashed once."""
    hashes = np.full(len(array.dictionary) + 1, _SEED, np.uint64)  # the last one is that of a null
    _fold(array.dictionary, hashes[:-1])
    places = array.indices.cast(pa.int64()).fill_null(len(array.dictionary))
    by_row: Words = hashes[places.to_numpy()]
    return by_row


def _fold_values(array: pa.Array, hashes: Words) -> None:
    """Chains a column of no nested type, whatever stands in the place of its nulls."""
    t = array.type
    if pa.types.is_boolean(t):
        array, t = array.cast(pa.uint8()), pa.uint8()
    if _is_ticks(t):
        kind = "u" if pa.types.is_unsigned_integer(t) else "i"
        fold_words(_fixed(array, np.dtype(f"{kind}{t.bit_width // 8}")), hashes)
    elif pa.types.is_floating(t):
        fold_words(_double_bits(_fixed(array, np.dtype(f"f{t.bit_width // 8}"))), hashes)
    elif pa.types.is_decimal(t):
        _fold_decimals(array, hashes)
    elif _is_bytes(t):
        fold_bytes(*_byte_runs(array), hashes)
    else:
        raise _no_key("a key column", t)


def _fixed(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of a column of fixed width, as they lie in memory."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def _double_bits(values: npt.NDArray[Any]) -> Words:
    with np.errstate(invalid="ignore"):  # a signalling NaN is as good as another
        doubles = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    bits = doubles.view(np.uint64)
    bits[np.isnan(doubles)] = _NAN
    return bits


def _fold_decimals(array: pa.Array, hashes: Words) -> None:
    t = array.type
    if t.bit_width <= 64:
        fold_words(_fixed(array, np.dtype(f"i{t.bit_width // 8}")), hashes)
    elif t.precision <= LONG_DIGITS_MAX:
        low = _fixed(array, np.dtype((np.int64, t.bit_width // 64)))[:, 0]
        fold_words(low, hashes)
    else:
        fold_bytes(*_fewest_bytes(_fixed(array, np.dtype((np.uint8, t.bit_width // 8)))), hashes)


def _fewest_bytes(
    little: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], Places, Places]:
    """Integers of a fixed width, as big-endian bytes, starts and lengths without needless ones.

    A leading byte is needless where it and the next one's top bit all are the sign.
    """
    rows, width = little.shape
    big = np.ascontiguousarray(little[:, ::-1])
    sign = np.where(big[:, 0] >= 0x80, np.uint8(0xFF), np.uint8(0))
    differs = big != sign[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), width - 1)
    signed = (big[np.arange(rows), first] ^ sign) < 0x80  # its top bit is the sign already
    lengths = width - first + ~signed
    ends = np.arange(1, rows + 1, dtype=np.int64) * width
    return big.ravel(), ends - lengths, lengths


def _byte_runs(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Places, Places]:
    """The bytes behind a column of strings or binary, and where each row's start; their lengths."""
    t = array.type
    if has_views(t):
        array = array.cast(without_views(t))
        t = array.type
    if pa.types.is_fixed_size_binary(t):
        bounds = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64)
        bounds *= t.byte_width
    elif not len(array):
        bounds = np.zeros(1, np.int64)  # Arrow may leave out the offsets of an empty column
    else:
        large = pa.types.is_large_string(t) or pa.types.is_large_binary(t)
        offset_type = np.dtype(np.int64 if large else np.int32)
        place = array.offset * offset_type.itemsize
        bounds = np.frombuffer(array.buffers()[1], offset_type, len(array) + 1, place)
        bounds = bounds.astype(np.int64)
    data = array.buffers()[-1]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return held, bounds[:-1], np.diff(bounds)
