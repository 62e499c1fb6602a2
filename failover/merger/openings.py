"""Those who ask a merger for a table: one scan each, a few at once, and none for those that are
gone.

    Open(since) --> waits until the output is durably stable up to `since`, and for its turn
                --> ReadTable --> TableRead --> Opened, part 0 of n
                --> DropTable, where a later attempt took its place, or nobody asks any more
    Open(part)  --> Opened, that part                the table is held until the last was taken

A table may take a minute to scan, and a subscriber asks for it again several times a second. So a
question that is asked again is the one that waits already, or is being answered.

A table may be larger than a message should be. Then it goes in parts, each asked for by itself, as
nothing is ever pushed. All parts are of one table; a question for a part of one
that is not held any more, as a new life of the merger holds none, is told another from its begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gapless.failover import parts
from gapless.failover.merger.effects import (
    DropTable,
    MergerEffect,
    ReadRefused,
    ReadTable,
    TableRead,
)
from gapless.failover.messages import Open, Opened, Token
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

SCANS_MAX = 4
"""Tables that are read, or handed out in parts, at once: each takes a slice in turn, so that a
short one does not wait for a long one. Each is in memory meanwhile, so there are no more.
"""
PART_ROWS_MAX = 65_536
"""Of a table that is handed out: a round trip costs little to so many rows, and no thread encodes
or decodes a message for long."""
PART_BYTES_MAX = 2 << 20
"""Of it, too: a larger answer than some megabytes comes by the object store of the merger's node,
and waits for whatever that node waits for."""
GONE_MS = 10_000
"""One that has not asked again for that long does not wait any more: all do so within seconds."""


@dataclass(slots=True)
class _Asked:
    attempt: int
    since: int
    heard_at: int


@dataclass(slots=True)
class _Table:
    """One that is handed out in parts."""

    attempt: int
    since: int
    parts: Sequence[Frame]
    token: Token
    heard_at: int

    def opened(self, part: int) -> Opened:
        """A part of it; the first where there is no such part."""
        count = len(self.parts)
        part = part if 0 <= part < count else 0
        return Opened(self.attempt, self.since, self.parts[part], self.token, part, count)


class Openings:
    """The questions for tables of one life of a merger."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._waiting: dict[str, _Asked] = {}  # in the order in which they asked first
        self._scanned: dict[str, _Asked] = {}
        self._tables: dict[str, _Table] = {}

    def hand_out(self, event: TableRead, token: Token, now: int) -> Opened | None:
        """The first part of a table, to those that still wait for it; other parts once they are
        asked for.
        """
        if not self.is_answered(event, event.attempt):
            return None
        cut = parts.cut(event.frame, PART_ROWS_MAX, PART_BYTES_MAX)
        table = _Table(event.attempt, event.since, cut, token, now)
        if len(cut) > 1:
            self._tables[event.subscriber] = table
        return table.opened(0)

    def part(self, event: Open, now: int) -> Opened | None:
        """The part that is asked for, of a table that is held."""
        table = self._tables.get(event.subscriber)
        if table is None or table.attempt != event.attempt:
            return None
        table.heard_at = now
        return table.opened(event.part)

    def let_go(self, subscriber: str) -> None:
        """It has all parts, and goes on behind them."""
        self._tables.pop(subscriber, None)

    def ask(self, event: Open, since: int, durable_stable: int, now: int) -> list[MergerEffect]:
        """A question, for the first time or again."""
        subscriber, attempt = event.subscriber, event.attempt
        effects: list[MergerEffect] = []
        held = (self._tables, self._scanned, self._waiting)
        for known in (by_subscriber.get(subscriber) for by_subscriber in held):
            if known is None or attempt < known.attempt:
                if known is not None:
                    return []  # late: it has asked something else since
                continue
            if attempt == known.attempt:
                known.heard_at = now
                return []
        self.let_go(subscriber)
        if (scanned := self._scanned.pop(subscriber, None)) is not None:
            effects.append(DropTable(subscriber, scanned.attempt))
        if subscriber in self._waiting or len(self._waiting) < self._waiting_max:
            self._waiting[subscriber] = _Asked(attempt, since, now)
        return effects + self.go_on(durable_stable, now)

    def go_on(self, durable_stable: int, now: int) -> list[MergerEffect]:
        """Begins what may begin: the output is durably stable up to here, and this is the time."""
        effects = self._drop_gone(now)
        room = SCANS_MAX - len(self._scanned) - len(self._tables)
        if not self._waiting or room <= 0:
            return effects
        ready = [s for s, asked in self._waiting.items() if asked.since <= durable_stable]
        for subscriber in ready[:room]:
            asked = self._scanned[subscriber] = self._waiting.pop(subscriber)
            effects.append(ReadTable(subscriber, asked.attempt, asked.since))
        return effects

    def _drop_gone(self, now: int) -> list[MergerEffect]:
        silent: list[tuple[dict[str, Any], str]] = [
            (held, subscriber)
            for held in (self._waiting, self._scanned, self._tables)
            for subscriber, asked in held.items()
            if now - asked.heard_at >= GONE_MS
        ]
        effects: list[MergerEffect] = []
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
        """The subscribers that wait."""
        return {*self._waiting, *self._scanned, *self._tables}

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        tables = len(self._scanned) + len(self._tables)
        if len(self._waiting) > self._waiting_max or tables > SCANS_MAX:
            raise Bug(f"{len(self._waiting)} wait for a table, {tables} are read or handed out")
        if twice := self._waiting.keys() & self._scanned.keys():
            raise Bug(f"{sorted(twice)} wait for a table, and one is read for them")
