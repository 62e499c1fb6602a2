"""What somebody holds who follows a stream, held against the table with every frame.

    rows       change the events by their ends and by their starts
    stable L   what ends before L, and what starts before L, is compared with the table, and then
               forgotten: the stream's own promises say that it cannot change any more

So a frame costs what its rows cost, and a stable what it settles; the comparison is one of dicts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from gapless.chaos.sim.checkers.rows import Key, Row, told
from gapless.chaos.sim.checkers.wanted import Times, Wanted, count
from gapless.protocol.elements import BEGIN, INF, Payload, format_time
from gapless.protocol.errors import BadData
from gapless.protocol.tdb import Event

_NOTHING: Mapping[Key, int] = {}
_NOBODY: Mapping[Payload, int] = {}


class Wrong(BadData):
    """What is held cannot become the table any more."""


class Follower:
    """Folds a stream, and raises `Wrong` at the first prefix that does not lead to the table."""

    def __init__(self, table: Wanted, since: int = BEGIN, *, key: bool = True) -> None:
        """`since`: it is told every event with `ve` from there on. `key`: of a (payload, vs) there
        is never more than one event.
        """
        self._whole = table
        self._key = key
        self.since = since
        self._begin(since)

    def _begin(self, since: int) -> None:
        self._told_from = since  # the rows since the last reset are about these events
        self._wanted = self._whole.since(since)
        self.stable = BEGIN
        self._ends: Times[Key] = {}
        self._starts: Times[Payload] = {}
        self._next_end = self._next_start = 0

    # -- following ----------------------------------------------------------------------------

    def take(self, rows: Iterable[Row], stable: int | None) -> None:
        """The next frame of the stream."""
        at, ends, starts = self.stable, self._ends, self._starts
        for vs, ve, was, payload in rows:
            key = (payload, vs)
            if was == BEGIN:
                if vs < at:
                    raise Wrong(f"an insert of {Event(payload, vs, ve)} behind stable {at}")
                count(ends, ve, key, 1)
                count(starts, vs, payload, 1)
                if self._key and starts[vs][payload] > 1:
                    raise Wrong(f"{Event(payload, vs, ve)} is there beside another from {vs}")
                continue
            if was < at or ve < at:
                raise Wrong(
                    f"{Event(payload, vs, was)} gets the end {format_time(ve)} behind stable {at}"
                )
            if not count(ends, was, key, -1):
                raise Wrong(
                    f"{Event(payload, vs, was)} gets the end {format_time(ve)} and is not there"
                )
            if ve == vs:
                count(starts, vs, payload, -1)
            else:
                count(ends, ve, key, 1)
        if stable is not None and stable > at:
            self._settle_ends(stable, past_the_end=stable == INF)
            self._settle_starts(stable)
            self.stable = stable

    def reset(self, since: int, rows: Iterable[Row], stable: int | None) -> None:
        """The rows replace all that is held with `ve >= since`: what ends before stays for good."""
        if self.stable < since:
            self._settle_ends(since, past_the_end=False)
        self.since = min(self.since, since)
        self._begin(since)
        self.take(rows, stable)

    def against(self, table: Wanted) -> None:
        """From now on it is held against another table, which has to agree on what is settled."""
        at, before = self.stable, self._wanted
        after = table.since(self._told_from)
        for t in {*before.end_times, *after.end_times}:
            if t < at and before.ends.get(t, _NOTHING) != after.ends.get(t, _NOTHING):
                raise Wrong(
                    f"the table is another one from now on, also at end {t}, which was settled by "
                    f"stable {format_time(at)}"
                )
        self._whole, self._wanted = table, after
        self._next_end = bisect_left(after.end_times, at)
        self._next_start = bisect_left(after.start_times, at)

    def holds(self, inserts: Iterable[Row]) -> bool:
        """Whether these are the events that it holds and that are not settled."""
        ends: Times[Key] = {}
        for vs, ve, _, payload in inserts:
            count(ends, ve, (payload, vs), 1)
        return ends == self._ends

    # -- comparing ----------------------------------------------------------------------------

    def _settle_ends(self, stable: int, *, past_the_end: bool) -> None:
        """Ends below `stable` can change no more; `past_the_end`: nor can INF."""
        wanted = self._wanted
        times = wanted.end_times
        due = {t for t in self._ends if t < stable or past_the_end}
        i = self._next_end
        while i < len(times) and (times[i] < stable or past_the_end):
            due.add(times[i])
            i += 1
        self._next_end = i
        for t in due:
            held, right = self._ends.pop(t, _NOTHING), wanted.ends.get(t, _NOTHING)
            if held != right:
                raise Wrong(f"at stable {format_time(stable)} {_ends_told(t, held, right)}")

    def _settle_starts(self, stable: int) -> None:
        """As many events that start below `stable` as there are now there will be in the end."""
        wanted = self._wanted
        times = wanted.start_times
        due = {t for t in self._starts if t < stable}
        i = self._next_start
        while i < len(times) and times[i] < stable:
            due.add(times[i])
            i += 1
        self._next_start = i
        for t in due:
            held, right = self._starts.pop(t, _NOBODY), wanted.starts.get(t, _NOBODY)
            if held != right:
                wrong = {p for p in {*held, *right} if held.get(p, 0) != right.get(p, 0)}
                each = [f"{held.get(p, 0)} of {p}, not {right.get(p, 0)}" for p in wrong]
                raise Wrong(
                    f"at stable {format_time(stable)} the events from {t} are there for good: "
                    f"held {'; '.join(sorted(each))}"
                )


def _ends_told(t: int, held: Mapping[Key, int], right: Mapping[Key, int]) -> str:
    extra = [(p, vs, t) for (p, vs), n in held.items() if n > right.get((p, vs), 0)]
    lacking = [(p, vs, t) for (p, vs), n in right.items() if n > held.get((p, vs), 0)]
    parts = []
    if extra:
        parts.append(f"{told(extra)} is held too often")
    if lacking:
        parts.append(f"{told(lacking)} is missing")
    return " and ".join(parts)
