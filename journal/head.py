"""The head of a commit: what holds once it is made; and a commit as bytes.

    head     number 17, epoch 3, live 41     writer 3; its segments before 3-41 are sealed
             rows   1,000  800               the offset of each partition's next row
             first    500    0               partition 0 has lost 500 rows to a trim
             stable 17:30:05                 no row to come is older
             queries  run: 12                of Spark's query "run", batches 0 to 12 are in
    facts    rows of record batches, counted by the head (journal/facts.py)

A head says what the journal consists of without those before it, except for the facts of
commits that are not full. It is a document, and facts follow it in envelopes, so that every byte is
under a checksum; a field that is missing, unknown or out of its bounds is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from gapless.journal.epoch import EPOCH_MAX
from gapless.journal.facts import FACTS, check, facts_batch
from gapless.journal.layout import FORMAT, NOBODY, Layout
from gapless.journal.partition import PARTITIONS_MAX
from gapless.journal.plausible import DOUBTED_MAX, WITNESSES_MAX, Run
from gapless.protocol.documents import BYTES_MAX, Document, Fields
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import (
    decode_document,
    decode_rows,
    encode_document,
    encode_rows,
    peek_header,
)
from gapless.protocol.errors import DecodeError
from gapless.protocol.ipc_guard import ROWS_MAX

BASES_MAX = 2
"""Bases that a journal has: a reader that has just opened the older one may finish."""
QUERIES_MAX = 256
"""Spark queries whose last batch is remembered, the latest ones: a batch comes again soon or
never."""
NUMBER_MAX = 10**10 - 1
"""Of a commit or a live segment: file names have ten digits."""
_BASE = re.compile(r"bases/[0-9]{10}-[0-9]{1,10}")


class Base(NamedTuple):
    """A live table that stands for everything up to a commit."""

    commit: int
    segment: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Head:
    """What holds after a commit."""

    number: int = 0
    epoch: int = 0
    live: int = 0
    """The number of the epoch's live segment: those before are sealed."""
    full: int = 0
    """The last full commit."""
    stable: int = BEGIN
    rows: tuple[int, ...] = ()
    """By partition: rows so far, trimmed ones included. The offset of the next."""
    first: tuple[int, ...] = ()
    """By partition: the offset of the first row that is still there."""
    batches: int = 0
    """Appended by writers without Spark, in sealed segments."""
    rejected: int = 0
    """Rows that were not taken, late ones included."""
    queries: Mapping[str, int] = field(default_factory=dict)
    """By Spark query: the last batch that is in. The latest query is last."""
    bases: tuple[Base, ...] = ()
    doubted: tuple[Run, ...] = ()
    """Rows that were ahead of all others, and nothing that was believed after them: the next writer
    goes on doubting where this one was.
    """
    at_ms: int = 0
    """When, by its maker's clock; for people."""

    @property
    def ended(self) -> bool:
        """Whether nothing will be added any more."""
        return self.stable == INF


def encode(head: Head, facts: pa.RecordBatch) -> bytes:
    """A commit as bytes: the head, and the facts that come with it."""
    document: dict[str, Document] = {
        "format": FORMAT,
        "number": head.number,
        "epoch": head.epoch,
        "live": head.live,
        "full": head.full,
        "stable": head.stable,
        "rows": list(head.rows),
        "first": list(head.first),
        "batches": head.batches,
        "rejected": head.rejected,
        "queries": [[query, batch] for query, batch in list(head.queries.items())[-QUERIES_MAX:]],
        "bases": [list(base) for base in head.bases],
        "at_ms": head.at_ms,
        "facts": facts.num_rows,
    }
    if head.doubted:  # a release before does not know of it, and most heads have none
        document["doubted"] = [list(run) for run in head.doubted]
    parts = [encode_document(document, NOBODY, head.number)]
    starts = range(0, facts.num_rows, ROWS_MAX)
    parts += [encode_rows(facts.slice(at, ROWS_MAX), FACTS, NOBODY, at) for at in starts]
    return b"".join(parts)


def decode(data: bytes, layout: Layout) -> tuple[Head, pa.RecordBatch]:
    """The same, from bytes. Raises `DecodeError` where they are damaged, of a later release, or say
    what cannot be: a partition's facts must follow one another up to its rows.
    """
    view = memoryview(data)
    at = peek_header(view).envelope_bytes
    head, rows = _head(decode_document(view[:at], max_bytes=BYTES_MAX).document, layout)
    batches = []
    while at < len(view):
        size = peek_header(view, at).envelope_bytes
        batches.append(decode_rows(view[at : at + size], FACTS).batch)
        at += size
    facts = pa.concat_batches(batches) if batches else facts_batch([])
    if facts.num_rows != rows:
        raise DecodeError("commit.facts", f"{facts.num_rows} of them", rows)
    check(facts, head.first if head.full == head.number else None, head.rows)
    return head, facts


def _head(document: Document, layout: Layout) -> tuple[Head, int]:
    """The head, and how many facts come with it."""
    fields = Fields(document, "commit")
    written = fields.take("format", int)
    if written != FORMAT:
        raise DecodeError("commit.format", f"{written}: a later release made it", FORMAT)
    head = Head(
        number=fields.take_int("number", 1, NUMBER_MAX),
        epoch=fields.take_int("epoch", 0, EPOCH_MAX),
        live=fields.take_int("live", 0, NUMBER_MAX),
        full=fields.take_int("full", 1, NUMBER_MAX),
        stable=fields.take_int("stable", BEGIN, INF),
        rows=_counts(fields, "rows", layout),
        first=_counts(fields, "first", layout),
        batches=fields.take_int("batches", 0, INF),
        rejected=fields.take_int("rejected", 0, INF),
        queries=dict(_pairs(fields)),
        bases=tuple(_bases(fields)),
        doubted=tuple(_doubted(fields)),
        at_ms=fields.take_int("at_ms", -INF, INF),
    )
    rows = fields.take_int("facts", 0, INF)
    fields.done()
    return head, rows


def _counts(fields: Fields, name: str, layout: Layout) -> tuple[int, ...]:
    counts = fields.take_list(name, int, PARTITIONS_MAX)
    if len(counts) != layout.partitions or any(not 0 <= c <= INF for c in counts):
        raise DecodeError(f"commit.{name}", f"{len(counts)} counts", layout.partitions)
    return tuple(counts)


def _pairs(fields: Fields) -> list[tuple[str, int]]:
    pairs = []
    for pair in fields.take_list("queries", list, QUERIES_MAX):
        match pair:
            case [str(query), int(batch)]:
                pairs.append((query, batch))
            case _:
                raise DecodeError("commit.queries", repr(pair), "[query, batch]")
    return pairs


def _bases(fields: Fields) -> list[Base]:
    bases = []
    for base in fields.take_list("bases", list, BASES_MAX):
        match base:
            case [int(commit), str(segment), int(size)] if _BASE.fullmatch(segment) and size >= 0:
                bases.append(Base(commit, segment, size))
            case _:
                raise DecodeError("commit.bases", repr(base), "[commit, segment, bytes]")
    return bases


def _doubted(fields: Fields) -> list[Run]:
    runs = []
    for run in fields.take("doubted", list, []):
        match run:
            case [int(least), int(largest), int(rows)] if (
                BEGIN <= least <= largest <= INF and 0 < rows <= WITNESSES_MAX
            ):
                runs.append(Run(least, largest, rows))
            case _:
                raise DecodeError("commit.doubted", repr(run), "[least, largest, rows]")
    if len(runs) > DOUBTED_MAX:
        raise DecodeError("commit.doubted", f"{len(runs)} runs", f"<= {DOUBTED_MAX}")
    return runs
