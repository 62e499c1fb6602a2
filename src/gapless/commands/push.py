"""`gapless push`: a recorded stream, or lines of text notation, pushed to a sidecar as one copy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.terminal import AsJson, percent_bar, print_json, print_line
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
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


def push(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A recorded stream (Arrow, envelopes); with --schema text; or -."
        ),
    ],
    stream: Annotated[str, typer.Option(metavar="NAME", help="To which stream.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Whose copy it is.")],
    sidecar: Sidecars = "127.0.0.1:7070",
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="As src:string,len:int32: each line has elements such as ins((A,7),6,20).",
        ),
    ] = None,
    key: Annotated[
        bool, typer.Option("--key", help="At no time two events with one start and payload.")
    ] = False,
    insert_only: Annotated[
        bool, typer.Option("--insert-only", help="No event is ever adjusted.")
    ] = False,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Push one copy of a recorded stream to a sidecar.

    It leaves once all is durable there.
    A token, where one is asked for, is read from GAPLESS_TOKEN.
    """
    from gapless.client import Credentials, Producer
    from gapless.commands.merge import parse_schema

    if schema is None:
        made, frames = _recorded(file)
    else:
        made = parse_schema(schema)
        frames = _text(file, made)
    rows = pushed = 0
    shown = Credentials(token=os.environ.get(TOKEN_VARIABLE), ca=ca)
    with Producer(
        sidecar, stream, name, made, key=key, insert_only=insert_only, credentials=shown
    ) as producer:
        for frame in frames:
            producer.push(frame)
            rows, pushed = rows + len(frame), pushed + 1
        if not producer.flush(FLUSH_S):
            raise Misuse(f"{sidecar} has not taken in all within {FLUSH_S:g} s: does it run?")
    if as_json:
        print_json({"stream": stream, "producer": name, "frames": pushed, "rows": rows})
    else:
        print_line(f"{pushed:,} frames, {rows:,} rows pushed to {stream} as {name}")


def _recorded(file: Path) -> tuple[StreamSchema, Iterator[Frame]]:
    from gapless.commands.recorded import Recording

    recording = Recording(file)

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
