"""`gapless explain`: the plan of a query file in words, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.commands.terminal import AsJson, print_json, print_line

if TYPE_CHECKING:
    from gapless.engine.plan import Plan


def explain(
    query: Annotated[
        Path,
        typer.Argument(metavar="QUERY", help="A Python file that defines `query`, or a SQL file."),
    ],
    as_json: AsJson = False,
) -> None:
    """Print what a query does, step by step, and what it costs.

    Nothing runs, and no journal is needed, except those that a SQL file names. A file that defines
    `plans` has them all printed.
    """
    from gapless.actors.plans import named_plans
    from gapless.commands.query_file import read

    file = read(query)
    print_plans(named_plans(file.query, file.plans), {}, as_json=as_json)


def print_plans(plans: Mapping[str, Plan], journals: Mapping[str, str], *, as_json: bool) -> None:
    """The plans by name, and by source the journals that they read."""
    if as_json:
        texts = {name: plan.explain() for name, plan in plans.items()}
        print_json({"plans": texts, "journals": dict(journals)})
        return
    for name, plan in plans.items():
        if len(plans) > 1:
            print_line(f"plan {name}:")
        print_line(plan.explain().rstrip())
    for source, path in journals.items():
        print_line(f"source {source}: {path}")
