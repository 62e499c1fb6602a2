"""`gapless stop`: the end of a job, from anywhere."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gapless.commands.options import Address, JobName
from gapless.commands.terminal import AsJson, print_json, spinner

DRAIN_S = 30 * 24 * 3600.0
"""How long a drain may take: as long as there is input, which somebody watches, or interrupts."""


def stop(
    name: JobName,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait until the input that is there is answered.")
    ] = False,
    address: Address = "auto",
    as_json: AsJson = False,
) -> None:
    """End a job, for good, once its input is answered.

    All that is there now is answered, and durable, before it ends; with --now it is not waited for.
    Returns when it has ended. Ctrl-C only ends the waiting; the job goes on to its end.
    """
    from gapless.actors.handle import attach

    job, began = attach(name, address=address), time.perf_counter()
    with spinner(f"{name}: {'stopping' if now else 'answering what is there'}"):
        job.stop(drain=not now, timeout_s=DRAIN_S)
    document = {
        "job": name,
        "dir": str(job.dir),
        "drained": not now,
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        print_json(document)
    else:
        typer.echo(f"{name} has stopped; what it has put out is in {job.dir}")
