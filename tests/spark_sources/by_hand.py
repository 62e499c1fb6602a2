"""The data source as Spark calls it, step by step, without Spark: what goes from one process to
another is pickled on the way.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import opened
from gapless.spark_sources.data_source import GaplessSource
from gapless.spark_sources.spark_writer import BatchWriter

T = TypeVar("T")


def sent(thing: T) -> T:
    """As it arrives in another process."""
    copy: T = pickle.loads(pickle.dumps(thing))  # noqa: S301  # our own, a line above
    return copy


def source(path: Path | str, **options: object) -> GaplessSource:
    texts = {name: str(value) for name, value in options.items()}
    return GaplessSource(CaseInsensitiveDict({"path": str(path), **texts}))


def schema_of(rows: pa.Table) -> StructType:
    return from_arrow_schema(rows.schema)


def begun(path: Path | str, rows: pa.Table, **options: object) -> BatchWriter:
    """The writer of one batch, whose epoch has begun."""
    return sent(source(path, **options).writer(schema_of(rows), overwrite=False))


def write(path: Path, *tasks: pa.Table, batch_rows: int = 10_000, **options: object) -> None:
    """One `df.write`, a table for each task."""
    writer = begun(path, tasks[0], **options)
    messages: list[Any] = [
        sent(sent(writer).write(iter(rows.to_batches(max_chunksize=batch_rows)))) for rows in tasks
    ]
    sent(writer).commit(messages)


def read(path: Path, schema: StructType | None = None, **options: object) -> pa.Table:
    """One `spark.read`."""
    found = source(path, **options)
    wanted = found.schema() if schema is None else schema
    reader = found.reader(wanted)
    return done(sent(reader), sent(list(reader.partitions())))


def done(reader: Any, partitions: Sequence[InputPartition]) -> pa.Table:
    """The tasks of a read that was planned."""
    batches = [batch for task in partitions for batch in sent(reader).read(task)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def rows_of(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    """The rows, in an order of their own."""
    columns = [table.column(name).to_pylist() for name in names or table.column_names]
    return sorted(zip(*columns, strict=True), key=repr)


def commits_of(path: Path) -> Commits:
    disk = LocalDisk(path)
    return Commits(disk, opened(disk))


def rejects_of(path: Path) -> list[dict[str, Any]]:
    files = sorted((path / "rejects").glob("*")) if (path / "rejects").exists() else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def segments_of(path: Path) -> list[str]:
    return LocalDisk(path).list("segments")
