"""What the kinds of `gapless generate` share: the start time, and the run.

rows ---- watched for their times ----> Destination (files, or standard output) ----> one line
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from gapless.commands.terminal import percent_bar, print_json

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless.io.event_files import Destination
    from gapless.journal.generate import Events

DEFAULT_START = "2024-01-01T00:00:00"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start_ms(text: str) -> int:
    """The time of the first event in milliseconds since 1970; UTC unless a zone is given."""
    from gapless.protocol.errors import Misuse

    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(
            f"--start {text[:50]!r}: write a time as {DEFAULT_START}, in the years 1 to 9998"
        ) from None
    if start.tzinfo is None:
        start = start.replace(tzinfo=UTC)
    return (start - EPOCH) // timedelta(milliseconds=1)


# -- making them ----------------------------------------------------------------------------------


class _Span:
    """The least and the largest time of the rows that pass."""

    def __init__(self) -> None:
        self.least: int | None = None
        self.largest: int | None = None

    def watch(self, events: Events) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in events:
            ends = pc.min_max(batch.column(events.time_column).view(pa.int64()))
            least, largest = ends["min"].as_py(), ends["max"].as_py()
            self.least = least if self.least is None else min(self.least, least)
            self.largest = largest if self.largest is None else max(self.largest, largest)
            yield batch


def run(
    kind: str,
    streams: Mapping[str, Events],
    out: str,
    format_: str | None,
    files: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Writes the streams, and says in one line, or as JSON, what there is now."""
    from gapless.io.event_files import Destination
    from gapless.protocol.errors import Misuse

    destination = Destination(out, list(streams), format_=format_, files=files, overwrite=overwrite)
    if destination.is_stdout and as_json:
        raise Misuse("--json prints to standard output, where the rows go: name a file for them")
    began, span = time.perf_counter(), _Span()
    try:
        with destination:
            _write(kind, streams, destination, span)
    except BrokenPipeError:  # who reads our output, as `head` does, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    written = destination.files
    document = {
        "kind": kind,
        "seed": next(iter(streams.values())).seed,
        "rows": sum(file.rows for file in written),
        "bytes": sum(file.bytes for file in written),
        "seconds": round(time.perf_counter() - began, 3),
        "first": _iso(span.least),
        "last": _iso(span.largest),
        "format": destination.format,
        "path": out,
        "files": [{"path": f.path, "rows": f.rows, "bytes": f.bytes} for f in written],
    }
    if as_json:
        print_json(document)
    else:
        typer.echo(_line(document), err=destination.is_stdout)


def _write(kind: str, streams: Mapping[str, Events], destination: Destination, span: _Span) -> None:
    total = sum(events.rows for events in streams.values())
    done = 0
    is_on_screen = destination.is_stdout and sys.stdout.isatty()  # rows are progress enough
    with nullcontext(_say_nothing) if is_on_screen else percent_bar(f"generating {kind}") as show:
        for name, events in streams.items():
            batches = span.watch(events)
            for rows in destination.write(name, batches, events.schema, events.rows):
                done += rows
                show(done / total)


def _say_nothing(_: float) -> None:
    pass


def _line(document: Mapping[str, Any]) -> str:
    files = len(document["files"])
    return (
        f"{document['kind']}: {document['rows']:,} rows, {document['bytes']:,} bytes, "
        f"{files} file{'' if files == 1 else 's'}, {document['seconds']:.2f} s, "
        f"{document['first'] or '-'} to {document['last'] or '-'}, {document['path']}"
    )


def _iso(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return (
        (EPOCH + timedelta(milliseconds=time_ms))
        .replace(tzinfo=None)
        .isoformat(timespec="milliseconds")
    )
