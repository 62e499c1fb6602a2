"""Writing a journal from Spark: tasks write segments, the driver commits them.

    driver    streamWriter()          layout: made, or held against what was said
    task      write(rows)             epoch of the run: claimed by whichever task asks first
              write(rows)             rows -> segments that nobody sees yet
    driver    commit(messages)        one commit: all of them, the watermark, "batch 12 is in"

A batch of a query is in once, whichever process dies in between: tasks that find it in write
nothing, a commit that finds it in changes nothing. A batch write is the same without a query of
Spark's: the driver claims the epoch before its tasks start, and what names the batch is said by
options.

Spark makes a new data source for each micro-batch, and another for the commits, so nothing that is
drawn in one of them can name a run. What does is with each task: Spark's query, run and batch.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import DataType, LongType, StringType, StructType

from gapless.journal.batch import (
    TaskResult,
    TaskWriter,
    commit_batch,
    discard,
    is_in,
    writing_epoch,
)
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout, establish, layout_of
from gapless.journal.plausible import Run
from gapless.protocol.errors import Bug, Misuse, SchemaError
from gapless.spark_sources.options import WriteOptions
from gapless.spark_sources.spark_types import check_writable, spark_type
from gapless.spark_sources.task_rows import TaskRows

Messages: TypeAlias = Sequence[WriterCommitMessage | None]
"""What the tasks have said; of one that failed Spark has none."""

QUERY, BATCH, RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""What Spark says of a micro-batch to each of its tasks."""


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What a task tells the driver."""

    epoch: int
    batch: int
    query: str | None
    """Of which query the batch is; None for a batch without a name."""
    result: TaskResult | None
    """None where the batch was in already."""


class Turn(NamedTuple):
    """What the tasks of one batch have to know."""

    epoch: int
    watermark: int
    query: str | None
    batch: int
    doubted: tuple[Run, ...] = ()
    """Rows of batches before that were ahead."""


@dataclass(frozen=True)
class Sink:
    """One journal, and how rows of one schema are written to it. Goes from the driver to tasks."""

    options: WriteOptions
    layout: Layout
    schema: StructType
    """Of the rows as Spark has them."""

    @staticmethod
    def opened(options: WriteOptions, schema: StructType, *, overwrite: bool) -> Sink:
        """Makes the journal if there is none; raises `Misuse` unless these rows can be written."""
        if overwrite:
            raise Misuse(
                f"{options.path}: a journal is only added to: mode('append'), "
                "outputMode('append'); to start anew give another path, or remove the directory"
            )
        for name in options.extra:
            wanted = LongType() if name == options.promise_column else StringType()
            _check_extra(name, schema, wanted)
        data = StructType([field for field in schema if field.name not in options.extra])
        disk = LocalDisk(options.path)
        found = layout_of(disk)
        if found is not None and not found.has_rows:
            raise Misuse(f"{disk} holds frames of a merger: only a merger adds to it")
        layout = options.layout(found, data)
        _check_columns(layout, data)
        if found is None:
            establish(disk, layout, _fresh())
        return Sink(options, layout, schema)

    def commits(self) -> Commits:
        """The journal's commits as they are now."""
        return Commits(LocalDisk(self.options.path), self.layout)

    def turn(self, who: str, token: str, query: str | None, batch: int) -> Turn | None:
        """The epoch of a run and the watermark by which a batch is judged; None where it is in.

        The run that asks first takes the journal over. Raises `Fenced` where a later one has.
        """
        commits = self.commits()
        if query is not None and is_in(commits, query, batch):
            return None
        if commits.head.ended:
            raise Misuse(f"{commits.disk} has ended: nothing can be added to it")
        durable = self.options.durable
        epoch = writing_epoch(commits, who, token, _now_ms(), process=_fresh(), durable=durable)
        return Turn(epoch, commits.head.stable, query, batch, commits.head.doubted)

    def write(self, batches: Iterator[pa.RecordBatch], turn: Turn | None) -> TaskWritten:
        """Writes one task's rows; where it raises, nothing of them is left."""
        if turn is None:
            return TaskWritten(0, 0, None, None)
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        writer = TaskWriter(
            LocalDisk(self.options.path),
            self.layout,
            turn.epoch,
            f"{turn.batch}.{task}.{_fresh()}",
            turn.watermark,
            batch=turn.batch,
            durable=self.options.durable,
            by_partition=self.options.by_partition is not None,
            sorts=self.options.sorts,
            reach=self.options.reach(self.layout),
            doubted=turn.doubted,
        )
        try:
            rows = TaskRows(self.layout, self.options, self.schema.names, writer)
            for batch in batches:
                rows.take(batch)
            result = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        return TaskWritten(turn.epoch, turn.batch, turn.query, result)

    def commit(self, messages: Messages) -> None:
        """Makes the batch part of the journal, unless it is that already."""
        written = _written(messages)
        if not written:
            return
        turns = {(message.epoch, message.query, message.batch) for message in written}
        if len(turns) > 1:
            raise Bug(f"{self.options.path}: tasks of one batch have written as {sorted(turns)}")
        ((epoch, query, batch),) = turns
        commits = self.commits()
        made = commit_batch(
            commits,
            epoch,
            _fresh(),
            _results(written),
            query=query,
            batch=batch,
            now_ms=_now_ms(),
            durable=self.options.durable,
            ends=self.options.ends,
        )
        if not made:
            discard(commits, _results(written))

    def abort(self, messages: Messages) -> None:
        """Takes away what tasks have written, unless it was committed after all."""
        discard(self.commits(), _results(_written(messages)))


class BatchWriter(DataSourceArrowWriter):
    """One `df.write`. Made on the driver, where the epoch begins; copies of it go to the tasks."""

    def __init__(self, sink: Sink, token: str) -> None:
        self._sink = sink
        options = sink.options
        who = f"a Spark write on {socket.gethostname()}"
        if options.query is not None:
            who += f" (batch {options.batch} of {options.query})"
        self._turn = sink.turn(who, token, options.query, options.batch or 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        return self._sink.write(iterator, self._turn)

    def commit(self, messages: Messages) -> None:
        """Makes all rows part of the journal at once."""
        self._sink.commit(messages)

    def abort(self, messages: Messages) -> None:
        """Leaves the journal as it was."""
        self._sink.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """One `df.writeStream`, made anew for each micro-batch; what names that is with its tasks."""

    def __init__(self, sink: Sink) -> None:
        options = sink.options
        if options.query is not None or options.ends:
            raise Misuse(
                "query=, batch= and ends= are for df.write: a stream has Spark's own query and "
                "batches, and does not know its end"
            )
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task of a micro-batch."""
        context = cast(TaskContext, TaskContext.get())
        query, batch, run = (context.getLocalProperty(name) for name in (QUERY, BATCH, RUN))
        if query is None or batch is None or run is None:
            raise Bug(f"this Spark does not name its micro-batches: {query=} {batch=} {run=}")
        who = f"Spark query {query} (run {run})"
        token = self._sink.options.token or run
        return self._sink.write(iterator, self._sink.turn(who, token, query, int(batch)))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        """Makes the micro-batch part of the journal, unless it is that already."""
        others = {message.batch for message in _written(messages)} - {batchId}
        if others:
            raise Bug(f"Spark commits batch {batchId}, and its tasks have written {others}")
        self._sink.commit(messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """Leaves the journal as it was."""
        self._sink.abort(messages)


def _check_extra(name: str, schema: StructType, wanted: DataType) -> None:
    if name not in schema.names:
        raise SchemaError(f"column {name!r} is none of {', '.join(schema.names)}")
    given = schema[name].dataType
    if type(given) is not type(wanted):
        raise SchemaError(
            f"column {name!r} is {given.simpleString()}, not {wanted.simpleString()}: it says "
            "something of its row, and is no data"
        )


def _check_columns(layout: Layout, data: StructType) -> None:
    """Raises `SchemaError` unless rows of Spark are rows of the journal, in whatever order."""
    payload = layout.schema.payload
    if missing := [name for name in payload.names if name not in data.names]:
        wanted = spark_type(missing[0], payload.field(missing[0]).type).simpleString()
        raise SchemaError(f"column {missing[0]!r} of the journal is missing: add it, as {wanted}")
    if surplus := [name for name in data.names if name not in payload.names]:
        raise SchemaError(
            f"column {surplus[0]!r} is none of the journal's ({', '.join(payload.names)}): "
            "drop it before the write"
        )
    for field in data:
        check_writable(field.name, field.dataType, payload.field(field.name).type)


def _written(messages: Messages) -> list[TaskWritten]:
    """Of those tasks that have written; others have failed, or found the batch in."""
    return [m for m in messages if isinstance(m, TaskWritten) and m.result is not None]


def _results(written: Sequence[TaskWritten]) -> list[TaskResult]:
    return [message.result for message in written if message.result is not None]


def _fresh() -> str:
    return uuid.uuid4().hex[:12]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
