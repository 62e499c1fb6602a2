"""Looks at every record of a segment, and goes on behind what is damaged: what `verify` stands on.

    record  record  ##damaged##  record          a reader stops at the damage: here it is a finding,
       ok      ok   finding       ok             and the next header that reads is looked for

A reader trusts nothing but checksums and numbers; here the rows are held against what the journal
promises of them as well: their partition by their key, their times by the commit's facts, and that
none is below a stable that readers were given before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gapless.journal.facts import Fact
from gapless.journal.layout import Layout
from gapless.journal.partition import partitions_of
from gapless.journal.segment import Record, headers_crc, next_header, read, span, writer_of
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.envelope import HEADER_BYTES, Header, peek_header
from gapless.protocol.errors import DecodeError, JournalError
from gapless.protocol.frame import Frame

Severity = Literal["damage", "warning", "note"]

RESTORE = "restore the file from a copy, or prepare the journal anew"


class Finding(NamedTuple):
    """Something that is not as it should be, or good to know."""

    severity: Severity
    """Damage: rows are lost or wrong, or readers stop. Warning: nothing is lost yet. Note: nothing
    is wrong.
    """
    file: str
    at: int | None
    """The byte, where it is one."""
    what: str
    advice: str = ""


@dataclass(slots=True)
class Walk:
    """One segment, record by record."""

    layout: Layout
    name: str
    promised: npt.NDArray[np.int64]
    """By partition, what readers were promised before; moved on."""
    facts: Mapping[int, Fact] | None = None
    """What its commit says of each partition; None of a live segment."""
    by_partition: bool = False
    first: Mapping[int, int] = field(default_factory=dict)
    """By partition, the offset of its first row here."""
    stable: int = INF
    """What the records may promise at most."""
    rows: int = 0
    _rows: dict[int, int] = field(default_factory=dict)
    _spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    _own: dict[int, int] = field(default_factory=dict)
    """By partition, what its records have promised in this segment: where each partition has its
    own stables that may be more than the commit's, at which readers stop.
    """
    _crc: int = 0
    _is_broken: bool = False

    def findings(self, data: memoryview, end: int) -> Iterator[Finding]:
        """All that is wrong in the bytes up to `end`, of which some may be missing."""
        at, more = 0, False
        while at < min(end, len(data)):
            try:
                header = peek_header(data, at)
                size = header.envelope_bytes
                if at + size > end:
                    raise DecodeError("body bytes", str(size), f"<= {end - at}")
            except DecodeError as e:
                yield self._damage(at, str(e))
                at = next_header(data, at + HEADER_BYTES, end)
                continue
            if at + size > len(data):
                break
            yield from self._record(data[at : at + size], at, header)
            at, more = at + size, header.place.more
        if at < end:
            yield self._damage(at, f"it ends there, before byte {end}")
        elif more:
            yield self._damage(at, "it ends in the middle of a batch")
        yield from self._against_facts()

    # -- one record ---------------------------------------------------------------------------

    def _record(self, data: memoryview, at: int, header: Header) -> Iterator[Finding]:
        partition = header.place.partition
        self._crc = headers_crc([data], self._crc)
        if header.incarnation != writer_of(self.name):
            yield self._damage(at, "a record of another segment: the file was swapped or copied")
        if partition >= self.layout.partitions:
            yield self._damage(at, f"a row of partition {partition}: there are not so many")
            return
        record = Record(
            at, len(data), partition, header.sequence, header.stable, header.body_bytes > 0
        )
        try:
            frame = read(self.name, data, record, self.layout)
        except JournalError as e:
            yield self._damage(at, str(e).partition(": ")[2].partition(";")[0])
            self._rows.pop(partition, None)  # nobody knows how many rows it has
            return
        if len(frame):
            yield from self._rows_of(frame, record)
        yield from self._promise(record)

    def _rows_of(self, frame: Frame, record: Record) -> Iterator[Finding]:
        p, at = record.partition, record.at
        before = self._rows.get(p, record.row if self._is_broken else 0)
        if record.row != before:
            yield self._damage(
                at, f"row {record.row} of partition {p}, expected {before}: a record is missing"
            )
        self._rows[p] = record.row + len(frame)
        offset = self.first.get(p, 0) + record.row
        self.rows += len(frame)
        least, largest = span(frame.vs)
        seen = self._spans.get(p, (INF, BEGIN))
        self._spans[p] = min(least, seen[0]), max(largest, seen[1])
        promised = max(int(self.promised[p]), self._own.get(p, BEGIN))
        late = _below(frame, promised)
        if late is not None:
            said = f"is below {format_time(promised)}, promised before"
            yield self._damage(at, f"row {offset + late} of partition {p} {said}")
        if self.layout.has_rows and self.layout.partitions > 1:
            keys = [frame.payload.column(name) for name in self.layout.key]
            elsewhere = partitions_of(keys, self.layout.partitions) != p
            if elsewhere.any():
                row = offset + int(elsewhere.argmax())
                yield self._damage(at, f"row {row} of partition {p} belongs to another, by its key")

    def _promise(self, record: Record) -> Iterator[Finding]:
        stable = record.stable
        if stable is None:
            return
        if self.by_partition:
            self._own[record.partition] = stable
            stable = min(stable, self.stable)
        elif stable > self.stable:
            said = f"{format_time(stable)}, its commit {format_time(self.stable)}"
            yield self._damage(record.at, f"it promises {said}")
        mine = slice(record.partition, record.partition + 1) if self.by_partition else slice(None)
        if stable < self.promised[mine].max():
            yield self._damage(record.at, f"it promises {format_time(stable)}, less than before")
        np.maximum(self.promised[mine], stable, out=self.promised[mine])

    # -- all of them --------------------------------------------------------------------------

    def _against_facts(self) -> Iterator[Finding]:
        if self.facts is None or self._is_broken:
            return
        for p in sorted({*self._rows, *self.facts}):
            fact, rows = self.facts.get(p), self._rows.get(p, 0)
            if fact is None:  # of a partition that was trimmed
                continue
            if rows != fact.rows:
                yield self._damage(
                    None, f"{rows} rows of partition {p}, its commit says {fact.rows}"
                )
            elif self._spans[p] != (fact.least, fact.largest):
                found = " to ".join(map(format_time, self._spans[p]))
                said = f"{format_time(fact.least)} to {format_time(fact.largest)}"
                yield self._damage(None, f"times of partition {p} {found}, its commit says {said}")
        crc = next(iter(self.facts.values())).crc
        if self._crc != crc:
            yield self._damage(None, "it is not the file that was committed under this name")

    def _damage(self, at: int | None, what: str) -> Finding:
        self._is_broken = True
        return Finding("damage", self.name, at, what, RESTORE)


def _below(frame: Frame, promised: int) -> int | None:
    """The first row that a stable before it forbids."""
    late = frame.vs < promised
    if not frame.insert_only:
        is_insert = frame.was == BEGIN
        late = np.where(is_insert, late, (frame.was < promised) | (frame.ve < promised))
    return int(late.argmax()) if late.any() else None


def by_segment(facts: Sequence[Fact]) -> dict[str, list[Fact]]:
    """Facts by the file that they are of, in the order of commits."""
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.segment:
            found.setdefault(fact.segment, []).append(fact)
    return found
