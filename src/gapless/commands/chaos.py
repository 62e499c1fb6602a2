"""`gapless chaos`: injects faults, and checks that the answer stays right."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands import chaos_drills
from gapless.commands.option_groups import grouped
from gapless.commands.replay import replay
from gapless.commands.seed_report import SeedReport
from gapless.commands.terminal import AsJson, ExitCode, print_json, progress_bar

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import SimResult

SEEDS = 300
"""Seeds without being asked for more: they take some ten seconds, short enough to run at will."""
SEEDS_MAX = 1_000_000
"""A day's worth. Of those that are well only counts are kept for the report."""
JOBS = 2
LIST = "list"
"""What --broken and --workload take besides names."""

chaos = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@chaos.callback()
def group() -> None:
    """Inject faults, and check that the answer stays right."""


chaos.command("list")(chaos_drills.listed)
chaos.command("run")(chaos_drills.run)
chaos.command("soak")(chaos_drills.soak)
chaos.command("replay")(replay)


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Which seeds: one, or several from one on."""

    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=SEEDS_MAX, help=f"How many seeds, from --seed or 0 on; {SEEDS} by default."
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Run this seed; with --seeds, start at it."),
    ] = None

    @property
    def chosen(self) -> range:
        """All of them."""
        first = self.seed or 0
        return range(first, first + (self.seeds or (SEEDS if self.seed is None else 1)))

    @property
    def is_one(self) -> bool:
        """Whether one seed is asked for, and no more."""
        return self.seed is not None and self.seeds in (None, 1)


@chaos.command()
@grouped
def sim(
    *,
    which: SeedOptions,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=("Run only this query and its data; list: print the names. Default: all in turn."),
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes that run seeds in parallel.")
    ] = JOBS,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help=(
                "With --seed: print every message and read, every loss, fault, death and "
                "start, even if all is well."
            ),
        ),
    ] = False,
    broken: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run a build with a planted bug, to see it caught; list: print the names.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the state machines of a job under seeded schedules of faults.

    Messages are delayed, lost and duplicated; links and disks fail; replicas, mergers, supervisors
    and subscribers die, freeze and return as zombies; the job is changed meanwhile. Only the seed
    decides what happens, so failures replay exactly. Each is printed with the shortest prefix of
    its faults that still fails, and the chain of causes. Exits with 1 if a seed fails.
    """
    if LIST in (broken, workload):
        _list(_broken_builds() if broken == LIST else _workloads(), as_json=as_json)
        raise typer.Exit(ExitCode.DONE)
    if trace and not which.is_one:
        raise typer.BadParameter("--trace needs --seed without --seeds: it traces one seed")
    build = _named("--broken", broken, _broken_builds())
    chosen = _named("--workload", workload, _workloads())
    report = SeedReport(build, chosen)
    began = time.monotonic()
    for result in _results(which.chosen, build, chosen, jobs):
        report.add(result)
        if trace and not as_json:
            typer.echo("\n".join(result.trace))
    report.seconds = time.monotonic() - began
    if as_json:
        print_json(report.document(with_trace=trace))
    else:
        report.print()
    raise typer.Exit(ExitCode.PROBLEM if report.failures else ExitCode.DONE)


def _list(names: Iterable[str], *, as_json: bool) -> None:
    print_json(list(names)) if as_json else typer.echo("\n".join(names))


def _broken_builds() -> dict[str, str]:
    """The builds with a planted fault, by names that need no quotes."""
    from gapless.chaos.planted.builds import BROKEN_BUILDS

    return {name.replace(" ", "-"): name for name in BROKEN_BUILDS}


def _workloads() -> dict[str, str]:
    from gapless.chaos.sim.workloads.all import WORKLOADS

    return {name.replace(" ", "-"): name for name in WORKLOADS}


def _named(option: str, given: str | None, names: dict[str, str]) -> str | None:
    if given is None:
        return None
    if given not in names:
        raise typer.BadParameter(f"{option}: there is no {given!r}; there are: {', '.join(names)}")
    return names[given]


def _results(
    seeds: Sequence[int], broken: str | None, workload: str | None, jobs: int
) -> Iterator[SimResult]:
    """One result for each seed; of a single seed with its trace."""
    from gapless.chaos.sim.seed_runs import run_many, run_one

    if len(seeds) == 1:
        yield run_one(seeds[0], broken, workload, traced=True)
        return
    with progress_bar("simulating", len(seeds)) as advance:
        for result in run_many(seeds, broken, workload, min(jobs, len(seeds))):
            yield result
            advance()
