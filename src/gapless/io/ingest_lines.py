"""Lines as batches: of a file, or on standard input as they come.

file      its blocks follow from its bytes alone
-         a block is ready when it is full, or when its first line has waited long enough
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pyarrow as pa

from gapless.io.ingest_batches import Batch, Input
from gapless.io.journal_handles import Stop
from gapless.io.lull import Lull
from gapless.io.stop_signals import StopSignals
from gapless.protocol.errors import BadData
from gapless.protocol.lines.blocks import Block, Lines, spans
from gapless.protocol.lines.formats import format_of
from gapless.protocol.lines.line_format import LineFormat

SELECT_S_MAX = 3600.0
"""Of one wait: the system refuses those of many years."""
READ_BYTES = 1 << 20
"""Bytes read at once: much less than a batch may have, much more than a call costs."""


class _Text(Input):
    """Lines, in blocks."""

    def __init__(self, name: str, kind: str, schema: pa.Schema, rows: int, encoding: str) -> None:
        super().__init__(name)
        self._kind = kind
        self._schema = schema
        self._rows = rows
        self._encoding = encoding
        self._lines = Lines()
        self._format: LineFormat | None = None
        if kind != "csv":
            self._format = format_of(kind, schema, None, encoding)

    def _ready(self, *, rest: bool = False) -> Iterator[tuple[LineFormat, Block]]:
        """The blocks that are whole, or with the rest all that is there, with what reads them."""
        if self._format is None:
            header = self._lines.take(1)
            if header is None:
                return
            self._format = format_of(self._kind, self._schema, header, self._encoding)
        while (block := self._lines.take(self._rows, rest=rest)) is not None:
            yield self._format, block

    def _rows_in(self, cut: tuple[LineFormat, Block]) -> int:
        return len(spans(cut[1].data).numbers)

    def _batch(self, cut: tuple[LineFormat, Block]) -> Batch:
        format_, block = cut
        parsed = format_.parse(block)
        first, numbers = block.first, parsed.numbers

        def origin(row: int) -> str:
            return f"{self.name}, line {first + int(numbers[row])}"

        rejected = [
            (bad.reason, f"{self.name}, line {first + bad.number}", bad.text) for bad in parsed.bad
        ]
        return Batch(parsed.batch, origin, rejected)


class TextFile(_Text):
    """A file of lines: its blocks follow from its bytes alone."""

    def __init__(
        self, path: Path, kind: str, schema: pa.Schema, rows: int, stop: Stop, encoding: str
    ) -> None:
        super().__init__(path.name, kind, schema, rows, encoding)
        self._path = path
        self._stop = stop

    def _cut(self) -> Iterator[tuple[LineFormat, Block]]:
        with self._path.open("rb", buffering=0) as file:
            size = max(1, os.fstat(file.fileno()).st_size)
            while not self._stop.is_set() and (chunk := file.read(READ_BYTES)):
                self._lines.feed(chunk)
                self.share_read = min(1.0, file.tell() / size)
                for cut in self._ready():
                    yield cut
                    if self._stop.is_set():
                        return
        if not self._stop.is_set():
            self._lines.finish()
            yield from self._ready(rest=True)


class StandardInput(_Text):
    """Lines on standard input: a batch is ready when it is full, or when it has waited.

    Once it is asked to stop, the lines that have come whole are the last batch.
    """

    def __init__(
        self,
        kind: str,
        schema: pa.Schema,
        rows: int,
        wait_s: float,
        stop: StopSignals,
        encoding: str,
        lull: Lull | None = None,
    ) -> None:
        """`lull` is told how long nothing has come."""
        super().__init__("standard input", kind, schema, rows, encoding)
        self._wait_s = wait_s
        self._stop = stop
        self._lull = lull

    def _cut(self) -> Iterator[tuple[LineFormat, Block]]:
        read = sys.stdin.fileno()
        due: float | None = None  # when what is there has waited long enough
        heard = told = monotonic()  # when something came, and when the lull last heard of it
        while not self._stop.is_set():
            ready = select.select([read, self._stop.wakes], [], [], self._left(due, told))[0]
            if self._lull is not None and due is None and not ready:
                told = monotonic()
                self._lull.lasts(told - heard)
            if read in ready:
                try:
                    chunk = os.read(read, READ_BYTES)
                except OSError as e:  # it is open for writing only, or a terminal has gone
                    raise BadData(f"standard input cannot be read on: {e}") from None
                if not chunk:
                    self._lines.finish()
                    break
                self._lines.feed(chunk)
                heard = told = monotonic()
                if self._lull is not None:
                    self._lull.ended()
                for cut in self._ready():
                    due = None
                    yield cut
            if due is not None and monotonic() >= due:
                due = None
                yield from self._ready(rest=True)
            if due is None and self._lines.whole:
                due = monotonic() + self._wait_s
        yield from self._ready(rest=True)

    def _left(self, due: float | None, told: float) -> float | None:
        """How long to wait at most: for what is there, else for the lull; None: for ever."""
        if due is None and self._lull is not None:
            due = told + self._lull.after_s
        return None if due is None else min(max(0.0, due - monotonic()), SELECT_S_MAX)
