"""Facts: what commits say of segments, one line for each partition that a segment has rows of.

    commit  segment              bytes   partition   first   rows   least   largest   stable
    17      segments/...-41      64 MB   0           1,000   500    17:29   17:30     17:30:05
    17      segments/...-41      64 MB   3             800   200    17:29   17:30     17:30:05
    18      (none)                   0   0               0     0    -       -         17:30:09

They are columns, ten thousand of them as cheap as one. What a reader relies on is checked when they
are read: the rows of a partition follow one another without a gap, up to what the commit's head
says, so that a commit of another journal, or of another time, is not taken for one of this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.errors import DecodeError
from gapless.protocol.schema import StreamSchema

FACTS = StreamSchema(
    pa.schema(
        [
            pa.field("commit", pa.int64(), nullable=False),
            pa.field("segment", pa.string(), nullable=False),
            pa.field("bytes", pa.int64(), nullable=False),
            pa.field("crc", pa.int64(), nullable=False),
            pa.field("partition", pa.int64(), nullable=False),
            pa.field("first", pa.int64(), nullable=False),
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("least", pa.int64(), nullable=False),
            pa.field("largest", pa.int64(), nullable=False),
            pa.field("stable", pa.int64(), nullable=False),
            pa.field("by_partition", pa.bool_(), nullable=False),
        ]
    )
)
"""Of each segment, by partition: its rows and their times. A segment without a name says only what
the stable is after a commit."""
_ROW = pa.struct(list(FACTS.payload))
_NAME = re.compile(r"(segments/[0-9]{10}-([^/]+-)?[0-9]{1,10})?")
"""An epoch, maybe a task, a number; no other place of the file system can be named."""
NAMES_FEW = 64
"""Names up to which Python is faster: Arrow makes its automaton anew each time."""


class Fact(NamedTuple):
    """One partition's part of one segment."""

    commit: int
    segment: str
    bytes: int
    crc: int
    """Of the headers of the segment's records, in which are those of their bodies: so no other file
    is taken for it, whole as that may be.
    """
    partition: int
    first: int
    """The offset of its first row: how many rows the partition had before."""
    rows: int
    least: int
    largest: int
    stable: int
    """Of the whole commit: what is promised of all partitions once it has been read."""
    by_partition: bool
    """Whether no segment of the commit has two partitions, and what its records promise is of its
    partition alone: partitions are then read side by side.
    """


def facts_batch(facts: list[Fact]) -> pa.RecordBatch:
    """Facts as columns."""
    if not facts:
        return FACTS.empty_payload
    return pa.RecordBatch.from_struct_array(pa.array(facts, _ROW))


def facts_list(batch: pa.RecordBatch) -> list[Fact]:
    """The inverse, for a few of them."""
    return [Fact(*row) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]


def rows_in(facts: pa.RecordBatch, partitions: int) -> npt.NDArray[np.int64]:
    """How many rows there are of each partition."""
    rows = np.zeros(partitions, np.int64)
    np.add.at(rows, facts.column("partition").to_numpy(), facts.column("rows").to_numpy())
    return rows


def check(facts: pa.RecordBatch, first: Sequence[int] | None, rows: Sequence[int]) -> None:
    """Raises `DecodeError` unless each partition's rows follow one another and end at `rows`.

    `first`: where they begin, where these are all facts.
    """
    partition, start, count, size = (
        facts.column(name).to_numpy() for name in ("partition", "first", "rows", "bytes")
    )
    least = np.minimum(np.minimum(partition, start), np.minimum(count, size))
    _refuse(facts, (least < 0) | (partition >= len(rows)), "counts")
    _refuse(facts, _misnamed(facts.column("segment")), "names of segments")
    order = np.argsort(partition, kind="stable")
    order = order[count[order] > 0]
    partition, start, end = partition[order], start[order], (start + count)[order]
    is_next = np.zeros(len(order), np.bool_)
    is_next[1:] = partition[1:] == partition[:-1]
    bad = np.zeros(facts.num_rows, np.bool_)
    bad[order[1:]] = is_next[1:] & (start[1:] != end[:-1])
    is_last = np.append(~is_next[1:], np.True_)[: len(order)]
    ends = np.array(rows, np.int64)
    bad[order] |= is_last & (end != ends[partition])
    if first is not None:
        begins = np.array(first, np.int64)
        bad[order] |= ~is_next & (start != begins[partition])
        begins[partition] = ends[partition]
        if (begins != ends).any():
            p = int(np.argmax(begins != ends))
            raise DecodeError("commit.facts", f"none of partition {p}", f"rows {first[p]} on")
    _refuse(facts, bad, "rows that follow one another")


def _misnamed(names: pa.Array) -> npt.NDArray[np.bool_]:
    """Which of them no segment can have."""
    if len(names) <= NAMES_FEW:
        return np.array([not _NAME.fullmatch(name) for name in names.to_pylist()], np.bool_)
    named = pc.match_substring_regex(names, rf"\A{_NAME.pattern}\z")
    misnamed: npt.NDArray[np.bool_] = ~named.to_numpy(zero_copy_only=False)
    return misnamed


def _refuse(facts: pa.RecordBatch, bad: npt.NDArray[np.bool_], bound: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DecodeError("commit.facts", f"{facts_list(facts.slice(row, 1))[0]}", bound)
