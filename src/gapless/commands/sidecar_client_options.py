"""Options of the commands that talk to a sidecar: where it is, who asks, what a changelog is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

TOKEN_VARIABLE = "GAPLESS_TOKEN"  # the name of a variable
"""The token is read from the environment, so that no list of processes shows it."""

Sidecars = Annotated[
    str,
    typer.Option(
        "--sidecar", metavar="HOST:PORT", help="One sidecar, or several separated by commas."
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CA that signs the sidecar's certificate; turns on TLS."),
]


class ChangelogForm(StrEnum):
    """Values of `--changelog`."""

    FLINK = "flink"
    DEBEZIUM = "debezium"
    PLUS_MINUS = "plus-minus"
    OPEN_CLOSE = "open-close"
