"""With deliver="final" a program gets each event of the table once, over any resume.

An event is settled when nothing about it can change any more: of a plan that never adjusts once
`vs < stable`, else once `ve < stable`. A frame is taken at once: each event in it must be one of
the table that was not given before; and at each stable all that it settles must have been given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Emitted, Resumed, Verdict
from gapless.chaos.sim.checkers.programs import Program, Programs
from gapless.chaos.sim.checkers.rows import rows_of, told
from gapless.chaos.sim.checkers.wanted import Tables
from gapless.chaos.sim.checkers.world import World
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.tdb import Event, Tdb


class Given:
    """What one program was given, against one table."""

    def __init__(
        self, table: Tdb, owed_since: int | None, *, insert_only: bool, one_shard: bool
    ) -> None:
        self._one_shard = one_shard  # of several each settles its own, by its own stable
        self._by_start = insert_only  # else its end decides when an event is settled
        self._left = table.counts()
        self._owed_since = owed_since
        self._due = sorted(
            ((self._time(e), e) for e in self._left), key=lambda pair: pair[0], reverse=True
        )
        self._known = Counter(self._left)
        self.stable = BEGIN

    def take(self, fact: Emitted) -> str | None:
        """The next frame; what is wrong with it, or None."""
        if fact.reset:
            return "a reset: what is final is never taken back"
        frame = fact.frame
        for vs, ve, was, payload in rows_of(frame):
            event = Event(payload, vs, ve)
            if was != BEGIN:
                return f"an adjust to {event}: what is final never changes"
            if self._left[event] <= 0:
                known = self._known[event]
                return f"{event} is given {'again' if known else 'and is not an event'}"
            self._left[event] -= 1
            if self._one_shard and not self._is_settled(event, frame.stable):
                return f"{event} is given before it is settled"
        return None if frame.stable is None else self._advance(frame.stable)

    def _time(self, event: Event) -> int:
        return event.vs if self._by_start else event.ve

    def _is_settled(self, event: Event, stable: int | None) -> bool:
        return stable is not None and (self._time(event) < stable or stable == INF)

    def _advance(self, stable: int) -> str | None:
        if self._owed_since is None:
            self._owed_since = stable  # "now" was at this time, or before
        self.stable = max(self.stable, stable)
        due, missing = self._due, []
        while due and (due[-1][0] < stable or stable == INF):
            t, event = due.pop()
            if t >= self._owed_since and self._left[event] > 0:
                missing.append(event)
        if missing:
            return f"at stable {format_time(stable)} {told(missing)} was not given"
        return None


class Final:
    """See the module."""

    name = "final"
    promise = (
        'A subscriber with deliver="final" gets each event of the table exactly once, when nothing '
        "about it can change any more, over any number of resumes."
    )

    def __init__(self, tables: Tables, *, insert_only: bool, one_shard: bool) -> None:
        self._tables = tables
        self._insert_only = insert_only
        self._one_shard = one_shard
        self._programs = Programs()
        self._given: dict[str, Given] = {}
        self._table: Tdb = tables.table

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """What programs are handed."""
        return {Emitted: self._on_emitted, Resumed: self._on_resumed}

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown unless a program got to the end of the table."""
        ends = [given.stable == INF for given in self._given.values()]
        return Verdict.HOLDS if ends and all(ends) else Verdict.UNKNOWN

    def _on_emitted(self, _: int, fact: Emitted) -> None:
        program = self._programs[fact.subscriber]
        if program.deliver != "final":
            return
        program.log.append(fact)
        if self._tables.table is not self._table:
            self._table = self._tables.table
            for name in list(self._given):
                self._again(name, self._programs[name])
        elif fact.subscriber in self._given:
            self._hand(fact, self._given[fact.subscriber])
        else:
            self._again(fact.subscriber, program)

    def _on_resumed(self, _: int, fact: Resumed) -> None:
        program = self._programs[fact.subscriber]
        if program.resume(fact) and program.deliver == "final":
            self._again(fact.subscriber, program)

    def _again(self, name: str, program: Program) -> None:
        """All that the program has kept, against the table from the beginning."""
        given = self._given[name] = Given(
            self._table,
            program.owed_since,
            insert_only=self._insert_only,
            one_shard=self._one_shard,
        )
        for fact in program.log:
            self._hand(fact, given)

    def _hand(self, fact: Emitted, given: Given) -> None:
        problem = given.take(fact)
        if problem is not None:
            raise Broken(self.name, f"{fact.subscriber}: {problem}")
