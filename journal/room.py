"""Room on the disk: an alarm before it is full, a refusal while there is still room to finish."""

from __future__ import annotations

import errno
from collections.abc import Callable

from gapless.journal.disk import Disk
from gapless.protocol.errors import DiskFull, GaplessError, JournalError

FREE_BYTES_MIN = 16 << 20
"""Room that is left: for a commit, and for people who come to make more."""
FREE_BYTES_ALARM = 1 << 30
"""Where the alarm begins: seconds before at the speed of a disk, hours at that of most streams."""
CHECK_BYTES = 4 << 20
"""Bytes written from one look at the free space to the next: less than is left."""


class Room:
    """Looks at the free space of one disk now and then."""

    def __init__(self, disk: Disk, on_alarm: Callable[[str], None] | None = None) -> None:
        self._disk = disk
        self._on_alarm = on_alarm
        self._unchecked_bytes = CHECK_BYTES
        self._alarmed = False

    def need(self, size: int) -> None:
        """So many bytes are about to be written; raises `DiskFull` where they had better not."""
        self._unchecked_bytes += size
        if self._unchecked_bytes < CHECK_BYTES:
            return
        self._unchecked_bytes = 0
        free = self._disk.free_bytes()
        if free < FREE_BYTES_MIN + size:
            raise DiskFull(_full(self._disk, free))
        is_low = free < FREE_BYTES_ALARM
        if is_low and not self._alarmed:
            self.alarm(
                f"{self._disk}: {free >> 20} MB are free; at {FREE_BYTES_MIN >> 20} MB nothing is "
                "written any more: `gapless journal trim`, or make room"
            )
        self._alarmed = is_low

    def alarm(self, text: str) -> None:
        """Tells the listener."""
        if self._on_alarm is not None:
            self._on_alarm(text)

    def refused(self, error: OSError) -> GaplessError:
        """What to raise where the disk did not take something."""
        self._unchecked_bytes = CHECK_BYTES
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(_full(self._disk, self._disk.free_bytes()))
        return JournalError(f"{self._disk}: {error}: the disk did not take what was to be written")


def _full(disk: Disk, free: int) -> str:
    return (
        f"{disk}: {free >> 20} MB are free, which is too little to write. Nothing of this was "
        "written, what was there is whole: make room (`gapless journal trim`) and try again"
    )
