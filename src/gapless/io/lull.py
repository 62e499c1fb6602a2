"""A lull: no input comes, and time goes on all the same.

    --idle 5s     the last row comes at 12:00:00, the watermark stands at 11:59:55
                  12:00:05   nothing came: no row below 12:00:00 comes any more
                  12:00:10   nor below 12:00:05
                  a row      the rows move the watermark again

What is promised is the watermark at the lull's begin and the time that has passed since: rows that
come behind it may be as late as others, if they have the present time when they come.
"""

from __future__ import annotations

from gapless.io.journal_handles import JournalWriter
from gapless.protocol.elements import BEGIN

TICKS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Lull:
    """Promises for one writer."""

    def __init__(self, writer: JournalWriter, after_s: float) -> None:
        self.after_s = after_s
        """So long it is to the first promise, and to the next."""
        self._writer = writer
        self._begin: int | None = None

    def ended(self) -> None:
        """Input has come."""
        self._begin = None

    def lasts(self, seconds: float) -> None:
        """Nothing has come for so long, and all that came is appended."""
        if self._begin is None:
            self._begin = self._writer.stable
        if self._begin > BEGIN:
            unit = TICKS_A_SECOND[self._writer.layout.schema.time_unit]
            self._writer.promise(self._begin + int(seconds * unit))
