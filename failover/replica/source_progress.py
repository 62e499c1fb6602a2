"""Reading: which source a replica reads next, how far each is, and when all has been read.

    flows   stable 40    position {0: 812}
    dhcp    stable 35    position {0: 90}     <- least far: read next, unless it had nothing

One read is under way at a time, over all sources; a source that had nothing is asked again with the
next tick. A source whose stable is INF has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.failover.replica.effects import Position, ReadSource, ReplicaEffect, SourceRead
from gapless.protocol.elements import BEGIN, INF


class SourceProgress:
    """How far a replica has read."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.positions: dict[str, Position] = {}
        """Behind what was read, by source: of those that have answered."""
        self.is_draining = False
        """Whether only what is there now is read."""
        self._reached = dict.fromkeys(sources, BEGIN)
        self._asked: str | None = None
        self._dry: set[str] = set()  # they had nothing, since the last tick
        self._left: set[str] = set()  # while draining: they may have rows that were there
        self._asked_before = False  # whether the drain was ordered while a read was under way

    def go_on_at(self, positions: Mapping[str, Position], reached: Mapping[str, int]) -> None:
        """Takes up where another life was."""
        self.positions = dict(positions)
        self._reached = dict(reached)

    # -- asking -------------------------------------------------------------------------------

    def ask(self) -> list[ReplicaEffect]:
        """Reads the source that is least far, where there is one to read and none is being read."""
        if self._asked is not None or self.has_drained:
            return []
        least = INF
        for name, stable in self._reached.items():
            if stable < least and name not in self._dry:
                least, self._asked = stable, name
        return [] if self._asked is None else [ReadSource(self._asked, self.is_draining)]

    def ask_again(self) -> None:
        """Time has passed: sources may have something by now."""
        self._dry.clear()

    def expects(self, answer: SourceRead) -> bool:
        """Whether that source is being read."""
        return answer.source == self._asked

    def answered(self, answer: SourceRead) -> None:
        """The read is done, and what it gave was taken in."""
        source, frame = answer.source, answer.frame
        self._asked = None
        self.positions[source] = answer.position
        was_before, self._asked_before = self._asked_before, False
        if frame is None:
            self._dry.add(source)
            if not was_before:
                self._left.discard(source)
        elif frame.stable is not None and frame.stable > self._reached[source]:
            self._reached[source] = frame.stable

    @property
    def is_under_way(self) -> bool:
        """Whether a source is being read."""
        return self._asked is not None

    # -- what it is ---------------------------------------------------------------------------

    @property
    def unread(self) -> list[str]:
        """Sources that have not answered yet."""
        return [name for name in self._reached if name not in self.positions]

    def drain(self) -> None:
        """From now on only what is there now: until every source has had nothing once."""
        if not self.is_draining:
            self.is_draining = True
            self._left = set(self._reached)
            self._asked_before = self._asked is not None

    @property
    def has_drained(self) -> bool:
        """Whether all that was there when it was told to drain has been read."""
        return (
            self.is_draining
            and self._asked is None
            and all(self._reached[name] == INF for name in self._left)
        )
