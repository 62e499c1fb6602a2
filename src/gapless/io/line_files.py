"""Files of lines as inputs: rows, and the lines that are bad, in the order of the file.

    flows.csv     header | 65,536 lines | 65,536 lines | ...     a batch each, then its bad lines

What a line means is decided where all lines are read (`protocol/lines/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gapless.engine.intake import Unread
from gapless.protocol.lines.blocks import Block, Lines
from gapless.protocol.lines.formats import format_of
from gapless.protocol.lines.line_format import LineFormat, Parsed

BATCH_LINES = 1 << 16
"""Lines that are parsed at once: four frames; more only cost memory."""
READ_BYTES = 1 << 20
"""Bytes read at once."""


def rows_of(
    path: Path, kind: str, schema: pa.Schema, encoding: str
) -> Iterator[pa.RecordBatch | Unread]:
    """The rows of a file for a schema, and its lines that are bad. Raises `GaplessError` where the
    file is none of its kind, or has other columns.
    """
    reads: LineFormat | None = None
    for block in _blocks(path, 1 if kind == "csv" else 0):
        if reads is None:
            reads = format_of(kind, schema, block if kind == "csv" else None, encoding)
            if kind == "csv":
                continue
        parsed = reads.parse(block)
        yield parsed.batch
        yield from _unread(path, block, parsed)


def _blocks(path: Path, header_lines: int) -> Iterator[Block]:
    lines, header_read = Lines(), not header_lines
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(READ_BYTES):
            lines.feed(chunk)
            if not header_read and (header := lines.take(header_lines)) is not None:
                header_read = True
                yield header
            while header_read and (block := lines.take(BATCH_LINES)) is not None:
                yield block
    lines.finish()
    if not header_read and (header := lines.take(header_lines)) is not None:
        yield header
    while (block := lines.take(BATCH_LINES, rest=True)) is not None:
        yield block


def _unread(path: Path, block: Block, parsed: Parsed) -> Iterator[Unread]:
    by_reason: dict[str, list[int]] = {}
    for place, each in enumerate(parsed.bad):
        by_reason.setdefault(each.kind_of_reason, []).append(place)
    for reason, places in by_reason.items():
        bad = [parsed.bad[place] for place in places]
        origins = [f"{path.name}, line {block.first + each.number}" for each in bad]
        columns = {"origin": origins, "line": [each.text for each in bad]}
        yield Unread(reason, pa.RecordBatch.from_pydict(columns))
