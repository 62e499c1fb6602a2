"""`gapless demo`: a replica, a merger and a whole node die, and the output goes on, whole."""

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
        str, typer.Option(metavar="N", help="Events a second, live: 1k to 500k.")
    ] = "50k",
    seed: Annotated[int, typer.Option(help="What the events are drawn from.")] = 0,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep events, journal and job here, for a look at them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show machines dying, and the output whole.

    Draws network flows and prepares them with Spark, starts a Ray cluster of three nodes on this
    machine, runs a query with three replicas (two different plans) and two mergers on a live
    stream, kills a replica, a merger and a whole node, lets them rejoin, and holds the output
    against a batch run over all events.

    Takes less than two minutes on two cores. Exits with 0 when nothing is lost, doubled or
    contradicted and all came back, 1 when anything is off, 2 when it could not run. Leaves nothing
    running, also when it is interrupted.
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
        raise Misuse("interrupted: everything that it had started was ended") from None
    if as_json:
        print_json(outcome.document())
    else:
        for line in outcome.lines():
            typer.echo(line)
    raise typer.Exit(ExitCode.DONE if outcome.is_well else ExitCode.PROBLEM)
