"""What happens to packets from one host to another: a rule, and a link that keeps to it.

    when(now, size)     drop? refuse? lost?       -> None
                        bytes_per_s: a token bucket   |---queue---|  full: dropped at its tail
                        delay + jitter            -> never before the packet ahead of it
                        reorder: held back HELD_S -> those behind it pass it

Time comes in and randomness is seeded, so what a link does is a function of what it is given.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields

from gapless.protocol.errors import Misuse

DELAY_MS_MAX = 60_000.0
"""Of delay and jitter: TCP gives up long after it."""
HELD_S = 0.010
"""How long a packet is held back for others to pass it: some, where any are sent at all."""
BUCKET_BYTES = 128 << 10
"""What a link that was idle lets pass at once, at most: two of the largest packets."""
BUCKET_S = 0.01
"""And what it carries in so long, where that is less: over a slow link every packet takes its time,
so that one is slow whatever the load is."""
QUEUE_BYTES_MAX = 1 << 20
"""Of packets that wait for bandwidth, a pair; more are dropped, as a router's port does."""
HELD_BYTES_MAX = 64 << 20
"""Of packets that wait for anything, a pair: a second's delay at more than Ray sends."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to packets of an ordered pair. All defaults: nothing."""

    drop: bool = False
    """A silent partition: nothing arrives, nobody is told."""
    refuse: bool = False
    """Every TCP packet is answered with a RST to its sender, and dropped; others are dropped."""
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """Up to so much more delay, anew for each packet; the order is kept."""
    loss: float = 0.0
    """The share of packets that is lost."""
    reorder: float = 0.0
    """The share of packets that is held back behind later ones."""
    bytes_per_s: float | None = None
    """None: as fast as it goes."""

    def __post_init__(self) -> None:
        for name in ("delay_ms", "jitter_ms"):
            self._check(name, DELAY_MS_MAX)
        for name in ("loss", "reorder"):
            self._check(name, 1.0)
        if self.bytes_per_s is not None and not 0 < self.bytes_per_s < math.inf:
            raise Misuse(f"a rule's bytes_per_s = {self.bytes_per_s}: above 0; drop takes all")
        if self.drop and self.refuse:
            raise Misuse("a rule cannot both drop in silence and refuse: choose one")

    def _check(self, name: str, most: float) -> None:
        value = getattr(self, name)
        if not 0 <= value <= most:
            raise Misuse(f"a rule's {name} = {value}: from 0 to {most:g}")


@dataclass(slots=True)
class PacketCounts:
    """What has happened to the packets of an ordered pair so far."""

    passed: int = 0
    dropped: int = 0
    """Of whatever cause: partition, loss, a full queue."""
    delayed: int = 0
    """Those that had to wait; they pass later, and count there too."""
    reordered: int = 0
    """Those that passed after a later one."""
    reset: int = 0
    """RSTs that were forged: answers to its packets, or ends of its connections."""

    def numbers(self) -> list[int]:
        """In the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]


class HostLink:
    """From one host to another: its rule, and what that keeps."""

    __slots__ = (
        "_free_s",
        "_latest_s",
        "_rng",
        "counts",
        "has_rule",
        "held_bytes",
        "highest",
        "rule",
    )

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        self.counts = PacketCounts()
        self.held_bytes = 0
        """Of packets that wait; kept by their holder."""
        self.highest = 0
        """The number of the latest packet that passed, likewise."""
        self.set(Rule())

    def set(self, rule: Rule) -> None:
        """From now on."""
        self.rule = rule
        self.has_rule = rule != Rule()
        self._free_s = -math.inf
        self._latest_s = -math.inf

    def when(self, now_s: float, size_bytes: int) -> float | None:
        """The moment at which a packet goes on; None of one that never does."""
        rule = self.rule
        if rule.drop or rule.refuse or self.held_bytes + size_bytes > HELD_BYTES_MAX:
            return None
        if rule.loss and self._rng.random() < rule.loss:
            return None
        at_s = now_s
        if rule.bytes_per_s is not None:
            idle_s = min(BUCKET_BYTES / rule.bytes_per_s, BUCKET_S)
            free_s = max(self._free_s, now_s - idle_s)
            free_s += size_bytes / rule.bytes_per_s
            if (free_s - now_s) * rule.bytes_per_s > QUEUE_BYTES_MAX:
                return None
            self._free_s = free_s
            at_s = max(now_s, free_s)
        if rule.delay_ms or rule.jitter_ms:
            at_s += (rule.delay_ms + self._rng.random() * rule.jitter_ms) / 1_000
        at_s = max(at_s, self._latest_s)
        if rule.reorder and self._rng.random() < rule.reorder:
            return at_s + HELD_S  # those behind it need not wait for it
        self._latest_s = at_s
        return at_s
