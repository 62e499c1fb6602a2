"""What a segment holds, counted while it is written: the facts of the commit that seals it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gapless.journal.facts import Fact
from gapless.journal.head import Head
from gapless.journal.layout import Layout
from gapless.journal.segment import DamagedRecord, Index, Record, headers_crc, read, span
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Times

Records: TypeAlias = Sequence[bytes | memoryview]


@dataclass(slots=True)
class Part:
    """One partition's rows in a segment."""

    rows: int = 0
    least: int = INF
    largest: int = BEGIN

    def add(self, times: Times) -> None:
        """Counts more rows."""
        least, largest = span(times)
        self.rows += len(times)
        self.least = min(self.least, least)
        self.largest = max(self.largest, largest)

    def merge(self, more: Part) -> None:
        """Counts the rows of another part, too."""
        self.rows += more.rows
        self.least = min(self.least, more.least)
        self.largest = max(self.largest, more.largest)


@dataclass(slots=True)
class Tally:
    """All rows of a segment, by partition, and what its records promise."""

    name: str
    parts: dict[int, Part] = field(default_factory=dict)
    bytes: int = 0
    crc: int = 0
    batches: int = 0
    rejected: int = 0
    """Rows that came with the batches and were not taken."""
    stable: int = BEGIN

    def part(self, partition: int) -> Part:
        """The partition's part, which may be new."""
        return self.parts.setdefault(partition, Part())

    def wrote(self, records: Records, size: int) -> None:
        """Counts records that were appended, to a segment that has `size` bytes now."""
        self.bytes = size
        self.crc = headers_crc(records, self.crc)

    @property
    def rows(self) -> int:
        """Of all partitions."""
        return sum(part.rows for part in self.parts.values())

    def facts(self, rows: list[int], stable: int, *, by_partition: bool = False) -> list[Fact]:
        """The facts of the segment behind so many rows of each partition, which are moved on."""
        facts = []
        for partition, part in sorted(self.parts.items()):
            facts.append(
                Fact(
                    0,
                    self.name,
                    self.bytes,
                    self.crc,
                    partition,
                    rows[partition],
                    part.rows,
                    part.least,
                    part.largest,
                    stable,
                    by_partition,
                )
            )
            rows[partition] += part.rows
        return facts


def watermark(stable: int) -> Fact:
    """What a commit without rows says."""
    return Fact(0, "", 0, 0, 0, 0, 0, INF, BEGIN, stable, False)


def recount(index: Index, data: memoryview, layout: Layout) -> tuple[Tally, DamagedRecord | None]:
    """The tally of a segment that somebody else has written: of the batches before the first that
    does not read, and why that one does not.
    """
    tally = Tally(index.name)
    start = 0
    for end in index.batches:
        records = index.records[start:end]
        try:
            frames = [read(index.name, data[r.at : r.at + r.size], r, layout) for r in records]
        except DamagedRecord as e:
            return tally, e
        for record, frame in zip(records, frames, strict=True):
            if len(frame):
                tally.part(record.partition).add(frame.vs)
            if record.stable is not None:
                tally.stable = max(tally.stable, record.stable)
        tally.batches += not _is_promise(records, layout)
        whole = [data[r.at : r.at + r.size] for r in records]
        tally.wrote(whole, records[-1].at + records[-1].size)
        start = end
    return tally, None


def _is_promise(records: Sequence[Record], layout: Layout) -> bool:
    """Whether it only moves the watermark: a batch of which no row was taken does not."""
    says = any(record.stable is not None for record in records)
    return layout.has_rows and says and not any(record.has_rows for record in records)


def sealed(head: Head, tally: Tally) -> tuple[Head, list[Fact]]:
    """The head once the live segment is sealed with what a tally says, and its facts."""
    rows = list(head.rows)
    stable = max(head.stable, tally.stable)
    facts = tally.facts(rows, stable)
    if not facts and stable > head.stable:
        facts = [watermark(stable)]
    after = replace(
        head,
        rows=tuple(rows),
        stable=stable,
        batches=head.batches + tally.batches,
        rejected=head.rejected + tally.rejected,
        doubted=() if tally.parts else head.doubted,
    )
    return after, facts
