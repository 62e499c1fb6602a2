"""`gapless demo`: kills a replica, a merger and a node, and checks that the output is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapless.commands.interrupts import ending_in_peace
from gapless.commands.options import count
from gapless.commands.terminal import AsJson, ExitCode, print_json

RATE_MIN, RATE_MAX = 1_000, 500_000
"""Below there are no results to speak of; above, a machine cannot have three replicas and feed."""


def demo(
    rate: Annotated[
        str, typer.Option(metavar="N", help="Live events per second: 1k to 500k.")
    ] = "50k",
    seed: Annotated[int, typer.Option(help="Seed of the events.")] = 0,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep events, journal and job in this directory."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kill a replica, a merger and a node, and check the output.

    Generates network flows and prepares them with Spark, starts a three-node Ray cluster on this
    machine, and runs a query with three replicas (two different plans) and two mergers on a live
    stream. Kills a replica, a merger and a whole node, waits until they have rejoined, and compares
    the output with a batch run over all events.

    Takes less than two minutes on two cores. Exits with 0 if nothing is lost, duplicated or
    contradicted and everything came back, 1 if anything is wrong, 2 if it could not run. Leaves
    nothing running, even if interrupted.
    """
    from gapless.commands.demo_run import Options, run
    from gapless.commands.demo_screen import Screen
    from gapless.protocol.errors import Misuse

    a_second = count("--rate", rate)
    if not RATE_MIN <= a_second <= RATE_MAX:
        raise Misuse(f"--rate {rate}: from {RATE_MIN:,} to {RATE_MAX:,} events a second")
    try:
        with Screen() as screen, ending_in_peace():
            outcome = run(Options(a_second, seed, keep), screen)
    except KeyboardInterrupt:
        raise Misuse("interrupted: everything it started has been ended") from None
    if as_json:
        print_json(outcome.document())
    else:
        for line in outcome.lines():
            typer.echo(line)
    raise typer.Exit(ExitCode.DONE if outcome.is_well else ExitCode.PROBLEM)
