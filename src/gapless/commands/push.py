"""`gapless push`: pushes a recorded stream, lines of text notation, or a changelog to a sidecar as
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
"""The token is read from the environment, so that no list of processes shows it."""
FLUSH_S = 60.0
"""How long to wait until the sidecars have everything."""

Sidecars = Annotated[
    str,
    typer.Option(
        "--sidecar", metavar="HOST:PORT", help="One sidecar, or several separated by commas."
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CA that signs the sidecar's certificate; turns on TLS."),
]


class ChangelogForm(StrEnum):
    """Values of `--changelog`."""

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
    stream: Annotated[str, typer.Option(metavar="NAME", help="The stream.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of this producer.")],
    sidecar: Sidecars = "127.0.0.1:7070",
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help=(
                "Columns, such as src:string,len:int32, of text lines with elements like "
                "ins((A,7),6,20), or of a changelog's rows."
            ),
        ),
    ] = None,
    key: Annotated[
        bool,
        typer.Option(
            "--key", help=("Promise: no two events with the same start and payload at one time.")
        ),
    ] = False,
    insert_only: Annotated[
        bool, typer.Option("--insert-only", help="Promise: no event is ever adjusted.")
    ] = False,
    changelog: Annotated[
        ChangelogForm | None,
        typer.Option(help="FILE is a changelog of this kind."),
    ] = None,
    by: Annotated[str, typer.Option(metavar="A,B", help="Changelog: the key columns.")] = "",
    op: Annotated[
        str, typer.Option(metavar="COLUMN", help="Changelog: the column with the kind of change.")
    ] = "op",
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help=(
                "Changelog: the column with the time of the change. Default: ts, for Debezium"
                " ts_ms."
            ),
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Changelog: the column with ends, if it has whole lifetimes."
        ),
    ] = None,
    lateness: Annotated[
        int,
        typer.Option(
            metavar="N", help=("Changelog: how late changes may be, in the unit of its times.")
        ),
    ] = 0,
    ignore_absent: Annotated[
        bool,
        typer.Option("--ignore-absent", help="Changelog: ignore deletes of unknown keys."),
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Changelog: jsonl, csv, parquet or arrow."),
    ] = None,
    end: End = False,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Push one copy of a stream or changelog to a sidecar.

    Returns once everything is durable there. A changelog's watermark is its largest time so far
    minus the lateness. If the sidecar requires a token, it is read from GAPLESS_TOKEN.
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
        raise Misuse("--by, --op, --time, --until, --lateness and --format need --changelog")
    if schema is None:
        made, frames_of_file = _recorded(file)
    else:
        made = parse_schema(schema)
        frames_of_file = _text(file, made)
    pushed, rows = _push(target, made, frames_of_file)
    _tell(target, pushed, rows, as_json=as_json)


@dataclass(frozen=True)
class Target:
    """The sidecar, the stream and the name of the producer."""

    sidecar: str
    stream: str
    name: str
    key: bool
    insert_only: bool
    end: bool
    shown: Credentials


def _push(target: Target, schema: StreamSchema, frames: Iterable[Frame]) -> tuple[int, int]:
    """Pushes everything; returns how many frames and rows."""
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
                f"{target.sidecar} did not accept everything within {FLUSH_S:g} s: does it run?"
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
    """The frames of a changelog, with progress on a terminal."""
    with percent_bar(f"push {name}") as show:
        for frame in log.frames():
            yield frame
            show(log.share_read)


def _recorded(file: Path) -> tuple[StreamSchema, Iterator[Frame]]:
    from gapless.commands.recorded import Recording

    recording = Recording(
        file, hint=("if it is text, add --schema; if it is a changelog, add --changelog")
    )

    def frames() -> Iterator[Frame]:
        with percent_bar(f"push {file.name}") as show:
            for frame in recording.frames():
                yield frame
                show(recording.bytes_read / max(1, recording.bytes_total))

    return recording.schema, frames()


def _text(file: Path, schema: StreamSchema) -> Iterator[Frame]:
    """A frame of the elements of each line, in order."""
    from gapless.protocol.frame import frames_of
    from gapless.protocol.text import parse

    try:
        lines = sys.stdin if str(file) == "-" else file.open()
        for line in lines:
            yield from frames_of(schema, parse(line, schema))
    except (OSError, UnicodeError) as e:
        raise Misuse(f"{file}: cannot be read: {e}") from None
