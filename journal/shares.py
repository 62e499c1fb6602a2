"""The shares of a batch: the rows that each partition gets of it, and what its facts will say.

    a batch, by src in 3 partitions        partition   rows                     least   largest
    ts    3  4  4  9                           0       the first, the last          3         9
    src   7  2  2  7                           2       the two between              4         4

A journal holds rows of a source or frames, and never both: what is of the other kind, or of another
schema, is refused here, before anything of it counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.journal.partition import partitions_of, split
from gapless.journal.segment import span, times_of
from gapless.journal.tally import Part
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.frame import Frame


class Share(NamedTuple):
    """What one partition gets of a batch."""

    partition: int
    rows: pa.RecordBatch | Frame
    part: Part
    """These rows, counted."""


class Shares:
    """Divides batches as one journal wants them."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout

    def frame(self, frame: Frame) -> Frame:
        """A frame that the journal holds. Raises `Misuse` or `SchemaError` for any other."""
        if self._layout.has_rows:
            raise Misuse(f"{self._disk} holds rows of a source: append record batches, not frames")
        schema = self._layout.schema
        if frame.schema is not schema and frame.schema != schema:
            raise SchemaError(f"{self._disk} holds {schema}, the frame {frame.schema}")
        return frame

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A batch that the journal holds. Raises `Misuse` or `SchemaError` for any other."""
        if not self._layout.has_rows:
            raise Misuse(f"{self._disk} holds frames: append frames, not record batches")
        if not isinstance(rows, pa.RecordBatch) or rows.schema != self._layout.schema.payload:
            got = rows.schema if isinstance(rows, pa.RecordBatch) else type(rows).__name__
            raise SchemaError(
                f"{self._disk} holds batches of {self._layout.schema}, this is one of {got}"
            )
        return rows

    def of(self, rows: pa.RecordBatch | Frame, times: tuple[int, int] | None) -> list[Share]:
        """A share for each partition that has rows; `times` is the span of the batch, where that
        is known.
        """
        return [Share(p, some, self._part(some, times)) for p, some in self._divided(rows)]

    def _divided(
        self, rows: pa.RecordBatch | Frame
    ) -> Iterable[tuple[int, pa.RecordBatch | Frame]]:
        if isinstance(rows, Frame):
            return [(0, rows)] if len(rows) else []
        count = self._layout.partitions
        if count == 1 or not rows.num_rows:
            return [(0, rows)] if rows.num_rows else []
        places = partitions_of([rows.column(name) for name in self._layout.key], count)
        return split(rows, places, count)

    def _part(self, rows: pa.RecordBatch | Frame, times: tuple[int, int] | None) -> Part:
        if isinstance(rows, Frame):
            return Part(len(rows), *span(rows.vs))
        if times is None or self._layout.partitions > 1:
            times = span(times_of(rows, self._layout))
        return Part(rows.num_rows, *times)
