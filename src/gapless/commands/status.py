"""`gapless status`: the state of a job, or a list of running jobs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.options import Address
from gapless.commands.terminal import AsJson, ExitCode, output, print_json

if TYPE_CHECKING:
    from gapless.actors.views import JobView

WATCH_S = 1.0
"""Refresh interval of --watch: processes report a few times a second."""


def status(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The job. Default: list all.")
    ] = None,
    address: Address = "auto",
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep showing it until Ctrl-C or the job's end.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the flight record of each life of the job to DIR/records, for `gapless "
            "chaos replay`. DIR may be the job's own directory.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a job, or list running jobs.

    Shows replicas, mergers, their progress, the leader, recent rejoins and alarms. Exits with 1 if
    something that should run does not.
    """
    from gapless.protocol.errors import Misuse

    if watch and (name is None or as_json):
        raise Misuse("--watch needs the name of a job, and cannot be combined with --json")
    if record is not None and (name is None or watch or as_json):
        raise Misuse("--record needs the name of a job, and no --watch or --json")
    if record is not None and name is not None:
        raise typer.Exit(_record(name, address, record))
    whole = _list(address, as_json) if name is None else _show(name, address, watch, as_json)
    raise typer.Exit(ExitCode.DONE if whole else ExitCode.PROBLEM)


def _show(name: str, address: str, watch: bool, as_json: bool) -> bool:
    """Shows one job; returns whether all of it runs."""
    from gapless.actors.handle import attach
    from gapless.commands.job_views import described, is_whole

    job = attach(name, address=address)
    unit = job.schema.time_unit
    view = job.status()
    if as_json:
        print_json(described(view, unit))
    elif watch:
        view = _watch(job, view, unit)
    else:
        _print(view, unit)
    return is_whole(view)


def _record(name: str, address: str, folder: Path) -> ExitCode:
    """Writes the flight record of each life, and says where."""
    from gapless.actors.handle import attach
    from gapless.actors.setup import token
    from gapless.failover.recorder.folder import write_record
    from gapless.journal.disk import LocalDisk

    disk, code = LocalDisk(folder), ExitCode.DONE
    for life, found in attach(name, address=address).records("gapless status --record").items():
        if isinstance(found, bytes) and found:
            path = write_record(disk, str(life), found, token(), time.time_ns() // 1_000_000)
            typer.echo(f"{life}: {folder / path}")
        else:
            typer.echo(f"{life}: no record: {found or 'it is not alive yet'!s}", err=True)
            code = ExitCode.PROBLEM
    return code


def _print(view: JobView, unit: str) -> None:
    from gapless.commands.job_views import shown

    console = output()
    for part in shown(view, unit):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


def _watch(job: Any, view: JobView, unit: str) -> JobView:
    """Shows the job until it has ended or the user interrupts; returns the last view."""
    from rich.console import Group
    from rich.live import Live

    from gapless.commands.job_views import shown
    from gapless.protocol.errors import GaplessError

    try:
        with Live(console=output(), auto_refresh=False) as live:
            while True:
                live.update(Group(*shown(view, unit)), refresh=True)
                time.sleep(WATCH_S)
                view = job.status()
    except KeyboardInterrupt:
        return view
    except GaplessError:  # a root that is on its way out answers as it likes
        if job.is_running:
            raise
        typer.echo(f"{view.name} has stopped; its output is in {view.job_dir}")
        return view


def _list(address: str, as_json: bool) -> bool:
    """Lists the jobs of one cluster or of all that are found; returns whether all of each runs."""
    from gapless.actors import cluster
    from gapless.actors.handle import AUTO
    from gapless.actors.whereabouts import at_hand, is_gone, jobs_at
    from gapless.commands.job_views import described, is_whole, listed
    from gapless.protocol.errors import Misuse

    views: list[tuple[str, str, JobView | str]] = []
    if address == AUTO and cluster.is_free():
        found = {at: jobs for at, jobs in jobs_at(at_hand()).items() if not is_gone(jobs)}
        if not found:
            raise Misuse(
                "no Ray cluster and no job runs on this machine: give another machine's "
                "cluster with --address HOST:PORT, or start a job (`gapless run`)"
            )
        for at, jobs in found.items():
            if isinstance(jobs, list) and jobs:
                views += _looked_at(at)
            elif not isinstance(jobs, list):
                views.append((at, "-", str(jobs)))
        where = f"on this machine; looked at the clusters at {', '.join(found)}"
    else:
        views, where = _looked_at(address), "in this cluster"
    if as_json:
        print_json(
            [
                {"job": name, "cluster": at, "error": view}
                if isinstance(view, str)
                else described(view, view.schema.time_unit)
                for at, name, view in views
            ]
        )
    elif views:
        output().print(listed(views), markup=False)
    else:
        typer.echo(f"no job runs {where}")
    return all(not isinstance(view, str) and is_whole(view) for _, _, view in views)


def _looked_at(address: str) -> list[tuple[str, str, JobView | str]]:
    """The jobs of one cluster: address, name, and view or the reason why there is none."""
    from gapless.actors import cluster
    from gapless.actors.handle import attach
    from gapless.actors.hosts import named
    from gapless.actors.whereabouts import ROOT
    from gapless.protocol.errors import GaplessError

    is_connected = cluster.connection() is not None
    cluster.connect(address)
    views: list[tuple[str, str, JobView | str]] = []
    try:
        at = cluster.address()
        for name in (each.removesuffix(ROOT) for each in named("") if each.endswith(ROOT)):
            try:
                views.append((at, name, attach(name).status()))
            except GaplessError as e:  # one job that does not answer hides no other
                views.append((at, name, str(e)))
    finally:
        if not is_connected:
            cluster.disconnect()
    return views
