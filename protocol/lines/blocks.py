r"""Lines of text as they come in, cut into blocks: the batches of `gapless ingest`.

    fed    b'{"a":1}\n{"a":2}\n{"a'   b':3}\n'            in whatever chunks
    taken  b'{"a":1}\n{"a":2}\n'      b'{"a":3}\n'        take(2), take(2, rest=True)

Where a block ends follows from the lines alone, not from the chunks in which they came: so reading
the same file again gets the same blocks. A block has the lines that it is asked for, or
fewer if those have more than `BLOCK_BYTES_MAX`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK_BYTES_MAX = 32 << 20
"""Of one block: a batch is in memory as text, as columns and as records at once."""
LINE_BYTES_MAX = 1 << 20
"""Of one line. Of one that is longer no more is kept than it takes to say so: what has no ends of
lines at all must not fill the memory."""

_BYTE_ORDER = b"\xef\xbb\xbf"  # which some programs write in front of UTF-8

Places = npt.NDArray[np.int64]


class Block(NamedTuple):
    """Some lines, each with its end."""

    data: bytes
    first: int
    """The number of the first line; the input's first is 1."""


class Lines:
    """Takes chunks of bytes, gives blocks of whole lines."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._base = 0  # where the buffer begins in all that was fed
        self._ends: list[int] = []  # behind each whole line in the buffer, in all that was fed
        self._number = 1  # of the next line

    @property
    def whole(self) -> int:
        """Lines that are there whole."""
        return len(self._ends)

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the input."""
        last = self._ends[-1] if self._ends else self._base
        if self._base + len(self._buffer) - last > LINE_BYTES_MAX:
            end = chunk.find(b"\n")  # too long already: the rest of it is dropped
            if end < 0:
                return
            chunk = chunk[end:]
        start = self._base + len(self._buffer)
        found = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
        self._ends += (found + (start + 1)).tolist()
        self._buffer += chunk

    def finish(self) -> None:
        """The input is at its end; its last line may have none."""
        last = self._ends[-1] if self._ends else self._base
        if self._base + len(self._buffer) > last:
            self.feed(b"\n")

    def take(self, lines: int, *, rest: bool = False) -> Block | None:
        """The next so many lines; None while there are fewer, unless the rest is wanted."""
        there = len(self._ends)
        fit = max(1, bisect_right(self._ends, self._base + BLOCK_BYTES_MAX))
        count = min(lines, there, fit)
        if not count or (count < lines and count == there and not rest):
            return None
        size = self._ends[count - 1] - self._base
        data, number = bytes(self._buffer[:size]), self._number
        del self._buffer[:size], self._ends[:count]
        self._base += size
        self._number += count
        return Block(data.removeprefix(_BYTE_ORDER) if number == 1 else data, number)


class Spans(NamedTuple):
    """Where the lines of a block lie that are not blank, without their ends."""

    numbers: Places
    """Counted from the block's first line, which is 0."""
    starts: Places
    ends: Places


def spans(data: bytes) -> Spans:
    """The lines of a block except for blank ones; a carriage return is part of its line."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == ord("\n")).astype(np.int64, copy=False)
    starts = np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1))
    has_text = ends > starts
    for i in np.flatnonzero(has_text & (raw[starts] <= ord(" "))).tolist():
        has_text[i] = bool(data[starts[i] : ends[i]].strip())
    if has_text.all():
        return Spans(np.arange(len(ends), dtype=np.int64), starts, ends)
    return Spans(has_text.nonzero()[0], starts[has_text], ends[has_text])
