"""`gapless journal trim`: removes old rows that nobody needs, and readers that are gone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.journal_options import JournalPath, opened, time_of
from gapless.commands.option_groups import grouped
from gapless.commands.options import size_of
from gapless.commands.terminal import AsJson, print_json

if TYPE_CHECKING:
    from gapless.journal.layout import Layout
    from gapless.journal.readers import Registered
    from gapless.journal.retention import Plan, Retention


@dataclass(frozen=True, kw_only=True)
class TrimRules:
    """What is removed: segments that a rule selects, and readers that are forgotten."""

    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Remove segments whose rows are all before this time."),
    ] = None
    keep_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Remove the oldest segments, down to this size: 500MB, 10GB."
        ),
    ] = None
    read: Annotated[
        bool, typer.Option("--read", help="Remove what all registered readers have read.")
    ] = False
    forget: Annotated[
        list[str] | None,
        typer.Option(metavar="READER", help="Unregister this reader; may be repeated."),
    ] = None
    forget_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Unregister readers that have not registered for this long: 7d."
        ),
    ] = None

    def check(self) -> None:
        """Raises `Misuse` where there is no rule."""
        from gapless.protocol.errors import Misuse

        if not any(vars(self).values()):
            raise Misuse("give a rule: --before, --keep-bytes, --read, --forget or --forget-after")

    def retention(self, layout: Layout) -> Retention:
        """What selects segments."""
        from gapless.journal.retention import Retention

        return Retention(
            None if self.before is None else time_of("--before", self.before, layout),
            None if self.keep_bytes is None else size_of("--keep-bytes", self.keep_bytes),
            self.read,
        )

    def forgotten(self, readers: list[Registered], now_ms: int) -> set[str]:
        """The readers to forget: those named, and those not heard of for that long."""
        from gapless.protocol.errors import Misuse

        named = self.forget or []
        there = [reader.name for reader in readers]
        unknown = [name for name in named if name not in there]
        if unknown:
            raise Misuse(f"--forget {unknown[0]}: registered are {', '.join(there) or 'none'}")
        return {*named, *_silent(readers, self.forget_after, now_ms)}


@grouped
def trim(
    *,
    path: JournalPath,
    rules: TrimRules,
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

    rules.check()
    disk, layout = opened(path)
    rule = rules.retention(layout)
    now_ms = time.time_ns() // 1_000_000
    forgotten = rules.forgotten(registered(disk), now_ms)
    commits = Commits(disk, layout)
    if dry_run:
        made = retention.plan(commits, rule, forgotten)
    else:
        made = retention.trim(commits, rule, token=uuid4().hex, now_ms=now_ms, forget=forgotten)
        for name in forgotten:
            unregister(disk, name)
    if as_json:
        print_json(_document(path, made, forgotten, dry_run))
    else:
        _print(path, made, forgotten, dry_run)


def _silent(readers: list[Registered], after: str | None, now_ms: int) -> set[str]:
    """Those not heard of for so long; of one whose file does not read nobody knows that."""
    from gapless.engine.durations import ticks

    if after is None:
        return set()
    least_ms = now_ms - ticks(after, "ms", "--forget-after")
    return {r.name for r in readers if r.position is not None and r.at_ms < least_ms}


def _document(path: Path, made: Plan, forgotten: set[str], dry_run: bool) -> dict[str, Any]:
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


def _print(path: Path, made: Plan, forgotten: set[str], dry_run: bool) -> None:
    for name in sorted(forgotten):
        typer.echo(f"reader {name} {'would be' if dry_run else 'is'} forgotten")
    for why in made.stays:
        typer.echo(f"stays: {why}")
    typer.echo(
        f"{path}: {made.rows:,} rows in {len(made.segments):,} segments "
        f"{'would go' if dry_run else 'went'}, {made.bytes:,} bytes; {made.kept_bytes:,} bytes stay"
    )
