"""`gapless run`: runs a query file as a job, in the foreground.

    no --address    a Ray cluster of its own that lives as long as the command: Ctrl-C processes the
                    present input and ends both; a second Ctrl-C does not wait for that
    --address       a job in an existing cluster: Ctrl-C leaves it running, `gapless stop` ends it

If the start fails or is interrupted, no process and no directory is left.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.run_options import EarlierJob, JobSettings, NewJob
from gapless.commands.terminal import AsJson, ExitCode, print_json, print_line, spinner

if TYPE_CHECKING:
    from gapless.actors.handle import Job
    from gapless.commands.foreground import Seen


@grouped
def run(
    *,
    new: NewJob,
    settings: JobSettings,
    earlier: EarlierJob,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="End once the present input is processed.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="With --address: return once the job is up.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, start nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a query as a job with several replicas, and show its state.

    Without --address the job runs on a Ray cluster of its own. Ctrl-C processes the present input
    and then ends both; a second Ctrl-C ends them at once. With --address Ctrl-C leaves the job
    running. Exits with 1 if replicas disagreed or the job ended by itself.
    """
    from gapless.commands.foreground import Seen, attend

    _check(new, settings, earlier, until_drained=until_drained, detach=detach)
    if dry_run:
        _rehearse(new, settings, earlier, as_json=as_json)
        return
    if earlier.resume is None:
        job = _launched(new, settings)
    else:
        job = _resumed(earlier.resume, settings, takeover=earlier.takeover)
    _tell(job, as_json)
    if detach:
        seen = Seen(job.status(), "running", 0.0, False)
    elif settings.address is not None:
        seen = attend(job, drains=until_drained)
    else:
        with job:  # which ends the cluster, too, and the job first if need be
            seen = attend(job, drains=until_drained, owns=True)
    _print(job, seen, as_json)
    raise typer.Exit(ExitCode.PROBLEM if seen.is_problem else ExitCode.DONE)


def _check(
    new: NewJob, settings: JobSettings, earlier: EarlierJob, *, until_drained: bool, detach: bool
) -> None:
    """Raises `Misuse` where options do not go together."""
    from gapless.protocol.errors import Misuse

    if detach and settings.address is None:
        raise Misuse(
            "--detach: this command's own Ray cluster would end with it. Start one that "
            "stays (`ray start --head`) and use --address auto"
        )
    if detach and until_drained:
        raise Misuse(
            "--detach and --until-drained exclude each other: one returns at once, the other waits"
        )
    if earlier.takeover and earlier.resume is None:
        raise Misuse("--takeover needs --resume DIR, the directory of the job to take over")
    if earlier.resume is not None and new.is_said:
        raise Misuse(
            "--resume DIR: the directory has everything; leave out the query, --journal and --dir"
        )


def _rehearse(new: NewJob, settings: JobSettings, earlier: EarlierJob, *, as_json: bool) -> None:
    """All that is checked before a job starts, and its plans. Raises as a start would."""
    from gapless.actors.launch import checked
    from gapless.commands.explain import print_plans
    from gapless.commands.query_file import read
    from gapless.protocol.errors import Misuse

    if earlier.resume is not None:
        raise Misuse("--dry-run is of a new job: what --resume DIR runs has been checked")
    query, journals, directory = new.whole()
    options = settings.for_launch()
    file = read(query, journals if isinstance(journals, dict) else None)
    _check_new(directory)
    found = checked(
        file.query,
        file.plans,
        journals,
        shards=options["shards"],
        code=file.code,
        assume_equivalent=options["assume_equivalent"],
    )
    print_plans(found.plans, found.sources, as_json=as_json)


# -- starting -------------------------------------------------------------------------------------


def _launched(new: NewJob, settings: JobSettings) -> Job:
    from gapless.actors.launch import launch
    from gapless.commands.query_file import read

    query, journals, directory = new.whole()
    options = settings.for_launch()
    file = read(query, journals if isinstance(journals, dict) else None)
    with _new_directory(directory), spinner(f"starting {file.module}"), _interruptible():
        return launch(
            file.query,
            plans=file.plans,
            journal=journals,
            dir=directory,
            code=file.code,
            **options,
        )


def _resumed(directory: Path, settings: JobSettings, *, takeover: bool) -> Job:
    from gapless.actors.launch import resume

    timing = settings.timing_values()
    with spinner(f"starting what is in {directory}"), _interruptible():
        return resume(directory, address=settings.address, takeover=takeover, timing=timing)


@contextmanager
def _new_directory(directory: Path) -> Iterator[None]:
    """The job's directory; removed again if the job does not come up."""
    from gapless.protocol.errors import Misuse

    try:
        _check_new(directory)
        is_ours = not directory.exists() or not any(directory.iterdir())
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise Misuse(f"the job's directory {directory} cannot be written: {e}") from None
    try:
        yield
    except BaseException:
        if is_ours:
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _check_new(directory: Path) -> None:
    """Raises `Misuse` where a job is in the directory."""
    from gapless.failover.job.directory import NAME
    from gapless.protocol.errors import Misuse

    if (directory / NAME).exists():
        raise Misuse(
            f"{directory}: a job is here already: `gapless run --resume {directory}` runs it, "
            "or choose another --dir"
        )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Inside, SIGTERM acts like Ctrl-C, even if Ray installs its own handler as it starts."""
    try:
        yield
    except SystemExit:  # what Ray makes of it
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


# -- telling --------------------------------------------------------------------------------------


def _tell(job: Job, as_json: bool) -> None:
    """Prints where the job runs."""
    from gapless.actors import cluster

    at = cluster.address()
    lines = (
        f"{job.name} runs in {job.dir}, on the Ray cluster at {at}",
        f"from another shell: gapless status {job.name} --address {at}",
    )
    for line in lines:
        if as_json:
            sys.stderr.write(f"{line}\n")
        else:
            print_line(line)


def _print(job: Job, seen: Seen, as_json: bool) -> None:
    """Prints how the job ended, or that it continues."""
    from gapless.commands.job_views import described, summary

    unit = job.schema.time_unit
    if as_json:
        print_json({**described(seen.view, unit), "state": seen.state, "seconds": seen.seconds})
        return
    if seen.state == "running":
        typer.echo(f"{job.name} goes on; `gapless stop {job.name}` ends it")
        return
    typer.echo(summary(seen.view, unit))
    because = f": {seen.view.state.ended_because}" if seen.view.state.ended_because else ""
    typer.echo(f"{job.name} has stopped{because}; its output is in {job.dir}")
