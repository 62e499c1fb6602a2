"""Those who ask a merger for a table: one scan each, a few at once, and none for who has gone.

    Open(since) --> waits until the output is durably stable up to `since`, and for its turn
                --> ReadTable --> TableRead --> Opened
                --> DropTable, where a later attempt took its place, or nobody asks any more

A table may take a minute to scan, and who asks for it asks again several times a second. So a
question that is asked again is the one that waits already, or is being answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.effects import DropTable, Effect, ReadRefused, ReadTable, TableRead
from gapless.failover.messages import Open
from gapless.protocol.errors import Bug

SCANS_MAX = 4
"""Tables that are read at once: each takes a slice in turn, so that a short one does not wait for a
long one. Each holds its table in memory meanwhile, so there are no more.
"""
GONE_MS = 10_000
"""Who has not asked again for that long waits no more: everybody does so within seconds."""


@dataclass(slots=True)
class _Asked:
    attempt: int
    since: int
    heard_at: int


class Openings:
    """The questions for tables of one life of a merger."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._waiting: dict[str, _Asked] = {}  # in the order in which they asked first
        self._scanned: dict[str, _Asked] = {}

    def ask(self, event: Open, since: int, durable_stable: int, now: int) -> list[Effect]:
        """A question, for the first time or again."""
        subscriber, attempt = event.subscriber, event.attempt
        effects: list[Effect] = []
        for known in (self._scanned.get(subscriber), self._waiting.get(subscriber)):
            if known is None or attempt < known.attempt:
                if known is not None:
                    return []  # late: it has asked something else since
                continue
            if attempt == known.attempt:
                known.heard_at = now
                return []
        if (scanned := self._scanned.pop(subscriber, None)) is not None:
            effects.append(DropTable(subscriber, scanned.attempt))
        if subscriber in self._waiting or len(self._waiting) < self._waiting_max:
            self._waiting[subscriber] = _Asked(attempt, since, now)
        return effects + self.go_on(durable_stable, now)

    def go_on(self, durable_stable: int, now: int) -> list[Effect]:
        """Begins what may begin: the output is durably stable up to here, and this is the time."""
        effects = self._drop_gone(now)
        if not self._waiting or len(self._scanned) >= SCANS_MAX:
            return effects
        ready = [s for s, asked in self._waiting.items() if asked.since <= durable_stable]
        for subscriber in ready[: SCANS_MAX - len(self._scanned)]:
            asked = self._scanned[subscriber] = self._waiting.pop(subscriber)
            effects.append(ReadTable(subscriber, asked.attempt, asked.since))
        return effects

    def _drop_gone(self, now: int) -> list[Effect]:
        silent = [
            (held, subscriber)
            for held in (self._waiting, self._scanned)
            for subscriber, asked in held.items()
            if now - asked.heard_at >= GONE_MS
        ]
        effects: list[Effect] = []
        for held, subscriber in silent:
            asked = held.pop(subscriber)
            if held is self._scanned:
                effects.append(DropTable(subscriber, asked.attempt))
        return effects

    def is_answered(self, event: TableRead | ReadRefused, attempt: int) -> bool:
        """Whether this is what a subscriber waits for; its place is free then."""
        scanned = self._scanned.get(event.subscriber)
        if scanned is None or scanned.attempt != attempt:
            return False
        del self._scanned[event.subscriber]
        return True

    @property
    def subscribers(self) -> set[str]:
        """Who waits."""
        return {*self._waiting, *self._scanned}

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if len(self._waiting) > self._waiting_max or len(self._scanned) > SCANS_MAX:
            raise Bug(f"{len(self._waiting)} wait for a table, {len(self._scanned)} are read")
        if twice := self._waiting.keys() & self._scanned.keys():
            raise Bug(f"{sorted(twice)} wait for a table, and one is read for them")
