"""`gapless journal`: show, verify, export and trim a journal."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.journal_options import JournalPath, opened, time_of
from gapless.commands.journal_trim import trim
from gapless.commands.terminal import (
    AsJson,
    ExitCode,
    output,
    percent_bar,
    print_json,
    print_line,
    spinner,
)

if TYPE_CHECKING:
    from gapless.io.event_files import Destination
    from gapless.io.journal_export import Rows
    from gapless.journal.disk import LocalDisk
    from gapless.journal.walk import Finding

journal = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FINDINGS_SHOWN_MAX = 100
"""For people, of each severity: what is seen at a glance."""
FINDINGS_KEPT_MAX = 1_000
"""With --json, of each severity: one document has them, which is in memory until all is read."""


@journal.callback()
def group() -> None:
    """Inspect a journal, verify it, export rows, trim it."""


SinceText = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="A time such as 2024-05-01T12:30, or a count of the journal's time unit.",
    ),
]


# -- show -----------------------------------------------------------------------------------------


@journal.command()
def show(path: JournalPath, as_json: AsJson = False) -> None:
    """Show what is in a journal: rows, times, segments, readers.

    Reads its commits and its live segment only.
    """
    from gapless.commands.journal_view import described, shown

    document = described(*opened(path))
    if as_json:
        print_json(document)
    else:
        console = output()
        for part in shown(document):
            console.print(part, soft_wrap=isinstance(part, str), markup=False)


# -- verify ---------------------------------------------------------------------------------------


@journal.command()
def verify(path: JournalPath, as_json: AsJson = False) -> None:
    """Check every byte of a journal, and report damage.

    Changes nothing, and may run beside writers, readers and trims. Exits with 1 if anything is
    damaged or wrong. Notes report harmless leftovers and unfinished files.
    """
    from gapless.journal.verify import Verifier

    disk, began, found = _disk_of(path), time.perf_counter(), _Found(as_json)
    with percent_bar(f"verifying {path}") as show:
        verifier = Verifier(disk, lambda done, total: show(done / max(total, 1)))
        for finding in verifier.findings():
            found.take(finding)
    document = {
        "journal": str(path),
        "segments": verifier.segments,
        "rows": verifier.rows,
        "bytes": verifier.bytes,
        "seconds": round(time.perf_counter() - began, 3),
        "findings": found.kept,
        "more_findings": found.more,
    }
    if as_json:
        print_json(document)
    else:
        for severity, count in found.more.items():
            typer.echo(f"{severity:<8} and {count:,} more: see --json")
        verdict = f"{found.bad:,} findings" if found.bad else "all is well"
        typer.echo(
            f"{path}: {verdict}; {verifier.segments:,} segments, {verifier.rows:,} rows, "
            f"{verifier.bytes:,} bytes, {document['seconds']:.2f} s"
        )
    raise typer.Exit(ExitCode.PROBLEM if found.bad else ExitCode.DONE)


def _disk_of(path: Path) -> LocalDisk:
    from gapless.journal.disk import LocalDisk

    return LocalDisk(path)


class _Found:
    """Findings as they come: the first of each severity are printed or kept, the rest counted."""

    def __init__(self, as_json: bool) -> None:
        self._max = FINDINGS_KEPT_MAX if as_json else FINDINGS_SHOWN_MAX
        self._as_json = as_json
        self._counts: Counter[str] = Counter()
        self.kept: list[dict[str, Any]] = []

    def take(self, finding: Finding) -> None:
        self._counts[finding.severity] += 1
        if self._counts[finding.severity] > self._max:
            return
        if self._as_json:
            self.kept.append(finding._asdict())
            return
        at = "" if finding.at is None else f" at byte {finding.at}"
        advice = f"; {finding.advice}" if finding.advice else ""
        print_line(f"{finding.severity:<8} {finding.file}{at}: {finding.what}{advice}")

    @property
    def more(self) -> dict[str, int]:
        """By severity: those that were only counted."""
        return {each: n - self._max for each, n in self._counts.items() if n > self._max}

    @property
    def bad(self) -> int:
        """Those that are no notes."""
        return self._counts.total() - self._counts["note"]


# -- export ---------------------------------------------------------------------------------------


@journal.command()
def export(
    path: JournalPath,
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="A file: .parquet, .csv, .jsonl, .arrow; or -.")
    ],
    partitions: Annotated[
        str | None, typer.Option(metavar="0,3", help="Only these. Default: all.")
    ] = None,
    since: SinceText = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only rows before this time; written like --since."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these. Default: all.")
    ] = None,
    rejects: Annotated[
        bool, typer.Option("--rejects", help="Export the rejected rows, with reasons, instead.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Export rows of a journal to a file of another format.

    In a journal of frames each element is a row with its times; stables are omitted. The file gets
    its name once it is complete.
    """
    from gapless.io.event_files import Destination
    from gapless.io.journal_export import exported, rejected_rows
    from gapless.protocol.errors import Misuse

    disk, layout = opened(path)
    destination = Destination(out, overwrite=overwrite)
    if destination.is_folder:
        raise Misuse(f"{out!r}: name a file that ends in .parquet, .csv, .jsonl or .arrow")
    if destination.is_stdout and as_json:
        raise Misuse("--json prints to standard output, where the rows go: name a file for them")
    began = time.perf_counter()
    if rejects:
        if any(given is not None for given in (partitions, since, until, columns)):
            raise Misuse("--rejects exports all rejected rows: they have no partition and no time")
        rows = rejected_rows(disk, as_json=destination.format == "jsonl")
    else:
        rows = exported(
            disk,
            partitions=None if partitions is None else _numbers("--partitions", partitions),
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            since=None if since is None else time_of("--since", since, layout),
            until=None if until is None else time_of("--until", until, layout),
        )
    try:
        count = _write(path, rows, destination)
    except BrokenPipeError:  # who reads our output, as `head` does, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    _print_export(path, out, destination, count, time.perf_counter() - began, as_json)


def _write(path: Path, rows: Rows, destination: Destination) -> int:
    """Writes them, and says how far it is; how many there were."""
    from gapless.io.journal_export import ROWS_MAX

    count = 0
    with spinner(f"exporting {path}") as say, destination, closing(rows.batches):
        for written in destination.write("out", rows.batches, rows.schema, ROWS_MAX):
            count += written
            say(f"exporting {path}: {count:,} rows")
    return count


def _print_export(
    path: Path, out: str, destination: Destination, rows: int, seconds: float, as_json: bool
) -> None:
    size = destination.files[0].bytes
    if as_json:
        print_json(
            {
                "journal": str(path),
                "path": out,
                "rows": rows,
                "bytes": size,
                "seconds": round(seconds, 3),
            }
        )
    else:
        text = f"{out}: {rows:,} rows, {size:,} bytes, {seconds:.2f} s"
        typer.echo(text, err=destination.is_stdout)


def _numbers(option: str, text: str) -> list[int]:
    from gapless.protocol.errors import Misuse

    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise Misuse(f"{option} {text[:50]!r}: write numbers as 0,3") from None


journal.command()(trim)
