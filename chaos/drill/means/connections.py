"""The TCP connections that a switch has seen, with what each side expects next: enough to end one.

    host 1  port 4001  --- seq 700, 50 bytes, ack 90 --->  port 22  host 2
            next[0] = 750 (it has sent so far)   expects[0] = 90 (it wants next)

A side believes a RST only with exactly the number that it expects. That is its last ack, or, where
that is on its way or held back, the end of what the other side has sent. Should neither be right,
it answers a wrong RST with an ack that says it: so every later packet of a connection that was
ended is answered with a RST. The same ports may be used anew, which begins with a SYN.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from gapless.chaos.drill.means.packets import ACK, FIN, RST, SYN, Segment, is_later

CONNECTIONS_MAX = 4_096
"""That are remembered, the latest heard of: a cluster of eight nodes has some hundred."""

Key = tuple[int, int, int, int]
"""A host and its port, then the other: the lesser host is first."""


@dataclass(slots=True)
class TcpConnection:
    """What was seen of one. Of each list the first is of the lesser host."""

    next: list[int | None] = field(default_factory=lambda: [None, None])
    """After the last that a side has sent."""
    expects: list[int | None] = field(default_factory=lambda: [None, None])
    """What a side has said that it wants next."""
    has_finished: list[bool] = field(default_factory=lambda: [False, False])
    is_over: bool = False
    """A side has reset it."""
    was_ended: bool = False
    """We have."""

    @property
    def is_open(self) -> bool:
        """Whether there is something to end."""
        return not (self.is_over or self.was_ended or all(self.has_finished))

    def take(self, side: int, segment: Segment) -> None:
        """Learns from a segment that a side has sent."""
        if segment.flags & RST:
            self.is_over = True
            return
        was = self.next[side]
        if was is None or is_later(segment.end, was):
            self.next[side] = segment.end
        if segment.flags & ACK:
            expected = self.expects[side]
            if expected is None or is_later(segment.ack, expected):
                self.expects[side] = segment.ack
        if segment.flags & FIN:
            self.has_finished[side] = True

    def numbers_for(self, side: int) -> list[int]:
        """Those that a side may expect next, the likeliest first; 0 of one that knows nothing."""
        found = dict.fromkeys((self.expects[side], self.next[1 - side]))
        return [number for number in found if number is not None] or [0]


class Connections:
    """Those that were heard of last."""

    def __init__(self, most: int = CONNECTIONS_MAX) -> None:
        self._most = most
        self._known: OrderedDict[Key, TcpConnection] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def saw(self, source: int, target: int, segment: Segment) -> bool:
        """Learns from a segment; whether its connection goes on (it was not ended by us)."""
        is_first = source < target
        key = (
            (source, segment.from_port, target, segment.to_port)
            if is_first
            else (target, segment.to_port, source, segment.from_port)
        )
        known = self._known.get(key)
        if known is None or segment.flags & (SYN | ACK) == SYN:  # which says nothing but its number
            known = self._known[key] = TcpConnection()
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        if known.was_ended:
            return False
        known.take(0 if is_first else 1, segment)
        return True

    def end(self, a: int, b: int) -> Iterator[tuple[Key, TcpConnection]]:
        """Marks all open ones between two hosts as ended by us, and says which."""
        pair = (min(a, b), max(a, b))
        for key, known in self._known.items():
            if (key[0], key[2]) == pair and known.is_open:
                known.was_ended = True
                yield key, known
