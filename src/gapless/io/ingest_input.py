"""What `gapless ingest` reads, cut into batches: a file, or lines on standard input as they come.

    flows.jsonl      10,000 lines | 10,000 lines | ...       the same batches each time it is read
    flows.parquet    10,000 rows  | 10,000 rows  | ...
    -                10,000 lines | what came in 200 ms | ...

Of a file batch n is always the same rows, whatever happens while it is read. So a journal that has
had n batches of it resumes with batch n, and has each row exactly once. Of standard input nothing
can be read again.

Memory has one batch: as text (32 MB at most), as columns, as records.

    ingest_batches.py    what every input is         ingest_lines.py      lines: a file's, arriving
    stop_signals.py      how reading is ended        ingest_columns.py    Parquet and Arrow files
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from gapless.io.event_files import FORMATS, TEXT_FORMATS
from gapless.io.ingest_batches import Input
from gapless.io.ingest_columns import ColumnFile
from gapless.io.ingest_lines import StandardInput, TextFile
from gapless.io.lull import Lull
from gapless.io.stop_signals import StopSignals
from gapless.protocol.errors import Misuse
from gapless.protocol.lines.line_format import UTF8

STDIN = "-"
BATCH_ROWS_MAX = 1 << 20
"""Of one batch: what one record of a journal holds."""


def input_of(
    path: str,
    kind: str,
    schema: pa.Schema,
    rows: int,
    wait_s: float,
    stop: StopSignals,
    encoding: str = UTF8,
    lull: Lull | None = None,
) -> Input:
    """The input at a path, in batches of so many rows; `wait_s` and `lull` are for standard input,
    `encoding` for lines.
    """
    if not 1 <= rows <= BATCH_ROWS_MAX:
        raise Misuse(f"--batch-rows {rows}: 1 to {BATCH_ROWS_MAX:,}")
    if path == STDIN:
        return StandardInput(kind, schema, rows, wait_s, stop, encoding, lull)
    if lull is not None:
        raise Misuse("--idle: a file has no lulls; it is for standard input")
    if kind in TEXT_FORMATS:
        return TextFile(Path(path), kind, schema, rows, stop, encoding)
    return ColumnFile(Path(path), kind, schema, rows, stop)


def kind_of(path: str, asked: str | None) -> str:
    """What an input holds: as it is called, or as is said."""
    kinds = sorted(set(FORMATS.values()))
    if asked is not None and asked not in kinds:
        raise Misuse(f"--format {asked!r}: one of {', '.join(kinds)}")
    if path == STDIN:
        if sys.stdin is None:
            raise Misuse("standard input is closed: name a file, or pipe lines in")
        if asked is not None and asked not in TEXT_FORMATS:
            raise Misuse(f"standard input gives {' or '.join(TEXT_FORMATS)}, not {asked}")
        return asked or TEXT_FORMATS[0]
    try:
        is_file = Path(path).is_file()
    except OSError as e:  # a name that is too long
        raise Misuse(f"file {path[:50]!r} cannot be looked at: {e.strerror}") from None
    if not is_file:
        if Path(path).exists():
            raise Misuse(f"{path!r} is not a file: redirect a pipe to standard input with <")
        raise Misuse(f"there is no file {path!r}")
    kind = asked or FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise Misuse(f"{path!r} ends in none of {', '.join(FORMATS)}: add --format")
    return kind
