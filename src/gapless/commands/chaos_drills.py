"""`gapless chaos list|run|soak`: injects faults into a real cluster, judges, and writes reports."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.commands.interrupts import ending_in_peace
from gapless.commands.terminal import AsJson, ExitCode, output, print_json, print_line

if TYPE_CHECKING:
    from gapless.chaos.drill.drill_process import Wanted
    from gapless.chaos.drill.outcome import Outcome

RUNS = Path("chaos-runs")
"""Where reports go where nothing else is said: a folder a command, below the current directory."""
SOAK = "soak"
"""The scenario of `gapless chaos soak`."""
MINUTES_MIN, MINUTES_MAX = 1.0, 24 * 60.0
"""As a scenario may say (chaos/drill/scenario.py)."""

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help=f"Where the reports go; {RUNS}/<time> if not said."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Random seed. Default: the scenario's.")]
Broken = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=(
            "Run a build with a planted bug, to see it caught; `gapless chaos sim "
            "--broken list` prints the names."
        ),
    ),
]


def listed(
    faults: Annotated[
        bool,
        typer.Option("--faults", help="List faults instead, with targets, durations and settings."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List scenarios or faults, and which cannot run here."""
    document = _fault_list() if faults else _scenario_list()
    if as_json:
        print_json(document)
        return
    console = output()
    width = max(len(each["name"]) for each in document)
    for each in document:
        mark = "" if each["here"] else f"  (not here: {each['why_not']})"
        console.print(f"{each['name']:<{width}} {each['about']}{mark}", markup=False)
        details = each.get("faults") or _details(each)
        if details:
            console.print(f"{'':<{width}} {', '.join(details)}", style="dim", markup=False)


def _details(fault: Mapping[str, Any]) -> list[str]:
    """What a scenario may say of a fault, with the defaults."""
    target, lasts = fault["target"], fault["lasts"]
    return [
        *([f"target: {target}"] if target else []),
        *([] if lasts is None else [f"lasts {lasts:g} s"]),
        *(f"{name} = {value}" for name, value in fault["settings"].items()),
    ]


def _scenario_list() -> list[dict[str, Any]]:
    from gapless.chaos.drill.scenario import library, loaded, not_available

    found, missing = [], not_available()
    for name in library():
        scenario = loaded(name)
        planned = dict.fromkeys(each.fault for each in scenario.faults)
        drawn = scenario.random.faults if scenario.random else ()
        wanted = [kind for kind in dict.fromkeys([*planned, *drawn]) if kind in missing]
        why = "; ".join(dict.fromkeys(missing[kind] for kind in wanted))
        kinds = [*planned, *(["at random"] if scenario.random else [])]
        found.append(
            {
                "name": name,
                "about": scenario.about,
                "faults": kinds,
                "here": not why,
                "why_not": why,
            }
        )
    return found


def _fault_list() -> list[dict[str, Any]]:
    from gapless.chaos.drill.faults.all import FAULTS

    return [
        {
            "name": name,
            "about": kind.about,
            "target": kind.targets_in_words(),
            "lasts": kind.lasts,
            "settings": dict(kind.settings),
            "here": (why := kind.why_not()) is None,
            "why_not": why or "",
        }
        for name, kind in FAULTS.items()
    ]


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO]...", help="Names from `gapless chaos list`, or files."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Run every built-in scenario that can run on this machine."),
    ] = False,
    out: Out = None,
    seed: Seed = None,
    broken: Broken = None,
    as_json: AsJson = False,
) -> None:
    """Run scenarios of real faults on a real cluster, and judge.

    Each scenario runs in a cluster of its own on this machine and writes a report: history.arrow,
    verdicts.json, report.html. Exits with 0 if all is well, 1 if a promise was broken, 2 (before
    anything starts) if a scenario cannot run. Leaves nothing running, even if interrupted.
    """
    from gapless.chaos.drill.scenario import library
    from gapless.protocol.errors import Misuse

    if bool(names) == everything:
        raise Misuse("name scenarios (see `gapless chaos list`), or use --all")
    left_out: dict[str, str] = {}
    if everything:
        left_out = {each["name"]: each["why_not"] for each in _scenario_list() if not each["here"]}
        names = [name for name in library() if name not in left_out]
    _play(names or [], out, seed, broken, None, left_out, as_json)


def soak(
    minutes: Annotated[
        float, typer.Option(min=MINUTES_MIN, max=MINUTES_MAX, help="How long to inject faults.")
    ] = 30.0,
    scenario: Annotated[
        str, typer.Option(metavar="NAME", help="A scenario with random faults.")
    ] = SOAK,
    out: Out = None,
    seed: Seed = None,
    broken: Broken = None,
    as_json: AsJson = False,
) -> None:
    """Inject random faults, one after another, for a long time.

    Besides the usual promises, memory and file descriptors of all processes must not grow.
    """
    _play([scenario], out, seed, broken, minutes, {}, as_json)


@dataclass
class _Sum:
    """Of all that was played."""

    out: Path
    outcomes: list[tuple[str, Outcome]] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return all(outcome.is_well for _, outcome in self.outcomes)

    def kinds(self) -> list[str]:
        return sorted({strike.fault for _, each in self.outcomes for strike in each.strikes})

    def document(self, left_out: dict[str, str]) -> dict[str, Any]:
        return {
            "is_well": self.is_well,
            "out": str(self.out),
            "kinds": self.kinds(),
            "not_run": left_out,
            "runs": [outcome.document() for _, outcome in self.outcomes],
        }


def _play(
    names: Sequence[str],
    out: Path | None,
    seed: int | None,
    broken: str | None,
    minutes: float | None,
    left_out: dict[str, str],
    as_json: bool,
) -> None:
    from gapless.chaos.drill.drill_process import run_apart, unplayed
    from gapless.chaos.report.directory import write_index
    from gapless.protocol.errors import JobError, Misuse

    total = _Sum(_folder(out))
    all_wanted = _wanted(names, total.out, seed, broken, minutes)
    try:
        with ending_in_peace():
            for number, (name, wanted) in enumerate(all_wanted, 1):
                _say(f"{name} ({number} of {len(all_wanted)})")
                try:
                    outcome = run_apart(wanted, lambda what: _say(f"  {what}"))
                except JobError as e:  # the others are played even so
                    outcome = unplayed(wanted, str(e))
                total.outcomes.append((name, outcome))
                if not as_json:
                    for line in _told(name, outcome):
                        print_line(line)
    except KeyboardInterrupt:
        raise Misuse("interrupted: everything it started has been ended") from None
    finally:
        if total.outcomes:
            write_index(total.out, total.outcomes)
    if as_json:
        print_json(total.document(left_out))
    else:
        for line in _summed(total, left_out):
            print_line(line)
    raise typer.Exit(ExitCode.DONE if total.is_well else ExitCode.PROBLEM)


def _wanted(
    names: Sequence[str], out: Path, seed: int | None, broken: str | None, minutes: float | None
) -> list[tuple[str, Wanted]]:
    """All of them, checked: whatever cannot be is refused before anything starts."""
    from gapless.chaos.drill.drill_process import Wanted
    from gapless.chaos.drill.scenario import library
    from gapless.protocol.errors import Misuse

    found: dict[str, Wanted] = {}
    build = None if broken is None else broken.replace("-", " ")
    for each in names:
        is_file = each not in library() and Path(each).is_file()
        path = str(Path(each).resolve()) if is_file else each
        stem = Path(each).stem if is_file else each
        wanted = Wanted(path, str(out / stem), seed, build, minutes)
        wanted.read()
        if stem in found:
            raise Misuse(f"two scenarios are called {stem}: each leaves a folder of that name")
        found[stem] = wanted
    return list(found.items())


def _folder(out: Path | None) -> Path:
    from gapless.protocol.errors import Misuse

    folder = (RUNS / datetime.now(UTC).strftime("%Y%m%d-%H%M%S") if out is None else out).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Misuse(f"--out {folder}: it is not empty; name a folder to be made")
    return folder


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


def _told(name: str, outcome: Outcome) -> Iterator[str]:
    pause = outcome.figures.get("longest_pause_ms")
    back = outcome.figures.get("whole_again_s")
    details = [f"{len(outcome.strikes)} faults", f"{outcome.seconds:.0f} s"]
    details += [f"longest pause {pause:.0f} ms"] if pause is not None else []
    details += [f"whole again in {back:.1f} s"] if back is not None else []
    yield f"{'clean' if outcome.is_well else 'NOT CLEAN':<10} {name:<26} {', '.join(details)}"
    if outcome.problem:
        yield f"{'':<10} {outcome.problem}"
    for held in outcome.held:
        if not held.ok:
            yield f"{'':<10} {held}"


def _summed(total: _Sum, left_out: dict[str, str]) -> Iterator[str]:
    for name, why in left_out.items():
        yield f"{'not run':<10} {name:<26} {why}"
    clean = sum(outcome.is_well for _, outcome in total.outcomes)
    faults = sum(len(outcome.strikes) for _, outcome in total.outcomes)
    yield (
        f"{clean} of {len(total.outcomes)} scenarios clean; {faults} faults of "
        f"{len(total.kinds())} kinds; {len(left_out)} not run"
    )
    yield f"reports: {total.out / 'index.html'}"
