"""`gapless chaos`: injects faults, and checks that the answer stays right."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands import chaos_drills
from gapless.commands.replay import replay
from gapless.commands.terminal import AsJson, ExitCode, print_json, progress_bar

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import SimResult

SEEDS = 300
"""Seeds without being asked for more: they take some ten seconds, short enough to run at will."""
SEEDS_MAX = 1_000_000
"""A day's worth. Of those that are well only counts are kept for the report."""
FAILURES_SHOWN_MAX = 3
"""Failures told in full; of the others the command that replays them. Most have one cause."""
FAILURES_KEPT_MAX = 1_000
"""Failures that the report lists: more are one failure, many times."""
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


@chaos.command()
def sim(
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=SEEDS_MAX, help=f"How many seeds, from --seed or 0 on; {SEEDS} by default."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Run this seed; with --seeds, start at it."),
    ] = None,
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
        names = list(_broken_builds() if broken == LIST else _workloads())
        print_json(names) if as_json else typer.echo("\n".join(names))
        raise typer.Exit(ExitCode.DONE)
    if trace and (seed is None or seeds not in (None, 1)):
        raise typer.BadParameter("--trace needs --seed without --seeds: it traces one seed")
    build = _named("--broken", broken, _broken_builds())
    chosen = _named("--workload", workload, _workloads())
    first = seed or 0
    count = seeds or (SEEDS if seed is None else 1)
    report = _Report(build, chosen)
    began = time.monotonic()
    if count == 1:
        result = _one(first, build, chosen)
        report.add(result)
        if trace and not as_json:
            typer.echo("\n".join(result.trace))
    else:
        for result in _many(range(first, first + count), build, chosen, jobs):
            report.add(result)
    report.seconds = time.monotonic() - began
    if as_json:
        print_json(report.document(with_trace=trace))
    else:
        report.print()
    raise typer.Exit(ExitCode.PROBLEM if report.failures else ExitCode.DONE)


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


def _one(seed: int, broken: str | None, workload: str | None) -> SimResult:
    from gapless.chaos.sim.seed_runs import run_one

    return run_one(seed, broken, workload, traced=True)


def _many(
    seeds: Sequence[int], broken: str | None, workload: str | None, jobs: int
) -> Iterator[SimResult]:
    from gapless.chaos.sim.seed_runs import run_many

    with progress_bar("simulating", len(seeds)) as advance:
        for result in run_many(seeds, broken, workload, min(jobs, len(seeds))):
            yield result
            advance()


class _Report:
    """What came of all seeds: counts, and the failures."""

    def __init__(self, broken: str | None, workload: str | None) -> None:
        self.seconds = 0.0
        self.failures = 0
        self._options = "".join(
            f" --{option} {name.replace(' ', '-')}"
            for option, name in (("broken", broken), ("workload", workload))
            if name is not None
        )
        self._named = (broken, workload)
        self._counts: Counter[str] = Counter()
        self._verdicts: dict[str, Counter[str]] = {}
        self._drawn: Counter[str] = Counter()
        self._reached: Counter[str] = Counter()
        self._frames_least: int | None = None
        self._faults_least: int | None = None
        self._failed: list[SimResult] = []
        self._last: SimResult | None = None

    def add(self, result: SimResult) -> None:
        """One more seed."""
        self._last = result
        self._counts.update(seeds=1, steps=result.steps, frames=result.frames, faults=result.faults)
        self._drawn.update(result.limits.keys())
        self._reached.update(result.reached)
        if result.ok:
            self._frames_least = _least(self._frames_least, result.frames)
            self._faults_least = _least(self._faults_least, result.faults)
        else:
            self.failures += 1
            if len(self._failed) < FAILURES_KEPT_MAX:
                self._failed.append(result)
        for name, verdict in result.verdicts.items():
            self._verdicts.setdefault(name, Counter())[verdict] += 1

    def replay(self, seed: int) -> str:
        """The command that runs one seed again."""
        return f"gapless chaos sim --seed {seed}{self._options}"

    def print(self) -> None:
        """For people."""
        for count, failure in enumerate(self._failed):
            if count < FAILURES_SHOWN_MAX:
                typer.echo("\n".join(self._told(failure)))
            typer.echo(f"replay it: {self.replay(failure.seed)} --trace")
        for name, verdicts in self._verdicts.items():
            held = ", ".join(f"{verdict} {n}" for verdict, n in sorted(verdicts.items()))
            typer.echo(f"{name:<12} {held}")
        if self._counts["seeds"] > 1:
            never = [bound for bound in _seen_limits() if not self._reached[bound]]
            typer.echo(f"limits       {len(self._drawn)} drawn, {_not_reached(never)}")
        c = self._counts
        typer.echo(
            f"seeds {c['seeds']}, steps {c['steps']}, frames {c['frames']}, faults {c['faults']}, "
            f"failures {self.failures}, seconds {self.seconds:.1f}"
        )

    def _told(self, failure: SimResult) -> Iterable[str]:
        from gapless.chaos.sim.limits import told as told_limits
        from gapless.chaos.sim.shrinker import shortest_of

        shrunk = shortest_of(failure.seed, *self._named)
        yield f"seed {failure.seed} ({failure.workload}) fails:\n{failure.problem}"
        if failure.limits:
            yield f"with the limits {told_limits(failure.limits)}"
        told = shrunk.told_faults
        yield f"it fails with the first {len(told)} of its {len(failure.told_faults)} faults:"
        yield from (f"  {fault}" for fault in told)
        yield shrunk.problem or ""
        yield from ("because:", *(f"  {line}" for line in shrunk.causes))

    def document(self, *, with_trace: bool) -> dict[str, Any]:
        """For programs."""
        document: dict[str, Any] = {
            **self._counts,
            "failures": self.failures,
            "seconds": round(self.seconds, 3),
            "schedules_per_minute": round(60 * self._counts["seeds"] / max(self.seconds, 1e-9)),
            "frames_least": self._frames_least,
            "faults_least": self._faults_least,
            "verdicts": self._verdicts,
            "limits": {
                bound: {"drawn": count, "reached": self._reached[bound]}
                for bound, count in sorted(self._drawn.items())
            },
            "failed": [
                {
                    "seed": result.seed,
                    "workload": result.workload,
                    "checker": result.checker,
                    "problem": result.problem,
                    "faults": result.told_faults,
                    "limits": result.limits,
                    "causes": result.causes,
                    "replay": self.replay(result.seed),
                }
                for result in self._failed
            ],
        }
        if with_trace and self._last is not None:
            document["trace"] = self._last.trace
        return document


def _seen_limits() -> list[str]:
    """The bounds of which a run can tell whether it reached them."""
    from gapless.chaos.sim.limits import LIMITS

    return [limit.bound for limit in LIMITS if limit.is_seen]


def _not_reached(never: list[str]) -> str:
    return f"not reached: {', '.join(never)}" if never else "each was reached"


def _least(so_far: int | None, value: int) -> int:
    return value if so_far is None else min(so_far, value)
