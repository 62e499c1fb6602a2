"""Every prefix of what is durable, and of what a program holds, can still become the table.

The table is known whole, so at any stable L it is plain what has to be there already (wanted.py).
Held against it are each merger's journal, append by append over all its lives, and what each
program of all changes holds, frame by frame over all its resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Durable, Emitted, Recovered, Resumed, Verdict
from gapless.chaos.sim.checkers.follower import Follower, Wrong
from gapless.chaos.sim.checkers.programs import Program, Programs
from gapless.chaos.sim.checkers.rows import rows_of
from gapless.chaos.sim.checkers.wanted import Tables
from gapless.chaos.sim.checkers.world import World, shard_of
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.tdb import Tdb


class Prefix:
    """See the module."""

    name = "prefix"
    promise = (
        "At any moment, what is durable and what a subscriber holds can still be continued to "
        "the table, and agrees with it in all that is settled."
    )

    def __init__(self, tables: Tables, *, key: bool) -> None:
        self._key = key
        self._tables = tables
        self._table: Tdb = tables.table
        self._journals: dict[str, Follower] = {}
        self._offsets: dict[str, int] = {}
        self._programs = Programs()
        self._held: dict[str, Follower] = {}
        self._settled = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Output, durable and handed over."""
        return {
            Durable: self._on_durable,
            Recovered: self._on_recovered,
            Emitted: self._on_emitted,
            Resumed: self._on_resumed,
        }

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where nothing became settled."""
        return Verdict.HOLDS if self._settled else Verdict.UNKNOWN

    # -- journals -----------------------------------------------------------------------------

    def _journal(self, slot: str) -> Follower | None:
        self._look_at_table()
        follower = self._journals.get(slot)
        if follower is None:
            table = self._tables.of(shard_of(slot))
            if table is None:
                return None
            follower = self._journals[slot] = Follower(table, key=self._key)
            self._offsets[slot] = 0
        return follower

    def _on_durable(self, _: int, fact: Durable) -> None:
        slot, frame = fact.merger.slot, fact.frame
        follower = self._journal(slot)
        if follower is None:
            return
        if fact.after != self._offsets[slot]:
            raise Broken(
                self.name,
                f"{fact.merger} appends at row {fact.after} of its journal, behind "
                f"{self._offsets[slot]} rows",
            )
        self._offsets[slot] += len(frame)
        try:
            follower.take(rows_of(frame), frame.stable)
        except Wrong as e:
            raise Broken(self.name, f"the journal of {fact.merger}: {e}") from None
        self._settled |= frame.stable is not None

    def _on_recovered(self, _: int, fact: Recovered) -> None:
        """Rows of which nobody heard that they are durable may be there: the live table shows what
        they lead to, and what they settled shows at the end of the run (table.py).
        """
        slot, live = fact.merger.slot, fact.live
        follower = self._journal(slot)
        if follower is None:
            return
        stable = BEGIN if live.stable is None else live.stable
        if (self._offsets[slot], follower.stable) == (fact.offset, stable):
            if stable < INF and not follower.holds(rows_of(live)):
                raise Broken(
                    self.name,
                    f"{fact.merger} reads its journal back, and what is live there is not what "
                    "was made durable",
                )
            return
        self._offsets[slot] = fact.offset
        shard = self._tables.of(shard_of(slot))
        if shard is None:
            return
        if stable == INF:  # all is settled, and nothing live; it shows at the end
            follower.stable = INF
            return
        follower = self._journals[slot] = Follower(shard, stable, key=self._key)
        try:
            follower.take(rows_of(live), live.stable)
        except Wrong as e:
            raise Broken(self.name, f"the journal as {fact.merger} reads it back: {e}") from None

    # -- programs -----------------------------------------------------------------------------

    def _on_emitted(self, _: int, fact: Emitted) -> None:
        program = self._programs[fact.subscriber]
        if program.deliver != "changes":
            return
        program.log.append(fact)
        self._look_at_table()
        self._hand(fact, program)
        self._settled |= fact.frame.stable is not None

    def _hand(self, fact: Emitted, program: Program) -> None:
        name, frame = fact.subscriber, fact.frame
        follower = self._held.get(name)
        try:
            if follower is None:
                since = fact.since if fact.reset else BEGIN
                if program.owed_since is not None and since > program.owed_since:
                    raise Wrong(
                        f"it begins with what ends at {format_time(since)} or later, and is owed "
                        f"all from {format_time(program.owed_since)} on"
                    )
                follower = Follower(self._tables.whole(), since, key=self._key)
                self._held[name] = follower
                follower.take(rows_of(frame), frame.stable)
            elif fact.reset:
                follower.reset(fact.since, rows_of(frame), frame.stable)
            else:
                follower.take(rows_of(frame), frame.stable)
        except Wrong as e:
            raise Broken(self.name, f"what the program of {name} holds: {e}") from None

    def _on_resumed(self, _: int, fact: Resumed) -> None:
        program = self._programs[fact.subscriber]
        if program.resume(fact) and program.deliver == "changes":
            self._held.pop(fact.subscriber, None)
            for handed in program.log:
                self._hand(handed, program)

    # -- another answer -----------------------------------------------------------------------

    def _look_at_table(self) -> None:
        """After a cutover to another answer it is another table."""
        if self._tables.table is self._table:
            return
        self._table = self._tables.table
        try:
            for slot, follower in self._journals.items():
                shard = self._tables.of(shard_of(slot))
                if shard is not None:
                    follower.against(shard)
            for follower in self._held.values():
                follower.against(self._tables.whole())
        except Wrong as e:
            raise Broken(self.name, str(e)) from None
