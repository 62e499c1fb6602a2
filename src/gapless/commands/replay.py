"""`gapless chaos replay`: a flight record, replayed on the machine that it is of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.terminal import AsJson, ExitCode, print_json

if TYPE_CHECKING:
    from gapless.failover.recorder.record import Functions, Record
    from gapless.failover.recorder.replay import Step

LAST = 10
"""Steps that are shown without being asked for more."""


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A flight record: a file of JOB/records/.")
    ],
    job: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The job's directory, where its query has functions of your own; by default that "
            "in which FILE lies. They run here.",
        ),
    ] = None,
    last: Annotated[
        int, typer.Option(min=0, help="Show so many of the last steps; 0: all of them.")
    ] = LAST,
    events: Annotated[
        bool, typer.Option("--events", help="Show what the machine was given, and replay nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a flight record, step by step.

    A job or a sidecar writes one to records/ in its directory when a life or a stream breaks down
    or raises an alarm, and `gapless status JOB --record DIR` when you ask. The machine gets the
    same events again, without a cluster, and its invariants are checked after each. Shows the last
    steps and the chain that led to the last one. Exits with 1 where the machine raises an error.
    """
    from gapless.chaos.record_story import causes, header, told_events, told_replayed

    record = _opened(file)
    if events:
        lines = [header(record), *told_events(record)]
        print_json(lines) if as_json else typer.echo("\n".join(lines))
        raise typer.Exit(ExitCode.DONE)
    steps = _steps(record, _functions(file, job))
    broken = steps[-1].error if steps else None
    chain = [line for step in causes(steps) for line in told_replayed(record.life, step)]
    shown = [line for step in steps[-last:] for line in told_replayed(record.life, step)]
    if as_json:
        print_json(_document(record, steps, chain))
    else:
        typer.echo("\n".join([header(record), *shown, "because:", *(f"  {c}" for c in chain)]))
        how = f"raises {type(broken).__name__}: {broken}" if broken else "does not fail"
        typer.echo(f"replayed {len(steps)} of {len(record.events)} events: {record.life} {how}")
    raise typer.Exit(ExitCode.DONE if broken is None else ExitCode.PROBLEM)


def _opened(file: Path) -> Record:
    from gapless.failover.recorder.record import RECORD_BYTES_MAX, decode
    from gapless.protocol.errors import Misuse

    try:
        with file.open("rb") as opened:
            return decode(opened.read(RECORD_BYTES_MAX + 1))
    except OSError as e:
        raise Misuse(
            f"{file}: {e.strerror}; records lie in records/ of a job's directory or a sidecar's"
        ) from e


def _functions(file: Path, job: Path | None) -> Functions | None:
    from gapless.actors.setup import JobDir

    if job is not None:
        return JobDir(job).functions
    found = file.resolve().parent.parent
    return JobDir(found).functions if (found / "job").is_file() else None


def _steps(record: Record, functions: Functions | None) -> list[Step]:
    from gapless.failover.recorder.replay import replayed

    return list(replayed(record, functions))


def _document(record: Record, steps: list[Step], chain: list[str]) -> dict[str, Any]:
    error = steps[-1].error if steps else None
    return {
        "life": record.life,
        "machine": record.machine,
        "reason": record.reason,
        "release": record.release,
        "events": len(record.events),
        "replayed": len(steps),
        "error": None if error is None else f"{type(error).__name__}: {error}",
        "causes": chain,
    }
