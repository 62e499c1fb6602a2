"""The recomputed table, arranged so that a prefix of the output is held against it at once.

    ends     end -> {(payload, vs): how often}       what is fully frozen once the stable is past it
    starts   start -> {payload: how often}           what is there for good once the stable is past

At the output's stable L two things have to be so, and they say all (merge/compatible.py, for one
reference table that is known whole):

1. of the events with `ve < L` it has exactly the table's;
2. of each (payload, vs) with `vs < L` it has as many events as the table.

The others of (2) then have `ve >= L` here and there: they are half frozen, their ends may differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from gapless.chaos.sim.checkers.rows import Key
from gapless.chaos.sim.checkers.world import World
from gapless.journal.partition import partitions_of
from gapless.protocol.elements import Payload
from gapless.protocol.tdb import Event, Tdb

_T = TypeVar("_T")
Times = dict[int, dict[_T, int]]


def count(times: Times[_T], t: int, what: _T, by: int) -> bool:
    """Counts `what` at time t up or down; False, and nothing done, where it is not there so often.
    What is there no more leaves no trace, so that equal tables are equal dicts.
    """
    bucket = times.get(t)
    if bucket is None:
        if by < 0:
            return False
        times[t] = {what: by}
        return True
    n = bucket.get(what, 0) + by
    if n > 0:
        bucket[what] = n
        return True
    if n < 0:
        return False
    del bucket[what]
    if not bucket:
        del times[t]
    return True


class Wanted:
    """One table by ends and by starts. Never changes."""

    def __init__(self, events: Iterable[tuple[Event, int]]) -> None:
        self.events = list(events)
        self.ends: Times[Key] = {}
        self.starts: Times[Payload] = {}
        for (payload, vs, ve), n in self.events:
            count(self.ends, ve, (payload, vs), n)
            count(self.starts, vs, payload, n)
        self.end_times = sorted(self.ends)
        self.start_times = sorted(self.starts)
        self._parts: dict[int, Wanted] = {}

    def since(self, t: int) -> Wanted:
        """The part with `ve >= t`."""
        if not self.end_times or t <= self.end_times[0]:
            return self
        part = self._parts.get(t)
        if part is None:
            part = self._parts[t] = Wanted(e for e in self.events if e[0].ve >= t)
        return part


class Tables:
    """The tables that a run's output has to be, by shard. Made anew where the table changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._table: Tdb | None = None
        self._whole = Wanted(())
        self._shards: list[Wanted] | None = None

    @property
    def table(self) -> Tdb:
        """That of all shards: the same object as long as it is the same table."""
        return self._world.expected

    def whole(self) -> Wanted:
        """That of all shards."""
        self._refresh()
        return self._whole

    def of(self, shard: int) -> Wanted | None:
        """That of one shard; None where an event does not say of which shard it is."""
        self._refresh()
        return None if self._shards is None else self._shards[shard]

    def _refresh(self) -> None:
        table = self._world.expected
        if table is not self._table:
            self._table = table
            events = list(table.counts().items())
            self._whole = Wanted(events)
            self._shards = self._split(table)

    def _split(self, table: Tdb) -> list[Wanted] | None:
        """By the hash of the key, as the journals' partitions are; these are dealt in turn."""
        work = self._world.workload
        if work.shards == 1:
            return [self._whole]
        layout = next(iter(work.layouts.values()))
        payload = table.schema.payload
        if not set(layout.key) <= set(payload.names):
            return None
        columns = [table.to_frame().payload.column(name) for name in layout.key]
        shards = (partitions_of(columns, layout.partitions) % work.shards).tolist()
        parts: list[list[tuple[Event, int]]] = [[] for _ in range(work.shards)]
        for event, shard in zip(table.events, shards, strict=True):  # in the frame's order
            parts[shard].append((event, 1))
        return [Wanted(part) for part in parts]
