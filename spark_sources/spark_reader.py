"""Reading a journal with Spark: what was committed when the read was planned, in parallel.

    commits           facts of segments     ->   one task for each 64 MB of them
    live segment      up to its live end    ->   one task

Each task maps its segments and hands their columns to Spark, record by record: a task's memory does
not depend on how much there is. Rows are given as they were appended; in which order tasks give
them is Spark's affair, so a query over it asks for order where it needs one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from gapless.journal.commit import Commits, live_segment
from gapless.journal.cursor import Cursor, Growing, Piece, Sealed
from gapless.journal.disk import LocalDisk
from gapless.journal.epoch import is_fenced, read_live_end
from gapless.journal.facts import Fact, facts_list
from gapless.journal.layout import Layout, opened
from gapless.journal.segment import SEGMENT_BYTES
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.spark_sources.conform import for_spark
from gapless.spark_sources.options import ReadOptions, instant
from gapless.spark_sources.spark_types import spark_schema

PARTITION, OFFSET, COMMIT = "_partition", "_offset", "_commit"
PLACE = (PARTITION, OFFSET, COMMIT)
"""Where a row stands, for those who ask; of a row in the live segment there is no commit yet."""
TASK_BYTES = SEGMENT_BYTES
"""Of segments that one task reads: as a task costs Spark about 10 ms, small ones share one."""
LOOKS_MAX = 100
"""Seals and takeovers that may happen while a read is planned."""


@dataclass
class Segments(InputPartition):
    """Sealed segments that one task reads: the facts of each, of the partitions that are wanted."""

    facts: list[list[Fact]]


@dataclass
class Live(InputPartition):
    """The live segment, as far as it might be read when the read was planned."""

    name: str
    end: int
    first: dict[int, int]


def schema_of(options: ReadOptions) -> StructType:
    """The columns that a read gives, as Spark's."""
    layout = opened(LocalDisk(options.path))
    places = [StructField(name, LongType(), name == COMMIT) for name in PLACE]
    return StructType([*spark_schema(layout), *(places if options.with_offsets else [])])


class SparkReader(DataSourceReader):
    """One read. `partitions` plans it on the driver, `read` runs in each task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """`schema` has the columns that are wanted, of those that there are."""
        self._options = options
        self._layout = opened(LocalDisk(options.path))
        self._wanted = _partitions(options, self._layout)
        unit = self._layout.schema.time_unit
        self._since = None if options.since is None else instant(options.since, unit)
        there = schema_of(options)
        for field in schema:
            if field.name not in there.names or there[field.name].dataType != field.dataType:
                raise SchemaError(
                    f"column {field.name!r} {field.dataType.simpleString()} is not there; the "
                    f"journal has {there.simpleString()}"
                )
        self._names = [*there.names]
        self._schema = to_arrow_schema(schema, timezone="UTC")

    # -- planning -----------------------------------------------------------------------------

    def partitions(self) -> Sequence[InputPartition]:
        """What each task is to read: all that is committed now, and what may be read beside it."""
        commits, live = self._now()
        found: list[InputPartition] = [*self._sealed(commits)]
        return [*found, *([live] if live is not None else [])]

    def _now(self) -> tuple[Commits, Live | None]:
        """The commits, and the live segment behind the last of them."""
        disk = LocalDisk(self._options.path)
        commits = Commits(disk, self._layout)
        for _ in range(LOOKS_MAX):
            head = commits.head
            shown = read_live_end(disk, head.epoch)
            # In this order: what it shows is before a cut that is not yet made.
            can_read = shown is not None and shown.number == head.live
            can_read = can_read and not is_fenced(disk, head.epoch)
            if not commits.catch_up():
                break
        else:
            raise Misuse(f"{disk} changes faster than it can be looked at; try again")
        if not can_read or shown is None or not shown.end:
            return commits, None
        return commits, Live(live_segment(head), shown.end, {p: head.rows[p] for p in self._wanted})

    def _sealed(self, commits: Commits) -> Iterator[Segments]:
        facts = commits.facts
        partition = facts.column("partition").to_numpy()
        needed = np.isin(partition, self._wanted) & (facts.column("rows").to_numpy() > 0)
        if self._since is not None:
            needed &= facts.column("largest").to_numpy() >= self._since
        task, size = Segments([]), 0
        for fact in facts_list(facts.filter(pa.array(needed))):
            if task.facts and task.facts[-1][0].segment == fact.segment:
                task.facts[-1].append(fact)
                continue
            if size and size + fact.bytes > TASK_BYTES:
                yield task
                task, size = Segments([]), 0
            task.facts.append([fact])
            size += fact.bytes
        if task.facts:
            yield task

    # -- reading ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        disk = LocalDisk(self._options.path)
        if isinstance(partition, Segments):
            for facts in partition.facts:
                first = {fact.partition: fact.first for fact in facts}
                cursor = Sealed(
                    disk,
                    self._layout,
                    facts[0].segment,
                    first,
                    size=facts[0].bytes,
                    crc=facts[0].crc,
                    rows={fact.partition: fact.rows for fact in facts},
                )
                yield from self._batches(cursor, facts[0].commit)
        elif isinstance(partition, Live):
            live = Growing(disk, self._layout, partition.name, partition.first)
            live.end = partition.end
            yield from self._batches(live, None)

    def _batches(self, cursor: Cursor, commit: int | None) -> Iterator[pa.RecordBatch]:
        while (piece := cursor.next()) is not None:
            batch = self._batch(piece, commit, cursor.name)
            if batch.num_rows:
                yield batch

    def _batch(self, piece: Piece, commit: int | None, segment: str) -> pa.RecordBatch:
        frame, rows = piece.frame, len(piece.frame)
        columns = dict(zip(self._names, self._columns(frame), strict=False))
        if self._options.with_offsets:
            columns[PARTITION] = pa.repeat(pa.scalar(piece.partition, pa.int64()), rows)
            columns[OFFSET] = pa.array(np.arange(piece.offset, piece.offset + rows))
            columns[COMMIT] = pa.repeat(pa.scalar(commit, pa.int64()), rows)
        batch = for_spark([columns[name] for name in self._schema.names], self._schema, segment)
        if self._since is not None and rows and int(frame.vs.min()) < self._since:
            batch = batch.filter(pa.array(frame.vs >= self._since))
        return batch

    def _columns(self, frame: Frame) -> list[pa.Array]:
        return list(frame.payload.columns if self._layout.has_rows else frame.batch.columns)


def _partitions(options: ReadOptions, layout: Layout) -> list[int]:
    count = layout.partitions
    wanted = sorted(set(range(count) if options.partitions is None else options.partitions))
    if not wanted or wanted[0] < 0 or wanted[-1] >= count:
        raise Misuse(f"partitions {wanted}: {options.path} has 0 to {count - 1}")
    return wanted
