"""XXH64, the published 64-bit hash, of many rows at once: exact for any bytes and any seed.

Each row has its own seed, which is what lets the hash of one column be the seed of the next. Both
functions take the seeds in `hashes` and leave the hashes there:

    hashes = [42, 42, 42]
    fold_words([7, 7, -1], hashes)          hashes[i] = XXH64(the 8 bytes of words[i], hashes[i])
    fold_bytes(data, [0, 3, 3], [3, 0, 40], hashes)
                                            the same over data[starts[i]:][:lengths[i]]

A row's bytes are taken as the specification takes them; the loops are over steps, never over rows:

    |---- 32 ----|---- 32 ----|- 8 -|- 8 -|- 8 -| 4 |1|1|1|
     stripes: four lanes a row, all rows that    the tail: one word that holds
     have one left, rows with most first         the last 0 to 7 bytes

So the cost is that of the bytes, plus a little for each step of the longest row of a block. A block
is as many rows as keep the working arrays in the cache of a core.

Specification: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

BLOCK_ROWS = 1 << 14
"""Rows at a time: three arrays of 128 KB fit the second-level cache, and calls cost little each."""

_MASK = (1 << 64) - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_P1, _P2, _P3, _P4, _P5 = (np.uint64(prime) for prime in _PRIMES)
_LANES = np.array([_PRIMES[0] + _PRIMES[1] & _MASK, _PRIMES[1], 0, -_PRIMES[0] & _MASK], np.uint64)
"""What the four lanes of a stripe start from, on top of the seed."""
_LANE_BYTES = np.arange(0, 32, 8, dtype=np.int64)
_LANE_TURNS = (1, 7, 12, 18)


def fold_words(words: npt.NDArray[Any], hashes: Words) -> None:
    """Hashes one integer a row, as its 64 bits little-endian, into `hashes`.

    Narrower integers count as the 64-bit integer of their value: one hash for all widths.
    """
    rows = min(len(words), BLOCK_ROWS)
    word_space, spare_space = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
    for start in range(0, len(words), BLOCK_ROWS):
        h = hashes[start : start + BLOCK_ROWS]
        word, spare = word_space[: len(h)], spare_space[: len(h)]
        word[:] = words[start : start + BLOCK_ROWS]
        h += np.uint64(_PRIMES[4] + 8)
        _mix_word(h, word, spare)
        _finish(h, spare)


def fold_bytes(data: npt.NDArray[np.uint8], starts: Places, lengths: Places, hashes: Words) -> None:
    """Hashes the bytes `data[starts[i]:][:lengths[i]]` of each row into `hashes`."""
    for row in range(0, len(hashes), BLOCK_ROWS):
        at, sizes = starts[row : row + BLOCK_ROWS], lengths[row : row + BLOCK_ROWS]
        first, last = int(at.min()), int((at + sizes).max())
        words = np.zeros((last - first) // 8 + 2, np.uint64)  # one word more may be read: see _read
        words.view(np.uint8)[: last - first] = data[first:last]
        _fold_block(words.view("<u8"), at - first, sizes, hashes[row : row + BLOCK_ROWS])


def _fold_block(words: Words, at: Places, sizes: Places, h: Words) -> None:
    long = np.flatnonzero(sizes >= 32)
    stripes = _stripes(words, at[long], sizes[long] >> 5, h[long]) if len(long) else h[:0]
    h += _P5
    h[long] = stripes
    h += sizes.view(np.uint64)

    count = (sizes & 31) >> 3
    at = at + (sizes & ~31)
    for step in range(int(count.max())):
        rows = np.flatnonzero(count > step)
        part, word = h[rows], _read(words, at[rows] + 8 * step)
        _mix_word(part, word, np.empty_like(part))
        h[rows] = part
    _mix_tail(h, _read(words, at + 8 * count), sizes & 7)
    _finish(h, np.empty_like(h))


def _stripes(words: Words, at: Places, counts: Places, seeds: Words) -> Words:
    """Consumes `counts` stripes of 32 bytes a row, at least one; merges the four lanes."""
    order = np.argsort(-counts)  # rows that have stripes left are the first ones, always
    lanes = seeds[order, None] + _LANES
    places = at[order, None] + _LANE_BYTES
    with_more = len(counts) - np.cumsum(np.bincount(counts))
    for stripe, rows in enumerate(with_more[:-1]):
        lane = lanes[:rows]
        lane += _read(words, places[:rows] + 32 * stripe) * _P2
        _rotate(lane, 31, np.empty_like(lane))
        lane *= _P1

    spare = np.empty_like(seeds)
    merged = np.zeros_like(seeds)
    for i, turns in enumerate(_LANE_TURNS):
        lane = lanes[:, i].copy()
        _rotate(lane, turns, spare)
        merged += lane
    for i in range(4):
        lane = lanes[:, i] * _P2
        _rotate(lane, 31, spare)
        lane *= _P1
        merged ^= lane
        merged *= _P1
        merged += _P4
    result = np.empty_like(seeds)
    result[order] = merged
    return result


def _mix_word(h: Words, word: Words, spare: Words) -> None:
    """One step of 8 bytes. Overwrites `word`."""
    word *= _P2
    _rotate(word, 31, spare)
    word *= _P1
    h ^= word
    _rotate(h, 27, spare)
    h *= _P1
    h += _P4


def _mix_tail(h: Words, tail: Words, left: Places) -> None:
    """The last 0 to 7 bytes of each row, which are the low ones of `tail`: 4 at once, then 1."""
    rows = np.flatnonzero(left & 4)
    part = h[rows] ^ (tail[rows] & np.uint64(0xFFFFFFFF)) * _P1
    _rotate(part, 23, np.empty_like(part))
    h[rows] = part * _P2 + _P3
    tail[rows] >>= np.uint64(32)
    for byte in range(3):
        rows = np.flatnonzero((left & 3) > byte)
        part = h[rows] ^ (tail[rows] >> np.uint64(8 * byte) & np.uint64(0xFF)) * _P5
        _rotate(part, 11, np.empty_like(part))
        h[rows] = part * _P1


def _finish(h: Words, spare: Words) -> None:
    """The avalanche: every bit of the input reaches every bit of the hash."""
    for shift, prime in ((33, _P2), (29, _P3)):
        np.right_shift(h, np.uint64(shift), out=spare)
        h ^= spare
        h *= prime
    np.right_shift(h, np.uint64(32), out=spare)
    h ^= spare


def _rotate(x: Words, bits: int, spare: Words) -> None:
    np.right_shift(x, np.uint64(64 - bits), out=spare)
    x <<= np.uint64(bits)
    x |= spare


def _read(words: Words, at: Places) -> Words:
    """The 8 bytes from byte `at` on, put together from the two words that they lie in."""
    i = at >> 3
    shift = ((at & 7) << 3).view(np.uint64)
    high = words[i + 1] << np.uint64(1)  # in two shifts, as one by 64 has no meaning
    read: Words = words[i] >> shift | high << (np.uint64(63) - shift)
    return read
