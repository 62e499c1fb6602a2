"""`gapless doctor`: one line a check, each ok or with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gapless.commands.terminal import AsJson, output, print_json, spinner

if TYPE_CHECKING:
    from gapless.doctor import CheckResult

_COLOURS = {"ok": "green", "hint": "cyan", "problem": "red", "unknown": "yellow", "skipped": "dim"}


def doctor(
    directory: Annotated[
        str,
        typer.Option("--dir", metavar="DIR", help="Check the mount of this directory."),
    ] = ".",
    as_json: AsJson = False,
) -> None:
    """Check whether this machine can run jobs, and give advice if not.

    Also checks the file system of a directory, and the mount options that journals and jobs need on
    NFS.

    Starts a small Spark and a small Ray, and ends them: this takes about 15 seconds, on a busy
    machine up to a few minutes. Exits with 0 if there is nothing worse than a hint, 1 if
    there is a problem, 2 if something could not be checked.
    """
    from gapless.doctor import checks_of, exit_code

    console = output()
    findings = []
    for check in checks_of(directory):
        with spinner(f"looking: {check.name}"):
            finding = check.look()
        findings.append(finding)
        if not as_json:
            console.print(_line(finding), soft_wrap=True)
    if as_json:
        print_json([finding.to_json() for finding in findings])
    raise typer.Exit(exit_code(findings))


def _line(finding: CheckResult) -> Text:
    verdict = finding.verdict
    advice = f"; {verdict.advice}" if verdict.advice else ""
    return Text.assemble(
        (f"{verdict.status:<8}", _COLOURS[verdict.status]),
        f" {finding.check:<14} {verdict.found}{advice}",
    )
