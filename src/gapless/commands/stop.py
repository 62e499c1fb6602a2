"""`gapless stop`: ends a job, from any shell."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gapless.commands.options import Address, JobName
from gapless.commands.terminal import AsJson, print_json, spinner

DRAIN_S = 30 * 24 * 3600.0
"""Limit of a drain: it takes as long as there is input, while somebody watches or interrupts."""


def stop(
    name: JobName,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait until the present input is processed.")
    ] = False,
    address: Address = "auto",
    as_json: AsJson = False,
) -> None:
    """End a job for good, once its present input is processed.

    The job ends when the results of its present input are durable; with --now, at once. Returns
    when it has ended. Ctrl-C only ends the waiting: the job still ends.
    """
    from gapless.actors.handle import attach

    job, began = attach(name, address=address), time.perf_counter()
    with spinner(f"{name}: {'stopping' if now else 'processing its present input'}"):
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
        typer.echo(f"{name} has stopped; its output is in {job.dir}")
