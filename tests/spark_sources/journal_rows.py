"""What a journal holds, read back row by row, and Python's own idea of what it should hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.journal.disk import LocalDisk
from gapless.journal.layout import opened
from gapless.journal.partition import partitions_of
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN
from gapless.protocol.values import to_values

Row = tuple[Any, ...]


def values_of(table: pa.Table) -> list[Row]:
    """Rows as canonical Python values: times are ticks."""
    columns = [to_values(column.combine_chunks()) for column in table.columns]
    return list(zip(*columns, strict=True))


def by_partition(path: Path) -> dict[int, list[Row]]:
    """The rows of each partition in its order, read alone. Holds every promise to its word."""
    layout = opened(LocalDisk(path))
    return {p: list(_rows(path, [p])) for p in range(layout.partitions)}


def rows_in(path: Path) -> list[Row]:
    """All rows, read together."""
    return list(_rows(path, None))


def _rows(path: Path, partitions: Sequence[int] | None) -> Iterator[Row]:
    reader = Reader(LocalDisk(path), partitions=partitions, frame_rows=100)
    promised = BEGIN
    while (frame := reader.read()) is not None:
        if len(frame):
            assert int(frame.vs.min()) >= promised, "a row is below what was promised before it"
            batch = frame.batch.select(reader.layout.schema.names)
            yield from values_of(pa.Table.from_batches([batch]))
        promised = promised if frame.stable is None else frame.stable


def parted(table: pa.Table, key: Sequence[str], partitions: int) -> dict[int, list[Row]]:
    """The rows of a table by the partition that they belong to, in the table's order."""
    whole = table.combine_chunks()
    places = partitions_of([whole.column(name).combine_chunks() for name in key], partitions)
    found: dict[int, list[Row]] = {p: [] for p in range(partitions)}
    for place, row in zip(places.tolist(), values_of(whole), strict=True):
        found[place].append(row)
    return found


def late_ones(times: Iterable[int | None], lateness: int) -> list[bool]:
    """Which rows are late, one by one: below the largest time before them less the lateness.

    A time that is None is of a bad row, which neither is late nor makes others late.
    """
    largest, late = None, []
    for t in times:
        late.append(t is not None and largest is not None and t < largest - lateness)
        if t is not None:
            largest = t if largest is None else max(largest, t)
    return late
