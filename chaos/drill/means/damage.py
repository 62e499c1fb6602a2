"""Damage to files: a bit that has flipped, an end that is torn off; and both undone."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from gapless.protocol.errors import Misuse

Mend = Callable[[], None]
BYTE_BITS = 8


def flip_bit(path: Path, rng: random.Random, low: int = 0) -> tuple[int, Mend]:
    """Flips one bit from byte `low` on, in place, as the disk would; at which byte, and what
    flips it back. A file that has gone since needs no mending.
    """
    size = path.stat().st_size
    if size <= low:
        raise Misuse(f"{path} has no byte {low}: it has {size}")
    at, bit = rng.randrange(low, size), rng.randrange(BYTE_BITS)

    def flip() -> None:
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return
        try:
            byte = os.pread(file, 1, at)
            os.pwrite(file, bytes([byte[0] ^ (1 << bit)]), at)
        finally:
            os.close(file)

    flip()
    return at, flip


def tear(path: Path, rng: random.Random) -> int:
    """Cuts a file off somewhere, as a crash does that comes before the disk has all of it; how many
    bytes are left.
    """
    left = rng.randrange(path.stat().st_size)
    os.truncate(path, left)
    return left
