"""Keys hashed row by row in plain Python: the slow twin of `gapless.journal.partition`.

Written from the published specification of XXH64 and from the rule in that module's header, not
from its code.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from gapless.protocol.values import to_values

MASK = 2**64 - 1
P1, P2, P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
P4, P5 = 9650029242287828579, 2870177450012600261


def rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & MASK


def step(lane: int, word: int) -> int:
    return rotated((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int) -> int:
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) - 7, 8)]
    used = len(data) // 32 * 4  # words in whole stripes
    if used:
        lanes = [seed + P1 + P2, seed + P2, seed, seed - P1]
        for i, word in enumerate(words[:used]):
            lanes[i % 4] = step(lanes[i % 4] & MASK, word)
        h = sum(rotated(v, bits) for v, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            h = ((h ^ step(0, lane)) * P1 + P4) & MASK
    else:
        h = seed + P5
    h = (h + len(data)) & MASK
    for word in words[used:]:
        h = (rotated(h ^ step(0, word), 27) * P1 + P4) & MASK
    rest = data[len(words) * 8 :]
    if len(rest) >= 4:
        word = int.from_bytes(rest[:4], "little")
        h = (rotated(h ^ word * P1 & MASK, 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        h = rotated(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def parts(value: Any, t: pa.DataType) -> list[bytes | None]:
    """The canonical bytes of one value: one entry a column, so one for each leaf of a struct."""
    types = pa.types
    if types.is_struct(t):
        fields = [None] * t.num_fields if value is None else value
        return [part for v, field in zip(fields, t, strict=True) for part in parts(v, field.type)]
    if types.is_dictionary(t):
        return parts(value, t.value_type)
    if value is None:
        return [None]
    if types.is_decimal(t):
        sign, digits, _ = value.as_tuple()
        number = (-1) ** sign * int("".join(map(str, digits)))
        if t.precision > 18:
            bits = number.bit_length() if number >= 0 else (-number - 1).bit_length()
            return [number.to_bytes(bits // 8 + 1, "big", signed=True)]
        value = number
    if isinstance(value, float):
        return [struct.pack("<Q", 0x7FF8 << 48) if math.isnan(value) else struct.pack("<d", value)]
    if isinstance(value, int):
        return [(value & MASK).to_bytes(8, "little")]
    return [value.encode() if isinstance(value, str) else value]


def signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x


def hashes_row_by_row(columns: Sequence[pa.Array]) -> list[int]:
    result = []
    for row in zip(*map(to_values, columns), strict=True):
        h = 42
        for value, column in zip(row, columns, strict=True):
            for part in parts(value, column.type):
                if part is not None:
                    h = xxh64(part, h)
        result.append(signed(h))
    return result
