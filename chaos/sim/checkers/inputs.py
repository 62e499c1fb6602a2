"""The slow mode: every durable prefix is compatible with what that merger's inputs have said.

It asks merge/compatible.py, which knows the paper's conditions and no table, so it also judges
runs whose table nobody can recompute. It costs a run more than all the rest, so `every` has it only
where it is asked for.

An input of a merger is a session of a replica, or the journal of the other merger, from which it
may backfill. Compared is what ends at the output's stable before that append, or later: what ends
before it was compared before, and an input that has heard that it is settled need not tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import (
    Broken,
    Durable,
    Forwarded,
    Recovered,
    TookIn,
    Verdict,
)
from gapless.chaos.sim.checkers.world import World, shard_of
from gapless.failover.messages import Life, Session
from gapless.merge.compatible import Incompatible, check_compatible
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import StreamViolation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb


class CompatibleWithInputs:
    """See the module."""

    name = "inputs"
    promise = "A merger's durable output is always compatible with all that it took in."

    def __init__(self, schema: StreamSchema, *, key: bool) -> None:
        self._schema = schema
        self._key = key
        self._said: dict[str, dict[tuple[Life, Session], Tdb]] = {}
        self._join_at: dict[tuple[Life, Session], int] = {}
        self._forwarded: dict[Life, int] = {}
        self._outputs: dict[str, Tdb] = {}
        self._known_from: dict[str, int] = {}
        self._compared = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """What goes into each merger, and what becomes durable of it."""
        return {
            TookIn: self._on_took_in,
            Forwarded: self._on_forwarded,
            Durable: self._on_durable,
            Recovered: self._on_recovered,
        }

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where nothing became durable."""
        return Verdict.HOLDS if self._compared else Verdict.UNKNOWN

    def _on_took_in(self, _: int, fact: TookIn) -> None:
        place = fact.merger, fact.session
        said = self._said.setdefault(fact.merger.slot, {})
        if place not in said:
            said[place] = Tdb(self._schema)
            self._join_at[place] = fact.join_at
        try:
            said[place].fold(fact.frame)
        except StreamViolation as e:
            raise Broken(self.name, f"{fact.session} says to {fact.merger}: {e}") from None

    def _on_forwarded(self, _: int, fact: Forwarded) -> None:
        self._forwarded[fact.replica] = fact.t

    def _on_durable(self, _: int, fact: Durable) -> None:
        output = self._output(fact.merger.slot)
        before = output.stable
        try:
            output.fold(fact.frame)
        except StreamViolation as e:
            raise Broken(self.name, f"the journal of {fact.merger}: {e}") from None
        self._compare(fact.merger, before)

    def _on_recovered(self, _: int, fact: Recovered) -> None:
        """What was settled before is as it was; what is live is as it was read back."""
        output = self._output(fact.merger.slot)
        stable = BEGIN if fact.live.stable is None else fact.live.stable
        live = Tdb(self._schema)
        live.fold(fact.live)
        settled = [e for e in output.events if e.ve < stable]
        whole = Tdb(self._schema, [*settled, *live.events])
        whole.stable = stable
        if stable > output.stable:  # rows that nobody heard of are settled by now
            self._known_from[fact.merger.slot] = stable
        self._outputs[fact.merger.slot] = whole

    def _output(self, slot: str) -> Tdb:
        if slot not in self._outputs:
            self._outputs[slot] = Tdb(self._schema)
        return self._outputs[slot]

    def _compare(self, merger: Life, settled: int) -> None:
        said = self._said.get(merger.slot, {})
        inputs = [
            (tdb, max(self._join_at[place], self._forwarded.get(place[1].life, BEGIN)))
            for place, tdb in said.items()
        ]
        inputs += [
            (tdb, self._known_from.get(slot, BEGIN))
            for slot, tdb in self._outputs.items()
            if slot != merger.slot and shard_of(slot) == shard_of(merger.slot)
        ]
        try:
            check_compatible(
                [tdb.since(settled) for tdb, _ in inputs],
                self._outputs[merger.slot].since(settled),
                key=self._key,
                join_at=[max(known, settled) for _, known in inputs],
            )
        except Incompatible as e:
            raise Broken(self.name, f"the journal of {merger}: {e}") from None
        self._compared = True
