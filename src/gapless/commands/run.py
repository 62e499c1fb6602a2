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
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.options import AssumeEquivalent, size_of
from gapless.commands.terminal import AsJson, ExitCode, print_json, print_line, spinner

if TYPE_CHECKING:
    from gapless.actors.handle import Job
    from gapless.commands.attending import Seen


class OnDivergence(StrEnum):
    """Values of `--on-divergence`."""

    REPORT = "report"
    STOP = "stop"
    MAJORITY = "majority"


def run(
    query: Annotated[
        Path | None,
        typer.Argument(metavar="QUERY.py", help="A python file that defines `query`."),
    ] = None,
    journal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help=("The source's journal. With several sources, repeat it as SOURCE=PATH."),
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="The job's directory; all nodes must see it."),
    ] = None,
    replicas: Annotated[int, typer.Option(help="Replicas of each shard.")] = 3,
    mergers: Annotated[int, typer.Option(help="Mergers of each shard, 1 or 2.")] = 1,
    shards: Annotated[
        int, typer.Option(help="Splits the job by the partitions of its journals.")
    ] = 1,
    name: Annotated[
        str | None, typer.Option(help="The job's name. Default: the name of its directory.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=(
                "An existing Ray cluster; auto: the one on this machine. Default: start a "
                "small one that ends with this command."
            ),
        ),
    ] = None,
    checkpoint_s: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 10,
    retain: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long to keep output, such as 24h. Default: forever."
        ),
    ] = None,
    retain_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help=("How much to keep of each output, such as 10GB. Default: everything."),
        ),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit of one replica's state, such as 2GB.")
    ] = None,
    on_divergence: Annotated[
        OnDivergence,
        typer.Option(
            help=(
                "If replicas disagree: report it, stop the job, or replace the one in the minority."
            )
        ),
    ] = OnDivergence.REPORT,
    spares: Annotated[
        int,
        typer.Option(
            help=(
                "Idle processes on each node, ready to replace one that dies. With 0 the root"
                " has no standby either."
            )
        ),
    ] = 2,
    timing: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "TOML file of timeouts and intervals, such as `hang_ms = 3000`; docs/run.md "
                "lists all."
            ),
        ),
    ] = None,
    assume_equivalent: AssumeEquivalent = False,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run a job again from its directory alone."),
    ] = None,
    takeover: Annotated[
        bool,
        typer.Option(
            "--takeover",
            help=("With --resume: if the job runs elsewhere, end it there first."),
        ),
    ] = False,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="End once the present input is processed.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="With --address: return once the job is up.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a query as a job with several replicas, and show its state.

    Without --address the job runs on a Ray cluster of its own. Ctrl-C processes the present input
    and then ends both; a second Ctrl-C ends them at once. With --address Ctrl-C leaves the job
    running. Exits with 1 if replicas disagreed or the job ended by itself.
    """
    from gapless.commands.attending import Seen, attend
    from gapless.protocol.errors import Misuse

    if detach and address is None:
        raise Misuse(
            "--detach: this command's own Ray cluster would end with it. Start one that "
            "stays (`ray start --head`) and use --address auto"
        )
    if detach and until_drained:
        raise Misuse(
            "--detach and --until-drained exclude each other: one returns at once, the other waits"
        )
    if takeover and resume is None:
        raise Misuse("--takeover needs --resume DIR, the directory of the job to take over")
    if resume is not None:
        if query is not None or journal or directory is not None:
            raise Misuse(
                "--resume DIR: the directory has everything; leave out the query, --journal "
                "and --dir"
            )
        job = _resumed(resume, address, takeover, _waits(timing))
    else:
        if query is None or not journal or directory is None:
            raise Misuse("give a query file, --journal PATH and --dir DIR; or --resume DIR")
        options: dict[str, Any] = {
            "replicas": replicas,
            "mergers": mergers,
            "shards": shards,
            "name": name,
            "address": address,
            "checkpoint_s": checkpoint_s,
            "retain": retain,
            "retain_bytes": None
            if retain_bytes is None
            else size_of("--retain-bytes", retain_bytes),
            "memory_limit": None
            if memory_limit is None
            else size_of("--memory-limit", memory_limit),
            "on_divergence": on_divergence.value,
            "spares": spares,
            "assume_equivalent": assume_equivalent,
            "timing": _waits(timing),
        }
        job = _launched(query, _journals(journal), directory, options)
    _tell(job, as_json)
    if detach:
        seen = Seen(job.status(), "running", 0.0, False)
    elif address is not None:
        seen = attend(job, drains=until_drained)
    else:
        with job:  # which ends the cluster, too, and the job first if need be
            seen = attend(job, drains=until_drained, owns=True)
    _print(job, seen, as_json)
    raise typer.Exit(ExitCode.PROBLEM if seen.is_problem else ExitCode.DONE)


# -- starting -------------------------------------------------------------------------------------


def _launched(query: Path, journals: Any, directory: Path, options: dict[str, Any]) -> Job:
    from gapless.actors.launching import launch
    from gapless.commands.query_file import read

    file = read(query)
    with _new_directory(directory), spinner(f"starting {file.module}"), _interruptible():
        return launch(
            file.query,
            plans=file.plans,
            journal=journals,
            dir=directory,
            code=file.path,
            **options,
        )


def _resumed(directory: Path, address: str | None, takeover: bool, timing: Any) -> Job:
    from gapless.actors.launching import resume

    with spinner(f"starting what is in {directory}"), _interruptible():
        return resume(directory, address=address, takeover=takeover, timing=timing)


def _waits(file: Path | None) -> dict[str, Any] | None:
    """The values of a `--timing` file."""
    from gapless.protocol.errors import Misuse

    if file is None:
        return None
    try:
        with file.open("rb") as text:
            return tomllib.load(text)
    except OSError as e:
        raise Misuse(f"--timing: {file} cannot be read: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise Misuse(f"--timing: {file} is not TOML: {e}; write `hang_ms = 3000`") from None


def _journals(given: list[str]) -> str | dict[str, str]:
    """One path, or paths by source."""
    from gapless.protocol.errors import Misuse

    if len(given) == 1 and ("=" not in given[0] or Path(given[0]).exists()):
        return given[0]
    parted = [text.partition("=") for text in given]
    if any(not sep for _, sep, _ in parted):
        raise Misuse("--journal: with several sources, write SOURCE=PATH for each")
    paths = {source: path for source, _, path in parted}
    if len(paths) < len(parted):
        raise Misuse("--journal: give only one journal for each source")
    return paths


@contextmanager
def _new_directory(directory: Path) -> Iterator[None]:
    """The job's directory; removed again if the job does not come up."""
    from gapless.failover.job.directory import NAME
    from gapless.protocol.errors import Misuse

    try:
        if (directory / NAME).exists():
            raise Misuse(
                f"{directory}: a job is here already: `gapless run --resume {directory}` runs it, "
                "or choose another --dir"
            )
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
