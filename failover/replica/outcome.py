"""What comes of one read of a source: taken part by part, as far as there is room for it.

    SourceRead --> the plan's parts:  p0  p1  p2 | p3  p4 ...        the tail is full with p2
                                      put out    | waits for acks of mergers

One frame may cause more output than memory holds: rows of one key that all join, windows of a lull.
So it is not gathered. While a part waits nothing else may be asked of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gapless.failover.replica.effects import SourceRead
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame


class Outcome:
    """Of the read that is being taken in, if one is."""

    def __init__(self) -> None:
        self._read: SourceRead | None = None
        self._parts: Iterator[Frame] = iter(())
        self._waits: Frame | None = None  # the next part, made before it was known to wait

    @property
    def is_under_way(self) -> bool:
        """Whether parts of it are to be put out yet."""
        return self._read is not None

    def begin(self, read: SourceRead, parts: Iterator[Frame]) -> None:
        """The plan has been given what was read, and this is what it makes of that."""
        if self._read is not None:
            raise Bug(f"a read of {self._read.source} is not taken in yet")
        self._read, self._parts = read, parts

    def take(self, put: Callable[[Frame], None], is_full: Callable[[], bool]) -> SourceRead | None:
        """Puts parts out, one at least, until there is no room; the read, once all are out.

        Whether there is more is known only when it is made: a part waits, where it is.
        """
        part = next(self._parts, None) if self._waits is None else self._waits
        self._waits = None
        while part is not None:
            put(part)
            part = next(self._parts, None)
            if part is not None and is_full():
                self._waits = part
                return None
        read, self._read, self._parts = self._read, None, iter(())
        return read

    def drop(self) -> None:
        """Whatever is left of it is not wanted: the plan begins anew."""
        self._read, self._parts, self._waits = None, iter(()), None
