"""`gapless tail`: prints a sidecar's stream."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.options import names_in
from gapless.commands.sidecar_client_options import TOKEN_VARIABLE, Ca, ChangelogForm, Sidecars
from gapless.commands.terminal import AsJson, output, print_json, print_line
from gapless.protocol.errors import JobError, Misuse

if TYPE_CHECKING:
    from gapless.client import Consumer, Credentials
    from gapless.commands.changelog_lines import ChangeLines

ROWS_SHOWN_MAX = 1_000
"""Rows of a table shown without --json."""


@dataclass(frozen=True, kw_only=True)
class ChangelogOptions:
    """How the stream is printed as a changelog."""

    changelog: Annotated[
        ChangelogForm | None,
        typer.Option(help=("Print a changelog: each change once, in order, when it is final.")),
    ] = None
    by: Annotated[
        str,
        typer.Option(
            metavar="A,B", help=("Changelog: key columns, so that updates are printed as updates.")
        ),
    ] = ""
    eager: Annotated[
        bool,
        typer.Option("--eager", help="Changelog: print whole lifetimes at once, and revise them."),
    ] = False

    def check(self, *, table: bool, final: bool) -> None:
        """Raises `Misuse` where options do not go together."""
        if self.changelog is None and (self.by or self.eager):
            raise Misuse("--by and --eager need --changelog")
        if self.changelog is not None and (table or final):
            raise Misuse("--changelog prints every change: leave out --table and --final")

    def lines(self, *, as_json: bool) -> ChangeLines | None:
        """What makes lines of frames; None where no changelog is wanted."""
        from gapless.commands.changelog_lines import ChangeLines

        if self.changelog is None:
            return None
        key = names_in(self.by)
        return ChangeLines(self.changelog.value, key, eager=self.eager, as_json=as_json)


@grouped
def tail(
    *,
    stream: Annotated[str, typer.Argument(metavar="STREAM")],
    sidecar: Sidecars = "127.0.0.1:7070",
    table: Annotated[
        bool, typer.Option("--table", help="Print the current table, and exit.")
    ] = False,
    final: Annotated[
        bool, typer.Option("--final", help="Print each event once, when it can no longer change.")
    ] = False,
    start: Annotated[
        str,
        typer.Option(metavar="WHERE", help="Where to start: now, earliest, a time, or a token."),
    ] = "now",
    columns: Annotated[
        str, typer.Option(metavar="A,B", help="Payload columns. Default: all.")
    ] = "",
    where: Annotated[
        str, typer.Option(metavar="FILTER", help='Such as: n > 100 and src in ("A", "B")')
    ] = "",
    frames: Annotated[
        int, typer.Option(metavar="N", min=0, help="Exit after this many frames; 0: never.")
    ] = 0,
    log: ChangelogOptions,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print a sidecar's stream, or its current table.

    Prints a line for each insert, adjust and stable as it becomes durable; with --changelog, for
    each change, and with --json in the form that push --changelog reads. If the sidecar requires a
    token, it is read from GAPLESS_TOKEN. Several sidecars are merged.
    """
    from gapless.client import Consumer, Credentials

    shown = Credentials(token=os.environ.get(TOKEN_VARIABLE), ca=ca)
    chosen = list(names_in(columns))
    log.check(table=table, final=final)
    if table:
        _print_table(stream, sidecar, chosen, where, shown, as_json=as_json)
        return
    lines = log.lines(as_json=as_json)
    with Consumer(
        sidecar,
        stream,
        deliver="final" if final else "changes",
        start=int(start) if start.lstrip("-").isdecimal() else start,
        columns=chosen,
        filter=where,
        name="tail",
        credentials=shown,
    ) as consumer:
        if lines is None:
            _print_frames(consumer, frames, as_json=as_json)
            return
        _print_changes(consumer, lines, frames, as_json=as_json)


def _print_changes(
    consumer: Consumer, lines: ChangeLines, frames_max: int, *, as_json: bool
) -> None:
    from gapless.protocol.elements import format_time

    for number, frame in enumerate(consumer, 1):
        if consumer.is_reset:
            if as_json and number > 1:
                raise JobError(
                    f"the stream was reset from {format_time(consumer.since)} on, which a "
                    "changelog cannot express: start over with an empty table"
                )
            lines.reset()
            if not as_json:
                print_line(f"-- the table since {format_time(consumer.since)}:")
        for line in lines.of(frame):
            print_line(line)
        if number == frames_max:
            return


def _print_frames(consumer: Consumer, frames_max: int, *, as_json: bool) -> None:
    from gapless.protocol.elements import format_time
    from gapless.protocol.text import format_element

    for number, frame in enumerate(consumer, 1):
        elements = [format_element(e) for e in frame.elements()]
        if as_json:
            print_json(
                {
                    "reset": consumer.is_reset,
                    "since": format_time(consumer.since),
                    "elements": elements,
                    "token": consumer.token,
                }
            )
        else:
            if consumer.is_reset:
                print_line(f"-- the table since {format_time(consumer.since)}:")
            for element in elements:
                print_line(element)
        if number == frames_max:
            return


def _print_table(
    stream: str,
    sidecar: str,
    columns: list[str],
    where: str,
    shown: Credentials,
    *,
    as_json: bool,
) -> None:
    from rich.table import Table

    from gapless.client import table
    from gapless.protocol.errors import GaplessError

    addresses = [address for address in sidecar.split(",") if address.strip()]
    if not addresses:
        raise Misuse("--sidecar: HOST:PORT")
    answer: Any = None
    for i, address in enumerate(addresses):
        with suppress(*(() if i == len(addresses) - 1 else (GaplessError,))):
            answer = table(address, stream, columns=columns, filter=where, credentials=shown)
            break
    if as_json:
        print_json([{k: str(v) for k, v in row.items()} for row in answer.to_pylist()])
        return
    grid = Table(*answer.schema.names, box=None)
    for row in answer.slice(0, ROWS_SHOWN_MAX).to_pylist():
        grid.add_row(*map(str, row.values()))
    output().print(grid)
    if answer.num_rows > ROWS_SHOWN_MAX:
        print_line(f"... and {answer.num_rows - ROWS_SHOWN_MAX:,} rows more: --json has them all")
