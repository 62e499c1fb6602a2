"""Zeros behind the end of a live segment, written ahead: what is appended there is safe sooner.

    | record | record | 0 0 0 0 0 0 0 |        appends write over the zeros; a sync of them has no
               end ^     headroom              new block to note, and waits for nobody but the disk
    | record | record | record | 0 0 0 |

A file system notes each new block of a file, in a thread of its own, before a sync of it returns.
On a busy machine that thread waits for its turn, and every reader of an output waits with it
(docs/decisions/0096). So a writer whose appends are synced writes a lot of zeros now and then, and
is slow that once. Writers that write the same, as the mergers of one shard do, do it at different
times: their readers take what the other one has.

What a commit counts never includes zeros. Sealing a segment cuts them off, as does the next writer
of one that has died.
"""

from __future__ import annotations

import errno
import zlib

from gapless.journal.disk import Disk
from gapless.journal.room import FREE_BYTES_ALARM

HEADROOM_BYTES = 1 << 20
"""Written ahead at once: of many small appends, and little to leave behind where a writer dies."""
LEFT = 4
"""More is written ahead once a part in so many is left."""
EVERY_MS = 1000
"""From one time to the next at least: a writer that fills a headroom sooner is bound by what it
writes, and zeros would double that."""
APPENDS = 4
"""So many appends fit at least. Of larger ones each has many new blocks that are noted at once, and
zeros would double what is written."""


class Headroom:
    """That of the live segments of one writer, one after the other."""

    def __init__(self, disk: Disk, token: str, segment_bytes: int, headroom_bytes: int) -> None:
        """`token` is the writer's alone. `segment_bytes`: behind which no headroom is needed."""
        self._disk = disk
        self._bytes = headroom_bytes
        self._first = headroom_bytes - zlib.crc32(token.encode()) % (headroom_bytes // 2 + 1)
        self._most = segment_bytes
        self._end = 0  # of what was safe before
        self._until = 0  # zeros, or what was appended over them, are there up to this byte
        self._next_ms: int | None = None  # when more may be written ahead

    def widen(self, name: str, end: int, now_ms: int) -> None:
        """Writes ahead where little is left; all that was appended, up to `end`, is safe. Raises
        `OSError` where the disk has failed. On a disk with little room nothing is written ahead.
        """
        appended, self._end = end - self._end, end
        if self._until - end > self._bytes // LEFT or appended * APPENDS > self._bytes:
            return
        if self._next_ms is not None and now_ms < self._next_ms:
            return
        until = min(end + (self._bytes if self._until else self._first), self._most)
        if until <= max(self._until, end) or self._disk.free_bytes() < FREE_BYTES_ALARM:
            return
        try:
            self._disk.write_ahead(name, until)
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return  # appends say so, once there is no room for them either
        self._until = until
        self._next_ms = now_ms + EVERY_MS

    def close(self, name: str, end: int) -> None:
        """Cuts off what is left behind the end of a segment that was sealed; the next one has none
        yet. Raises `OSError` as `widen`.
        """
        if self._until > end:
            self._disk.truncate(name, end)
        self._end = self._until = 0
