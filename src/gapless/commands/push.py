"""`gapless push`: a recorded stream, lines of text notation, or a changelog, pushed to a sidecar as
one copy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.options import End
from gapless.commands.terminal import AsJson, ExitCode, percent_bar, print_json, print_line
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.client import Credentials
    from gapless.io.changelog_files import ChangelogFile
    from gapless.protocol.frame import Frame
    from gapless.protocol.schema import StreamSchema

TOKEN_VARIABLE = "GAPLESS_TOKEN"  # the name of a variable
"""Where the token is, so that it stands in no list of processes."""
FLUSH_S = 60.0
"""How long the sidecars may take to have all."""

Sidecars = Annotated[
    str,
    typer.Option("--sidecar", metavar="HOST:PORT", help="Several with commas between them."),
]
Ca = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Who signs the sidecar's certificate: TLS.")
]


class ChangelogForm(StrEnum):
    """What `--changelog` takes."""

    FLINK = "flink"
    DEBEZIUM = "debezium"
    PLUS_MINUS = "plus-minus"
    OPEN_CLOSE = "open-close"


def push(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A recorded stream (Arrow, envelopes); with --schema text, or - for standard "
            "input; with --changelog .jsonl, .csv, .parquet, .arrow or -.",
        ),
    ],
    stream: Annotated[str, typer.Option(metavar="NAME", help="To which stream.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Whose copy it is.")],
    sidecar: Sidecars = "127.0.0.1:7070",
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="As src:string,len:int32: each line has elements such as ins((A,7),6,20). "
            "Of a changelog: the columns of its rows.",
        ),
    ] = None,
    key: Annotated[
        bool, typer.Option("--key", help="At no time two events with one start and payload.")
    ] = False,
    insert_only: Annotated[
        bool, typer.Option("--insert-only", help="No event is ever adjusted.")
    ] = False,
    changelog: Annotated[
        ChangelogForm | None,
        typer.Option(help="FILE is a changelog: rows that come and go."),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="A,B", help="Changelog: the columns by which rows are known.")
    ] = "",
    op: Annotated[
        str, typer.Option(metavar="COLUMN", help="Changelog: the column of kinds.")
    ] = "op",
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Changelog: when it happened; ts, of Debezium ts_ms."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Changelog: the ends, where it has whole lifetimes."),
    ] = None,
    lateness: Annotated[
        int, typer.Option(metavar="N", help="Changelog: how late changes may be, in its times.")
    ] = 0,
    ignore_absent: Annotated[
        bool,
        typer.Option("--ignore-absent", help="Changelog: deletes of unknown keys say nothing."),
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Changelog: jsonl, csv, parquet or arrow."),
    ] = None,
    end: End = False,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Push one copy of a stream, or of a changelog, to a sidecar.

    It leaves once all is durable there. A changelog's watermark is its largest time so far, less
    the lateness. A token, where one is asked for, is read from GAPLESS_TOKEN.
    """
    from gapless.client import Credentials
    from gapless.commands.merge import parse_schema

    shown = Credentials(token=os.environ.get(TOKEN_VARIABLE), ca=ca)
    target = Target(sidecar, stream, name, key, insert_only, end, shown)
    if changelog is not None:
        from gapless.io.changelog_files import ChangelogFile, Form
        from gapless.io.ingest_input import StopSignals

        columns = tuple(c.strip() for c in by.split(",") if c.strip())
        form = Form(changelog.value, columns, op, time, until, lateness, ignore_absent)
        with StopSignals() as stop:
            parsed = None if schema is None else parse_schema(schema)
            log = ChangelogFile(str(file), form, stop, schema=parsed, format_=format_)
            frames, rows = _push(target, log.schema, _shown(log, file.name))
            interrupted = stop.is_set()
        _tell(target, frames, rows, as_json=as_json, changes=log.changes)
        if interrupted and str(file) != "-":
            raise typer.Exit(ExitCode.PROBLEM)
        return
    if by or time or until or lateness or ignore_absent or format_ or op != "op":
        raise Misuse("--by, --op, --time, --until, --lateness and --format are of a --changelog")
    if schema is None:
        made, frames_of_file = _recorded(file)
    else:
        made = parse_schema(schema)
        frames_of_file = _text(file, made)
    pushed, rows = _push(target, made, frames_of_file)
    _tell(target, pushed, rows, as_json=as_json)


@dataclass(frozen=True)
class Target:
    """Where it goes, and as what."""

    sidecar: str
    stream: str
    name: str
    key: bool
    insert_only: bool
    end: bool
    shown: Credentials


def _push(target: Target, schema: StreamSchema, frames: Iterable[Frame]) -> tuple[int, int]:
    """Pushes all; how many frames and rows that were."""
    from gapless.client import Producer
    from gapless.protocol.elements import INF

    pushed = rows = 0
    with Producer(
        target.sidecar,
        target.stream,
        target.name,
        schema,
        key=target.key,
        insert_only=target.insert_only,
        credentials=target.shown,
    ) as producer:
        for frame in frames:
            producer.push(frame)
            rows, pushed = rows + len(frame), pushed + 1
        if target.end:
            producer.stable(INF)
        if not producer.flush(FLUSH_S):
            raise Misuse(
                f"{target.sidecar} has not taken in all within {FLUSH_S:g} s: does it run?"
            )
    return pushed, rows


def _tell(
    target: Target, frames: int, rows: int, *, as_json: bool, changes: int | None = None
) -> None:
    if as_json:
        document = {"stream": target.stream, "producer": target.name, "frames": frames}
        more = {} if changes is None else {"changes": changes}
        print_json({**document, "rows": rows, **more})
        return
    read = "" if changes is None else f"{changes:,} changes: "
    print_line(f"{read}{frames:,} frames, {rows:,} rows pushed to {target.stream} as {target.name}")


def _shown(log: ChangelogFile, name: str) -> Iterator[Frame]:
    """The frames of a changelog, and how far it is, if a person watches."""
    with percent_bar(f"push {name}") as show:
        for frame in log.frames():
            yield frame
            show(log.share_read)


def _recorded(file: Path) -> tuple[StreamSchema, Iterator[Frame]]:
    from gapless.commands.recorded import Recording

    recording = Recording(file, hint="text? give --schema; rows that come and go? --changelog")

    def frames() -> Iterator[Frame]:
        with percent_bar(f"push {file.name}") as show:
            for frame in recording.frames():
                yield frame
                show(recording.bytes_read / max(1, recording.bytes_total))

    return recording.schema, frames()


def _text(file: Path, schema: StreamSchema) -> Iterator[Frame]:
    """Frames of the elements of each line, as they come."""
    from gapless.protocol.frame import frames_of
    from gapless.protocol.text import parse

    try:
        lines = sys.stdin if str(file) == "-" else file.open()
        for line in lines:
            yield from frames_of(schema, parse(line, schema))
    except (OSError, UnicodeError) as e:
        raise Misuse(f"{file}: cannot be read: {e}") from None
