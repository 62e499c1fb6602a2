"""How many lives may be replaced on suspicion.

    calm        REPLACEMENTS_MAX at once, then one for each replace_ms
    strained    STRAINED_MAX at once, then one for each STRAINED_FACTOR * replace_ms

A replacement costs the machine a start, and a state that is read: where it was needless it makes
the next one more likely. So there are only so many, and each one that turns out to have been
needless, because the life that was given up reports again, halves what is left. Dead lives are not
counted: they leave room, and have a back-off of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.failover.effects import Alarm
from gapless.failover.supervisor.overload import Strain
from gapless.failover.supervisor.slots import Known
from gapless.failover.timing import Timing
from gapless.protocol.errors import Bug

REPLACEMENTS_MAX = 20
"""Successive ones, of one shard: more than its slots, so that a node that hangs costs no wait."""
STRAINED_MAX = 1
"""Successive ones while the machines are strained: whatever hangs then may hang for want of a CPU.
"""
STRAINED_FACTOR = 12
"""How much more slowly they come back then: with the default wait, one in four minutes."""


class Bucket:
    """Tokens that come back with time."""

    __slots__ = ("_at", "_most", "_refill_ms", "tokens")

    def __init__(self, most: int, refill_ms: int, now: int) -> None:
        self.tokens = most
        self._most = most
        self._refill_ms = refill_ms
        self._at = now  # when the last token came

    def refill(self, now: int) -> None:
        """Time has passed."""
        count = (now - self._at) // self._refill_ms
        if count > 0:
            self.tokens = min(self._most, self.tokens + count)
            self._at += count * self._refill_ms

    def take(self) -> None:
        """One of them, if there is one."""
        self.tokens = max(0, self.tokens - 1)


class Ration:
    """Of one shard."""

    def __init__(self, replace_ms: int, now: int) -> None:
        self._calm = Bucket(REPLACEMENTS_MAX, replace_ms, now)
        self._strained = Bucket(STRAINED_MAX, STRAINED_FACTOR * replace_ms, now)
        self.taken = 0
        """Replacements so far."""
        self.needless = 0
        """How often a life that was given up has reported again."""

    def may_take(self, now: int, *, strained: bool) -> bool:
        """Whether one more life may be replaced."""
        self._calm.refill(now)
        self._strained.refill(now)
        return self._calm.tokens > 0 and (not strained or self._strained.tokens > 0)

    def take(self, *, strained: bool) -> None:
        """One more life is replaced."""
        self._calm.take()
        if strained:
            self._strained.take()
        self.taken += 1

    def was_needless(self) -> None:
        """A life that was given up has reported again."""
        self.needless += 1
        self._calm.tokens //= 2

    def validate(self) -> None:
        """Raises `Bug` where more is there than may be."""
        if not 0 <= self._calm.tokens <= REPLACEMENTS_MAX:
            raise Bug(f"{self._calm.tokens} replacements are left of {REPLACEMENTS_MAX}")


class ReplacementBudget:
    """Of all shards of a job: their rations, and whether the machines are strained."""

    def __init__(self, timing: Timing, shards: int) -> None:
        self._strain = Strain(timing)
        self._rations = [Ration(timing.replace_ms, 0) for _ in range(shards)]
        self._is_rationed = False  # since the last alarm: a life waits for its replacement
        self.lost_lives = 0
        """How many lives are over that were needed, or were replaced."""

    def tick(self, slept_ms: int, lives: Iterable[Known], now: int) -> None:
        """Looks for signs of strain. `slept_ms`: since the tick before."""
        self._strain.tick(slept_ms, lives, now)

    def is_strained(self, now: int) -> bool:
        """Whether the machines are slow, and not the lives on them."""
        return self._strain.lasts(now)

    def may_replace(self, shard: int, now: int) -> bool:
        """Whether one more life of a shard may be replaced because it is slow or silent."""
        if self._rations[shard].may_take(now, strained=self.is_strained(now)):
            return True
        self._is_rationed = True
        return False

    def replaces(self, shard: int, now: int) -> None:
        """One more is."""
        self._rations[shard].take(strained=self.is_strained(now))

    def was_needless(self, shard: int, now: int) -> None:
        """A life that was given up for its silence, or has a successor, reports again."""
        self._rations[shard].was_needless()
        self._strain.sign(now)

    def alarms(self, now: int) -> list[Alarm]:
        """The alarm that the machines are overloaded, once they have been for long enough."""
        taken = sum(ration.taken for ration in self._rations)
        needless = sum(ration.needless for ration in self._rations)
        rationed, self._is_rationed = self._is_rationed, False
        what = self._strain.alarm(now, self.lost_lives, taken, needless, rationed=rationed)
        return [Alarm(what)] if what else []

    def validate(self) -> None:
        """Raises `Bug` where more is there than may be."""
        for ration in self._rations:
            ration.validate()
