"""Data sources that die or fail at one place: of a task, of the driver, of the commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from gapless.spark_sources.data_source import GaplessSource
from gapless.spark_sources.options import WriteOptions
from gapless.spark_sources.spark_writer import BatchWriter, Messages, Sink, StreamWriter

BATCHES_BEFORE_DEATH = 8
"""Of 10,000 rows: some of them are in a file by then."""


def die() -> None:
    """Ends this process, with no chance to do anything more."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingTasks(GaplessSource):
    """Each task is killed in the middle of its first attempt."""

    @classmethod
    def name(cls) -> str:
        return "gapless_dying_tasks"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        writer = super().writer(schema, overwrite)
        return _DyingTasks(writer._sink, self._token)


class _DyingTasks(BatchWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_dying(iterator))


def _dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context: Any = TaskContext.get()
    for i, batch in enumerate(batches):
        if i == BATCHES_BEFORE_DEATH and context.attemptNumber() == 0:
            die()
        yield batch


class DyingBeforeCommit(GaplessSource):
    """The process that commits is killed before it does."""

    @classmethod
    def name(cls) -> str:
        return "gapless_dying_before_commit"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return _DyingBefore(super().writer(schema, overwrite)._sink, self._token)


class _DyingBefore(BatchWriter):
    def commit(self, messages: Messages) -> None:  # noqa: ARG002  # nobody lives to look at them
        die()


class DyingAfterCommit(GaplessSource):
    """The process that commits is killed when it has, and before it can say so."""

    @classmethod
    def name(cls) -> str:
        return "gapless_dying_after_commit"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return _DyingAfter(super().writer(schema, overwrite)._sink, self._token)


class _DyingAfter(BatchWriter):
    def commit(self, messages: Messages) -> None:
        super().commit(messages)
        die()


class DyingDriver(GaplessSource):
    """The driver is killed between the tasks' writing and the second commit of a stream."""

    @classmethod
    def name(cls) -> str:
        return "gapless_dying_driver"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  # Spark's
        sink = Sink.opened(WriteOptions.of(self.options), schema, overwrite=overwrite)
        return _DyingDriver(sink)


class _DyingDriver(StreamWriter):
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        if batchId == 1:
            for parent in psutil.Process().parents():
                if "java" in parent.name():
                    parent.kill()
            die()
        super().commit(messages, batchId)
