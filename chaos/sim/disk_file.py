"""One file of a simulated disk: which of its bytes a crash takes.

append, append, sync, append       crash
[ synced          ][ unsynced ]    [ synced          ][ uns      some prefix is left, often torn
[ synced  ][ unsynced ][ 0 0 0 ]   [ synced  ][ 0 0 nced ][ 0 0   in zeros any pages are left
put 17, put 18, put 19             17, or 18, or 18 and half of 19
"""

from __future__ import annotations

import random

PUTS_MAX = 4
"""Overwrites of one small file that a crash may still undo: the system has written older ones."""
PAGE_BYTES = 128
"""Written as a whole or not at all, in zeros that were written ahead: less than any disk has, as
simulated records are small."""
SPARED = 0.25
"""How likely all unsynced bytes of a file survive a crash, and how likely none: systems write back
in large pieces, so these two are as common as a torn end."""


class File:
    """The bytes of one file, under however many names. A file that was mapped has become `bytes`,
    which maps share; the first change after that makes a copy.
    """

    __slots__ = ("base", "data", "end", "flipped", "links", "puts", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data: bytearray | bytes = bytearray(data)
        self.synced = 0
        """So many of its bytes survive a crash."""
        self.end: int | None = None
        """Where appends go on in zeros that were written ahead; None where none were."""
        self.links = 0
        self.base = b""
        """What it was before `puts`."""
        self.puts: list[bytes] = []
        """What was laid over its start since it was synced."""
        self.flipped: dict[int, int] = {}
        """By place, the bits that are flipped at present."""

    def as_written(self, part: slice) -> bytes:
        """A part of it as it would be if none of its bits were flipped."""
        data = bytearray(self.data[part])
        for at, bits in self.flipped.items():
            if part.start <= at < part.start + len(data):
                data[at - part.start] ^= bits
        return bytes(data)

    def changed(self) -> bytearray:
        """The bytes, to be changed."""
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        return self.data

    def grows_by(self, data: bytes) -> int:
        """How many bytes more it has once these are appended."""
        return len(data) if self.end is None else max(0, self.end + len(data) - len(self.data))

    def append(self, data: bytes) -> int:
        """Lays bytes behind what was appended; returns where they end."""
        held = self.changed()
        at = len(held) if self.end is None else self.end
        held[at : at + len(data)] = data
        if self.end is not None:
            self.end = at + len(data)
        return at + len(data)

    def write_ahead(self, size: int) -> None:
        """Lays zeros behind what was appended; all of it is safe."""
        held = self.changed()
        if self.end is None:
            self.end = len(held)
        held.extend(bytes(max(0, size - len(held))))
        self.sync()

    def put(self, data: bytes) -> None:
        """Lays bytes over the start."""
        if not self.puts:
            self.base = bytes(self.data)
        elif len(self.puts) == PUTS_MAX:
            self.base = _over(self.base, self.puts.pop(0))
        self.puts.append(data)
        self.changed()[: len(data)] = data

    def sync(self) -> None:
        """From now on all of it survives."""
        self.synced = len(self.data) if self.end is None else self.end
        if self.puts:
            self.puts.clear()

    def crash(self, rng: random.Random) -> None:
        """Loses what may be lost."""
        if self.puts:
            self._undo_puts(rng)
        end = len(self.data) if self.end is None else self.end
        if self.synced < end:
            fate = rng.random()
            if fate >= SPARED and self.end is not None:
                self._lose_pages(rng, end, 1.0 if fate < 2 * SPARED else 0.5)
            elif fate >= SPARED:
                end = self.synced if fate < 2 * SPARED else rng.randint(self.synced, end)
                del self.changed()[end:]
        self.sync()

    def _lose_pages(self, rng: random.Random, end: int, share: float) -> None:
        """Pages that were not synced are zeros again: each by itself, whichever lies before it."""
        held, at = self.changed(), self.synced
        while at < end:
            behind = min(at - at % PAGE_BYTES + PAGE_BYTES, len(held))
            if rng.random() < share:
                held[at:behind] = bytes(behind - at)
            at = behind

    def _undo_puts(self, rng: random.Random) -> None:
        """Goes back to one of the puts, with a part of the one after it."""
        kept = rng.randint(0, len(self.puts))
        image = self.base
        for data in self.puts[:kept]:
            image = _over(image, data)
        if kept < len(self.puts):
            torn = self.puts[kept]
            image = _over(image, torn[: rng.randint(0, len(torn))])
        self.changed()[: max(len(image), *(len(data) for data in self.puts))] = image


def _over(image: bytes, data: bytes) -> bytes:
    return data + image[len(data) :]
