"""In the end there is the table: in what each program holds, and in each journal.

Everything is folded again, from the first row on, with nothing in mind but what elements mean; the
checkers that follow along (prefix.py) may forget what is settled, this one never does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gapless.chaos.judge.history import Broken, Emitted, Resumed, Verdict
from gapless.chaos.sim.checkers.journals import Journal, Journals
from gapless.chaos.sim.checkers.programs import Program, Programs
from gapless.chaos.sim.checkers.rows import rows_of, told
from gapless.chaos.sim.checkers.wanted import Tables, Wanted
from gapless.chaos.sim.checkers.world import World, shard_of
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame

Held = Counter[tuple[Any, int, int]]
"""How often each event is held: payload, start, end."""


def fold(held: Held, frame: Frame) -> None:
    """Rows change what is held; a count below zero is an adjust of what was not there."""
    for vs, ve, was, payload in rows_of(frame):
        if was != BEGIN:
            held[payload, vs, was] -= 1
        if ve != vs:
            held[payload, vs, ve] += 1


class TableInTheEnd:
    """See the module."""

    name = "table"
    promise = (
        "In the end every subscriber and every merger's journal hold the table recomputed "
        "from scratch."
    )

    def __init__(self, tables: Tables, journals: Journals) -> None:
        self._tables = tables
        self._journals = journals
        self._programs = Programs()

    def hears(self) -> Mapping[type, Callable[[int, Any], object]]:
        """What programs are handed."""
        return {
            Emitted: lambda _, fact: self._programs[fact.subscriber].log.append(fact),
            Resumed: lambda _, fact: self._programs[fact.subscriber].resume(fact),
        }

    def verdict(self, world: World) -> Verdict:
        """Unknown unless every stream has come to its end."""
        ended = [
            self._program(name, program)
            for name, program in self._programs.items()
            if program.deliver == "changes"
        ]
        ended += [self._journal(world, slot) for slot in world.outputs]
        return Verdict.HOLDS if ended and all(ended) else Verdict.UNKNOWN

    # -- programs -----------------------------------------------------------------------------

    def _program(self, name: str, program: Program) -> bool:
        if program.stable < INF:
            return False
        first = program.log[0]
        since = first.since if first.reset else BEGIN
        held: Held = Counter()
        for pieces in _between_resets(program.log):
            if pieces[0].reset:
                start = pieces[0].since
                since = min(since, start)
                held = Counter({e: n for e, n in held.items() if e[2] < start})
            fold(held, Frame.concat([p.frame.with_stable(None) for p in pieces]))
        self._compare(f"what the program of {name} holds", held, self._tables.whole().since(since))
        return True

    # -- journals -----------------------------------------------------------------------------

    def _journal(self, world: World, slot: str) -> bool:
        table = self._tables.of(shard_of(slot))
        try:
            journal = self._journals.of(world, slot)
        except JournalError as e:
            raise Broken(self.name, f"the journal of {slot} cannot be read: {e}") from None
        if table is None or journal.stable < INF:
            return False
        held, since = _held_by(journal)
        self._compare(f"the journal of {slot}", held, table.since(since))
        return True

    def _compare(self, who: str, held: Held, table: Wanted) -> None:
        wanted: Held = Counter()
        for event, n in table.events:
            wanted[event] += n
        extra = [e for e, n in held.items() if n > wanted[e]]
        lacking = [e for e, n in wanted.items() if n > held[e]]
        if extra or lacking or any(n < 0 for n in held.values()):
            raise Broken(
                self.name,
                f"{who} is not the table: too much: {told(extra) or 'nothing'}; "
                f"missing: {told(lacking) or 'nothing'}",
            )


def _between_resets(log: Sequence[Emitted]) -> list[list[Emitted]]:
    """Each reset with all that follows it."""
    parts: list[list[Emitted]] = []
    for fact in log:
        if fact.reset or not parts:
            parts.append([])
        parts[-1].append(fact)
    return parts


def _held_by(journal: Journal) -> tuple[Held, int]:
    """What a journal leads to, and from which end on it tells so."""
    held: Held = Counter()
    since = BEGIN
    if journal.base is not None:
        fold(held, journal.base)
        since = journal.base.stable if journal.base.stable is not None else BEGIN
    if journal.frame is not None:
        fold(held, journal.frame)
    return held, since
