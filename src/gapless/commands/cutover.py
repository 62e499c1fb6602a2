"""`gapless cutover`: switches a job to other plans, or to another query from a given time on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.options import Address, AssumeEquivalent, JobName, QueryPath
from gapless.commands.terminal import AsJson, ExitCode, print_json, spinner

if TYPE_CHECKING:
    from pathlib import Path

    from gapless.actors.handle import Job
    from gapless.actors.views import JobView
    from gapless.commands.query_file import QueryFile

LOOK_S = 0.2
"""Polling interval."""
WAIT_S = 300.0
"""How long the command waits: new replicas read back as far as the query reaches. The cutover goes
on after that.
"""


def cutover(
    name: JobName,
    query: QueryPath,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=(
                "From when on the new answer applies: 2024-05-01T12:30, or a count of the "
                "output's unit. Without it both queries must give the same answer."
            ),
        ),
    ] = None,
    assume_equivalent: AssumeEquivalent = False,
    address: Address = "auto",
    as_json: AsJson = False,
) -> None:
    """Switch a running job to another plan or query.

    Without --at the new query must be written like the old one, because equivalence of different
    queries cannot be checked; --assume-equivalent is your promise that they give the same answer.
    The output continues meanwhile. Waits until the new plans run. Exits with 1 if they do not: then
    the job continues as before, and `gapless status` has the alarm.
    """
    from gapless.actors.handle import attach
    from gapless.actors.setup import JobDir
    from gapless.commands.query_file import read

    file = read(query)
    job = attach(name, address=address)
    since = None if at is None else _time(at, job)
    before = job.status().desired.plans
    with _shipped(file, job.dir, JobDir(job.dir).settings.code):
        notes = job.cutover(
            file.query, plans=file.plans, at=since, assume_equivalent=assume_equivalent
        )
    if not as_json:
        for note in notes:
            typer.echo(f"assumed on your word: {note}")
    with spinner(f"{name}: the new plans join"):
        view = _wait(job)
    desired = view.desired.plans
    is_done = desired != before and not view.state.cutover and _has_new(view)
    if as_json:
        print_json({"job": name, "plans": list(desired), "not_known": list(notes), "done": is_done})
    elif is_done:
        typer.echo(f"{name} runs {', '.join(desired)}")
    else:
        typer.echo(f"{name} does not run the new plans: see `gapless status {name}`")
    raise typer.Exit(ExitCode.DONE if is_done else ExitCode.PROBLEM)


def _wait(job: Job) -> JobView:
    """The job once the cutover has succeeded or failed, or after the time limit."""
    until = time.monotonic() + WAIT_S
    while True:
        view = job.status()
        if (not view.state.cutover and _has_new(view)) or time.monotonic() > until:
            return view
        time.sleep(LOOK_S)


def _has_new(view: JobView) -> bool:
    """Whether every replica runs a desired plan."""
    plans = [slot.plan for slot in view.state.slots if slot.slot.startswith("r")]
    return all(plan in view.desired.plans for plan in plans)


def _time(text: str, job: Job) -> int:
    from gapless.engine.answer import instant
    from gapless.protocol.errors import Misuse

    digits = text.removeprefix("-")
    given: Any = int(text) if digits.isascii() and digits.isdecimal() else text
    try:
        return instant(given, job.schema.time_unit)
    except Misuse as e:
        raise Misuse(f"--at: {e}") from None


@contextmanager
def _shipped(file: QueryFile, job_dir: Path, code: str | None = None) -> Iterator[None]:
    """The file is in the job's directory, if a plan calls functions of it. Where the job refuses
    the plans, what was put there goes again: mended, the file may keep its name. `code`: what the
    job was launched with, as its record names it.
    """
    from gapless.actors.code import folders
    from gapless.protocol.errors import Misuse

    places = [folder / file.path.name for folder in folders(job_dir, code)]
    there = next((place for place in places if place.exists()), places[-1])
    is_new = file.needs_code and not there.exists()
    if is_new:
        _copy(file.path, there)
    elif file.needs_code and there.read_bytes() != file.path.read_bytes():
        raise Misuse(
            f"{file.path}: the job has another file of that name, whose functions its plans call: "
            "give the new one another name"
        )
    try:
        yield
    except Misuse:
        if is_new:
            there.unlink(missing_ok=True)
        raise


def _copy(path: Path, there: Path) -> None:
    from gapless.protocol.errors import Misuse

    try:
        there.parent.mkdir(exist_ok=True)
        shutil.copy2(path, there)
    except OSError as e:
        raise Misuse(f"the job's directory {there.parent.parent} cannot be written: {e}") from None
