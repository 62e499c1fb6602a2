"""`gapless chaos`: break things on purpose, and check that the answer stays right."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.terminal import AsJson, ExitCode, print_json, progress_bar

if TYPE_CHECKING:
    from gapless.chaos.simulator import Build, SimResult

SEEDS = 200
"""Seeds without being asked for more: they take 20 s (measured), short enough to run at will."""
SEEDS_MAX = 1_000_000
"""A day's worth. What came of each is kept for the report."""
FAILURES_SHOWN_MAX = 5
"""Failures told in full; of the others the command that replays them. Most have one cause."""
LIST = "list"
"""What --broken takes besides the names of the builds."""

chaos = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@chaos.callback()
def group() -> None:
    """Break things on purpose, and check that the answer stays right."""


@chaos.command()
def sim(
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=SEEDS_MAX, help=f"How many seeds, from 0 on; {SEEDS} if not said."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Run this seed alone.")] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="With --seed: print what happened, also if all is well: each message and read "
            "that a machine got, what was lost, repeated or forgotten, who was killed and came.",
        ),
    ] = False,
    broken: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run a build with a fault planted in it, to see it caught; list: say which.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the state machines under seeded schedules of faults.

    Messages are late, lost and doubled, replicas and mergers die and come back. Nothing but the
    seed decides what happens, so a failure replays exactly. Exits with 1 when a seed fails.
    """
    if seed is not None and seeds is not None:
        raise typer.BadParameter("--seed runs one seed, --seeds many: give one of them")
    if trace and seed is None:
        raise typer.BadParameter("--trace needs --seed: the trace is that of one seed")
    if broken == LIST:
        typer.echo("\n".join(_broken_builds()))
        raise typer.Exit(ExitCode.DONE)
    build = None if broken is None else _broken_build(broken)
    chosen: range = range(seeds or SEEDS) if seed is None else range(seed, seed + 1)
    began = time.monotonic()
    results = list(_run(chosen, build))
    summary = {
        "seeds": len(results),
        "steps": sum(result.steps for result in results),
        "failures": sum(not result.ok for result in results),
        "seconds": round(time.monotonic() - began, 3),
    }
    shows_trace = trace or (seed is not None and not results[0].ok)
    if as_json:
        print_json(_document(summary, results, broken, shows_trace=shows_trace))
    else:
        if shows_trace:
            typer.echo("\n".join(results[0].trace))
        _print_failures([result for result in results if not result.ok], broken)
        typer.echo(
            "seeds {seeds}, steps {steps}, failures {failures}, seconds {seconds:.1f}".format(
                **summary
            )
        )
    raise typer.Exit(ExitCode.PROBLEM if summary["failures"] else ExitCode.DONE)


def _broken_builds() -> dict[str, Build]:
    """The builds with a planted fault, by names that need no quotes."""
    from gapless.chaos.broken import BROKEN_BUILDS

    return {name.replace(" ", "-"): build for name, build in BROKEN_BUILDS.items()}


def _broken_build(name: str) -> Build:
    builds = _broken_builds()
    if name not in builds:
        raise typer.BadParameter(f"--broken: no build {name!r}; there are: {', '.join(builds)}")
    return builds[name]


def _run(seeds: range, build: Build | None) -> Iterator[SimResult]:
    """Runs the seeds. Of many, no trace is kept: a failing one replays to the same trace."""
    with progress_bar("simulating", len(seeds)) as advance:
        for seed in seeds:
            result = _run_seed(seed, build)
            yield result if len(seeds) == 1 else replace(result, trace=[])
            advance()


def _run_seed(seed: int, build: Build | None) -> SimResult:
    from gapless.chaos.simulator import SimResult, run_seed

    try:
        return run_seed(seed) if build is None else run_seed(seed, build)
    except Exception:  # noqa: BLE001 - whatever a seed raises is what it has found
        return SimResult(seed=seed, ok=False, steps=0, problem=traceback.format_exc(), trace=[])


def _replay(seed: int, broken: str | None) -> str:
    return f"gapless chaos sim --seed {seed}{'' if broken is None else f' --broken {broken}'}"


def _print_failures(failures: list[SimResult], broken: str | None) -> None:
    for count, failure in enumerate(failures):
        if count < FAILURES_SHOWN_MAX:
            typer.echo(f"seed {failure.seed} fails:\n{failure.problem}")
        typer.echo(f"replay it: {_replay(failure.seed, broken)}")


def _document(
    summary: dict[str, Any], results: Iterable[SimResult], broken: str | None, *, shows_trace: bool
) -> dict[str, Any]:
    return summary | {
        "results": [
            {
                "seed": result.seed,
                "ok": result.ok,
                "steps": result.steps,
                "problem": result.problem,
                "replay": None if result.ok else _replay(result.seed, broken),
            }
            | ({"trace": result.trace} if shows_trace else {})
            for result in results
        ]
    }
