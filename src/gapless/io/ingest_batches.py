"""An input of `gapless ingest` as batches: what every kind of input is.

    cut, cut, cut, ...       parts that follow from the input alone, before anything is parsed
      |
      '--> Batch             rows, where each is from, and the lines that are no rows

Cutting costs little, so passing over the batches that a journal already has costs little, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from gapless.journal.rejects import Origin, Rejected


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that go into the journal together."""

    rows: pa.RecordBatch
    origin: Origin
    rejected: Sequence[Rejected] = ()
    """Lines that are no rows."""

    @property
    def taken(self) -> int:
        """Rows of the input, bad ones included."""
        return int(self.rows.num_rows) + len(self.rejected)


class Input(ABC):
    """The batches of one input, in order, each once."""

    def __init__(self, name: str) -> None:
        self.name = name
        """For people."""
        self.share_read = 0.0
        """Of the input, 0 to 1; of standard input always 0."""
        self._cuts: Iterator[Any] = self._cut()

    def skip(self, batches: int) -> tuple[int, int]:
        """Passes over so many batches, or as many as there are; how many, and their rows."""
        count = rows = 0
        for cut in islice(self._cuts, batches):
            count += 1
            rows += self._rows_in(cut)
        return count, rows

    def __iter__(self) -> Iterator[Batch]:
        return map(self._batch, self._cuts)

    @abstractmethod
    def _cut(self) -> Iterator[Any]:
        """The input, in parts that are each a batch."""

    @abstractmethod
    def _rows_in(self, cut: Any) -> int:
        """Rows of a part, bad ones included."""

    @abstractmethod
    def _batch(self, cut: Any) -> Batch:
        """A part as a batch."""
