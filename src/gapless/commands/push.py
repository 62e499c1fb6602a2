"""`gapless push`: pushes a recorded stream, lines of text notation, or a changelog to a sidecar as
one copy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.options import End, names_in, parse_schema
from gapless.commands.sidecar_client_options import TOKEN_VARIABLE, Ca, ChangelogForm, Sidecars
from gapless.commands.terminal import AsJson, ExitCode, percent_bar, print_json, print_line
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.client import Credentials
    from gapless.io.changelog_files import ChangelogFile, Form
    from gapless.protocol.frame import Frame
    from gapless.protocol.schema import StreamSchema

FLUSH_S = 60.0
"""How long to wait until the sidecars have everything."""


@dataclass(frozen=True, kw_only=True)
class ChangelogOptions:
    """How a changelog is written."""

    changelog: Annotated[
        ChangelogForm | None,
        typer.Option(help="FILE is a changelog of this kind."),
    ] = None
    by: Annotated[str, typer.Option(metavar="A,B", help="Changelog: the key columns.")] = ""
    op: Annotated[
        str, typer.Option(metavar="COLUMN", help="Changelog: the column with the kind of change.")
    ] = "op"
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help=(
                "Changelog: the column with the time of the change. Default: ts, for Debezium"
                " ts_ms."
            ),
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Changelog: the column with ends, if it has whole lifetimes."
        ),
    ] = None
    lateness: Annotated[
        int,
        typer.Option(
            metavar="N", help=("Changelog: how late changes may be, in the unit of its times.")
        ),
    ] = 0
    ignore_absent: Annotated[
        bool,
        typer.Option("--ignore-absent", help="Changelog: ignore deletes of unknown keys."),
    ] = False
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Changelog: jsonl, csv, parquet or arrow."),
    ] = None

    def form(self) -> Form | None:
        """The same, as a reader takes it; None where the input is no changelog. Raises `Misuse`
        where options do not go together.
        """
        if self.changelog is None:
            said = (self.by, self.time, self.until, self.lateness, self.ignore_absent, self.format_)
            if any(said) or self.op != "op":
                raise Misuse(
                    "--by, --op, --time, --until, --lateness and --format need --changelog"
                )
            return None
        from gapless.io.changelog_files import Form

        return Form(
            self.changelog.value,
            names_in(self.by),
            self.op,
            self.time,
            self.until,
            self.lateness,
            self.ignore_absent,
        )


@grouped
def push(
    *,
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
    log: ChangelogOptions,
    end: End = False,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Push one copy of a stream or changelog to a sidecar.

    Returns once everything is durable there. A changelog's watermark is its largest time so far
    minus the lateness. If the sidecar requires a token, it is read from GAPLESS_TOKEN.
    """
    from gapless.client import Credentials

    shown = Credentials(token=os.environ.get(TOKEN_VARIABLE), ca=ca)
    target = Target(sidecar, stream, name, key, insert_only, end, shown)
    form = log.form()
    columns = None if schema is None else parse_schema(schema)
    if form is not None:
        _push_changelog(target, file, form, columns, log.format_, as_json=as_json)
        return
    if columns is None:
        columns, frames = _recorded(file)
    else:
        frames = _text(file, columns)
    pushed, rows = _push(target, columns, frames)
    _tell(target, pushed, rows, as_json=as_json)


def _push_changelog(
    target: Target,
    file: Path,
    form: Form,
    schema: StreamSchema | None,
    format_: str | None,
    *,
    as_json: bool,
) -> None:
    """Pushes a changelog, until it ends or a signal comes; exits with 1 if a file was cut short."""
    from gapless.io.changelog_files import ChangelogFile
    from gapless.io.stop_signals import StopSignals

    with StopSignals() as stop:
        log = ChangelogFile(str(file), form, stop, schema=schema, format_=format_)
        frames, rows = _push(target, log.schema, _shown(log, file.name))
        interrupted = stop.is_set()
    _tell(target, frames, rows, as_json=as_json, changes=log.changes)
    if interrupted and str(file) != "-":
        raise typer.Exit(ExitCode.PROBLEM)


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
    from gapless.commands.recorded import RecordedStream

    recording = RecordedStream(
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
