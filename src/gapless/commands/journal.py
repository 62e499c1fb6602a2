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

from gapless.commands.options import size_of
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
    from gapless.journal.layout import Layout
    from gapless.journal.readers import Registered
    from gapless.journal.retention import Plan
    from gapless.journal.walk import Finding

journal = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FINDINGS_SHOWN_MAX = 100
"""For people, of each severity: what is seen at a glance."""
FINDINGS_KEPT_MAX = 1_000
"""With --json, of each severity: one document has them, which is in memory until all is read."""


@journal.callback()
def group() -> None:
    """Inspect a journal, verify it, export rows, trim it."""


JournalPath = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's directory.")]
SinceText = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="A time such as 2024-05-01T12:30, or a count of the journal's time unit.",
    ),
]


def _opened(path: Path) -> tuple[LocalDisk, Layout]:
    from gapless.journal.disk import LocalDisk
    from gapless.journal.layout import opened

    disk = LocalDisk(path)
    return disk, opened(disk)


# -- show -----------------------------------------------------------------------------------------


@journal.command()
def show(path: JournalPath, as_json: AsJson = False) -> None:
    """Show what is in a journal: rows, times, segments, readers.

    Reads its commits and its live segment only.
    """
    from gapless.commands.journaling import described, shown

    document = described(*_opened(path))
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

    disk, layout = _opened(path)
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
            since=None if since is None else _time("--since", since, layout),
            until=None if until is None else _time("--until", until, layout),
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


def _time(option: str, text: str, layout: Layout) -> int:
    from gapless.engine.answer import instant
    from gapless.protocol.errors import Misuse

    digits = text.removeprefix("-")
    given: Any = int(text) if digits.isascii() and digits.isdecimal() else text
    try:
        return instant(given, layout.schema.time_unit)
    except Misuse as e:
        raise Misuse(f"{option}: {e}") from None


# -- trim -----------------------------------------------------------------------------------------


@journal.command()
def trim(
    path: JournalPath,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Remove segments whose rows are all before this time."),
    ] = None,
    keep_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Remove the oldest segments, down to this size: 500MB, 10GB."
        ),
    ] = None,
    read: Annotated[
        bool, typer.Option("--read", help="Remove what all registered readers have read.")
    ] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(metavar="READER", help="Unregister this reader; may be repeated."),
    ] = None,
    forget_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Unregister readers that have not registered for this long: 7d."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print what would be removed, and why the rest stays."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old rows of a journal that nobody needs.

    Removes whole segments, oldest first, but never what a registered reader has not read, nor
    anything of an output journal after its last base. May run beside a writer and readers. A
    segment is removed if any of --before, --keep-bytes and --read selects it. --forget and
    --forget-after alone remove no rows.
    """
    from uuid import uuid4

    from gapless.journal import retention
    from gapless.journal.commit import Commits
    from gapless.journal.readers import registered, unregister
    from gapless.protocol.errors import Misuse

    if not (before or keep_bytes or read or forget or forget_after):
        raise Misuse("give a rule: --before, --keep-bytes, --read, --forget or --forget-after")
    disk, layout = _opened(path)
    rule = retention.Retention(
        None if before is None else _time("--before", before, layout),
        None if keep_bytes is None else size_of("--keep-bytes", keep_bytes),
        read,
    )
    now_ms = time.time_ns() // 1_000_000
    forgotten = _forgotten(registered(disk), forget or [], forget_after, now_ms)
    commits = Commits(disk, layout)
    if dry_run:
        made = retention.plan(commits, rule, forgotten)
    else:
        made = retention.trim(commits, rule, token=uuid4().hex, now_ms=now_ms, forget=forgotten)
        for name in forgotten:
            unregister(disk, name)
    if as_json:
        print_json(_trim_document(path, made, forgotten, dry_run))
    else:
        _print_trim(path, made, forgotten, dry_run)


def _forgotten(
    readers: list[Registered], named: list[str], after: str | None, now_ms: int
) -> set[str]:
    """The readers to forget: those named, and those not heard of for that long."""
    from gapless.protocol.errors import Misuse

    there = [reader.name for reader in readers]
    unknown = [name for name in named if name not in there]
    if unknown:
        raise Misuse(f"--forget {unknown[0]}: registered are {', '.join(there) or 'none'}")
    return {*named, *_silent(readers, after, now_ms)}


def _trim_document(path: Path, made: Plan, forgotten: set[str], dry_run: bool) -> dict[str, Any]:
    return {
        "journal": str(path),
        "dry_run": dry_run,
        "rows": made.rows,
        "segments": len(made.segments),
        "bytes": made.bytes,
        "kept_bytes": made.kept_bytes,
        "first": list(made.first),
        "forgotten": sorted(forgotten),
        "stays": list(made.stays),
    }


def _print_trim(path: Path, made: Plan, forgotten: set[str], dry_run: bool) -> None:
    for name in sorted(forgotten):
        typer.echo(f"reader {name} {'would be' if dry_run else 'is'} forgotten")
    for why in made.stays:
        typer.echo(f"stays: {why}")
    typer.echo(
        f"{path}: {made.rows:,} rows in {len(made.segments):,} segments "
        f"{'would go' if dry_run else 'went'}, {made.bytes:,} bytes; {made.kept_bytes:,} bytes stay"
    )


def _silent(readers: list[Registered], after: str | None, now_ms: int) -> set[str]:
    """Those not heard of for so long; of one whose file does not read nobody knows that."""
    from gapless.engine.durations import ticks

    if after is None:
        return set()
    least_ms = now_ms - ticks(after, "ms", "--forget-after")
    return {r.name for r in readers if r.position is not None and r.at_ms < least_ms}
