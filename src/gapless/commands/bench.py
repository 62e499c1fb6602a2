"""`gapless bench`: measures, and compares the figures with the required ones (bars)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.option_groups import grouped
from gapless.commands.terminal import AsJson, ExitCode, output, print_json, spinner
from gapless.protocol.errors import GaplessError

if TYPE_CHECKING:
    from gapless.bench.harness import Bench, Context, Report, Row


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """How benches measure."""

    plot: Annotated[
        Path | None,
        typer.Option(file_okay=False, metavar="DIR", help="Draw the figures into this directory."),
    ] = None
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=(
                "Smaller sizes and fewer repeats, to see that a bench works. Bars hold for "
                "full sizes, so none is judged."
            ),
        ),
    ] = False
    with_peers: Annotated[
        bool,
        typer.Option(
            "--with-peers",
            help=(
                "Also run the other engines that a bench compares with (engine, runtime). "
                "Installs DuckDB, Polars, numpy and Flink, 2 GB, in $GAPLESS_PEERS_DIR or "
                "~/.cache/gapless-peers; needs Java 17."
            ),
        ),
    ] = False
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="SECTION",
            help="Run only this section (engine, runtime, sidecar, windows).",
        ),
    ] = None
    kills: Annotated[
        int,
        typer.Option(
            "--kills",
            metavar="N",
            help=("How often to kill each kind of process (runtime). The bars hold for 20."),
        ),
    ] = 20
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="N",
            help=(
                "How many rows are alive in runtime's section large. The bars hold for 10,000,000."
            ),
        ),
    ] = None

    def context(self) -> Context:
        """The same, as a bench takes it. Makes the directory of the figures."""
        from gapless.bench.harness import Context

        if self.plot is not None:
            try:
                self.plot.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise typer.BadParameter(f"--plot: cannot make that directory: {error}") from None
        return Context(
            self.quick,
            self.plot,
            self.with_peers,
            say=lambda text: typer.echo(text, err=True),
            only=tuple(self.only or ()),
            kills=self.kills,
            rows=self.rows,
        )


@grouped
def bench(
    *,
    name: Annotated[str | None, typer.Argument(help="The bench. Default: list all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all benches into one report.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List the benches.")] = False,
    options: MeasureOptions,
    as_json: AsJson = False,
) -> None:
    """Measure, and compare the figures with the required ones (bars).

    Exits with 1 if a bar is missed, with 2 if a bench could not run.
    """
    from gapless.bench.harness import BENCHES, load

    if sum((name is not None, every, list_only)) > 1:
        raise typer.BadParameter("give a NAME, --all or --list")
    context = options.context()
    if name is not None:
        report = _measure(load(name, BENCHES), context)
        if as_json:
            print_json(report.to_json())
        else:
            _print_table(report)
            _say_figures(context.plot_dir)
        raise typer.Exit(ExitCode.PROBLEM if report.missed else ExitCode.DONE)
    if every:
        code = _run_all(context, as_json=as_json)
        if not as_json:
            _say_figures(context.plot_dir)
        raise typer.Exit(code)
    _list([load(each, BENCHES) for each in sorted(BENCHES)], as_json=as_json)


def _say_figures(plot: Path | None) -> None:
    if plot is not None:
        count = len(list(plot.glob("*.svg")))
        typer.echo(f"{count} figure{'' if count == 1 else 's'} in {plot}")


def _run_all(context: Context, *, as_json: bool) -> ExitCode:
    """One report of all benches. A bench that cannot run is named and does not stop the rest."""
    from gapless.bench.harness import BENCHES, load

    reports: list[Report] = []
    failures: dict[str, str] = {}
    for name in sorted(BENCHES):
        try:
            report = _measure(load(name, BENCHES), context)
        except GaplessError as error:
            failures[name] = str(error)
            continue
        reports.append(report)
        if not as_json:
            _print_table(report)
    if as_json:
        print_json({"reports": [r.to_json() for r in reports], "could_not_run": failures})
    for name, why in failures.items():
        typer.echo(f"gapless: bench {name} could not run: {why}", err=True)
    if any(report.missed for report in reports):
        return ExitCode.PROBLEM
    return ExitCode.COULD_NOT_RUN if failures else ExitCode.DONE


def _measure(bench: Bench, context: Context) -> Report:
    from gapless.bench.harness import measure

    with spinner(f"measuring {bench.name}") as say:
        rows: list[Row] = []

        def watch(row: Row) -> None:
            rows.append(row)
            say(f"measuring {bench.name}: {len(rows)} done, last {row.name} {_number(row.value)}")

        try:
            return measure(bench, context, watch)
        except BaseException:  # what was measured in half an hour is not lost with the rest
            for row in rows:
                typer.echo(f"{row.name}: {_number(row.value)} {row.unit}".rstrip(), err=True)
            raise


def _list(benches: list[Bench], *, as_json: bool) -> None:
    if as_json:
        print_json([{"bench": bench.name, "summary": bench.summary} for bench in benches])
        return
    for bench in benches:
        typer.echo(f"{bench.name:<12} {bench.summary}")


def _print_table(report: Report) -> None:
    from rich.table import Table
    from rich.text import Text

    machine = report.machine
    versions = " ".join(f"{name} {version or '-'}" for name, version in report.versions.items())
    grouped = ", processes grouped by session (`gapless doctor`)" if machine["autogroups"] else ""
    table = Table(
        title=Text(f"{report.bench}{' (quick: no bar is judged)' if report.quick else ''}"),
        caption=Text(
            f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB, "
            f"{machine['cpu']}{grouped}\n{versions}"
        ),
    )
    table.add_column("what", overflow="fold")
    table.add_column("measured", justify="right", overflow="fold")
    table.add_column("unit", overflow="fold")
    table.add_column("bar", justify="right", overflow="fold")
    table.add_column("holds")
    for row in report.rows:
        table.add_row(
            Text(row.name),
            _number(row.value),
            Text(row.unit),
            "" if row.bar is None or report.quick else f"{row.op} {_number(row.bar)}",
            {True: "[green]yes[/]", False: "[red]MISSED[/]", None: ""}[report.holds(row)],
        )
    output().print(table)


def _number(value: float) -> str:
    """Four digits that count, and a letter where there are many more: 41.2 M."""
    for size, letter in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.4g}"
