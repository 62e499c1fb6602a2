"""Slow twins of the readers and the writer of changelogs: a log in a list, a row at a time.

Each keeps every change that it has ever accepted, and recomputes its whole table from them. So what
is settled, tangled, logged or forgotten in the fast ones does not exist here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from typing import Any

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

Row = tuple[Any, ...]
Change = tuple[str, int, Row]


class Refused(Exception):
    """The twin says that a batch makes no sense."""


class Twin:
    """Takes what a reader takes, as lists."""

    def __init__(self, schema: StreamSchema, late: str = "refuse") -> None:
        self.schema = schema
        self.late = late
        self.stable = BEGIN
        self.log: list[Change] = []

    def push(self, batch: list[Change], watermark: int | None = None) -> None:
        if any(time < self.stable for _, time, _ in batch):
            if self.late == "refuse" or self.stable == INF:
                raise Refused
            batch = [(kind, max(time, self.stable), row) for kind, time, row in batch]
        self.take(batch)
        if watermark is not None:
            self.stable = max(self.stable, watermark)

    def take(self, batch: list[Change]) -> None:
        raise NotImplementedError

    def events(self) -> list[Event]:
        raise NotImplementedError

    @property
    def table(self) -> Tdb:
        return Tdb(self.schema, self.events())


def normal_form(boundaries: Counter[tuple[Row, int]]) -> list[Event]:
    """Of each payload the i-th start with the i-th end; where they meet, both have gone."""
    events = []
    for payload in {row for row, _ in boundaries}:
        at = sorted((time, n) for (row, time), n in boundaries.items() if row == payload)
        starts = [time for time, n in at for _ in range(n)]
        ends = [time for time, n in at for _ in range(-n)]
        ends += [INF] * (len(starts) - len(ends))
        events += [Event(payload, vs, ve) for vs, ve in zip(starts, ends, strict=True)]
    return events


class TwinRetractions(Twin):
    def sums(self, log: list[Change]) -> Counter[tuple[Row, int]]:
        sums: Counter[tuple[Row, int]] = Counter()
        for kind, time, row in log:
            sums[row, time] += 1 if kind.startswith("+") else -1
        return sums

    def take(self, batch: list[Change]) -> None:
        sums = self.sums(self.log + batch)
        for payload in {row for row, _ in sums}:
            there = 0
            for time in sorted(time for row, time in sums if row == payload):
                there += sums[payload, time]
                if there < 0:
                    raise Refused
        self.log += batch

    def events(self) -> list[Event]:
        return normal_form(self.sums(self.log))


class TwinUpserts(Twin):
    """The key is the first column."""

    absent = "refuse"

    def take(self, batch: list[Change]) -> None:
        said = [
            change
            for i, change in enumerate(batch)
            if not (
                change[0] == "-U"
                and i + 1 < len(batch)
                and batch[i + 1][0] == "+U"
                and batch[i + 1][2][0] == change[2][0]
            )
        ]
        old = [(*change, False) for change in self.log]
        every = sorted(old + [(*change, True) for change in said], key=lambda c: c[1])
        before: dict[Any, tuple[str, int]] = {}
        for kind, time, row, new in every:
            then, when = before.get(row[0], ("-", BEGIN))
            deletes = new and kind.startswith("-") and self.absent == "refuse"
            if deletes and then.startswith("-") and when != time:
                raise Refused
            before[row[0]] = kind, time
        self.log += said

    def events(self) -> list[Event]:
        versions: dict[Any, dict[int, Row | None]] = defaultdict(dict)
        for kind, time, row in self.log:
            versions[row[0]][time] = row if kind.startswith("+") else None
        events = []
        for said in versions.values():
            runs = [list(run) for _, run in groupby(sorted(said), key=said.get)]
            starts = [run[0] for run in runs]
            for vs, ve in zip(starts, [*starts[1:], INF], strict=True):
                there = said[vs]
                if there is not None:
                    events.append(Event(there, vs, ve))
        return events


class TwinOpenClose(Twin):
    def __init__(self, schema: StreamSchema, late: str = "refuse") -> None:
        super().__init__(schema, late)
        self.ends: dict[tuple[Row, int], int] = {}

    def take(self, batch: list[Change]) -> None:
        ends = dict(self.ends)
        for kind, time, row in batch:
            if kind.startswith("+"):
                if (row, time) in ends:
                    raise Refused
                ends[row, time] = INF
        for kind, time, row in batch:
            if kind.startswith("-"):
                starts = [vs for p, vs in ends if p == row and vs < time]
                if not starts or ends[row, max(starts)] < self.stable:
                    raise Refused
                ends[row, max(starts)] = time
        for (row, vs), ve in ends.items():
            if any(p == row and vs < other < ve for p, other in ends):
                raise Refused
        self.ends = ends

    def events(self) -> list[Event]:
        return [Event(row, vs, ve) for (row, vs), ve in self.ends.items()]


class TwinRevisions(Twin):
    """Its changes are (kind, vs, ve, row)."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema)
        self.there: Counter[Event] = Counter()

    def push(self, batch: list[Any], watermark: int | None = None) -> None:
        net: Counter[Event] = Counter()
        for kind, vs, ve, row in batch:
            net[Event(row, vs, ve)] += 1 if kind.startswith("+") else -1
        for payload, vs in {(e.payload, e.vs) for e in net if net[e]}:
            ends = {e.ve: n for e, n in net.items() if (e.payload, e.vs) == (payload, vs) and n}
            more: int = sum(ends.values())
            if vs < self.stable and (more or min(ends) < self.stable):
                raise Refused
        if any(self.there[e] + n < 0 for e, n in net.items()):
            raise Refused
        for e, n in net.items():
            self.there[e] += n
        if watermark is not None:
            self.stable = max(self.stable, watermark)

    def events(self) -> list[Event]:
        return list(self.there.elements())


def normal(tdb: Tdb) -> Tdb:
    """The table in normal form."""
    sums: Counter[tuple[Row, int]] = Counter()
    for payload, vs, ve in tdb.events:
        sums[payload, vs] += 1
        if ve < INF:
            sums[payload, ve] -= 1
    return Tdb(tdb.schema, normal_form(sums))


def final_changes(tdb: Tdb, keyed: bool, upsert: bool = False) -> list[Change]:
    """All changes of a table, in the writer's order; rows are of strings and numbers, None last.

    With a key, which is the first column.
    """
    happens: list[tuple[int, Any, bool, Row]] = []
    for payload, vs, ve in normal(tdb).events:
        order = tuple((value is None, value or 0) for value in payload)
        happens.append((vs, order, True, payload))
        if ve < INF:
            happens.append((ve, order, False, payload))
    if not keyed:
        happens.sort(key=lambda c: (c[0], c[2], c[1]))
        return [("+I" if plus else "-D", time, row) for time, _, plus, row in happens]
    happens.sort(key=lambda c: (c[0], c[1][0], c[2]))
    told: list[Change] = []
    for time, _, plus, row in happens:
        last = told[-1] if told else None
        if plus and last and last[0] == "-D" and last[1] == time and last[2][0] == row[0]:
            told[-1] = ("-U", time, last[2])
            told.append(("+U", time, row))
        else:
            told.append(("+I" if plus else "-D", time, row))
    return [c for c in told if not (upsert and c[0] == "-U")]
