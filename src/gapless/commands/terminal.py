"""What every command does in the same way.

Results go to stdout and nothing else does; progress and errors go to stderr. So `--json` can be
piped while a person still watches. Exit codes:

    0  done, and all is well
    1  done, and a problem was found: a bar missed, a seed that fails, a machine not fit
    2  could not run: wrong usage, bad input, a failure of ours
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, Any

import typer
from rich.console import Console

TABLE_WIDTH_UNWATCHED = 200
"""Columns for tables that go to a file or a pipe, where no window says how many there are."""

PERCENTS = 100


class ExitCode(IntEnum):
    """What a command's exit says to the script that called it."""

    DONE = 0
    PROBLEM = 1
    COULD_NOT_RUN = 2


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def output() -> Console:
    """Where results go. Lines are never cut: a narrow window folds them."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = TABLE_WIDTH_UNWATCHED
    return console


def print_json(document: Any) -> None:
    """Prints one document. Refuses NaN and infinity, which JSON cannot say."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def print_line(text: str) -> None:
    """Prints a result while a bar is shown: above it, where both go to one window."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def is_watched() -> bool:
    """Whether a person sees stderr."""
    return sys.stderr.isatty()


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """While inside: a spinner beside what was last said, if a person watches. Yields `say`."""
    if not is_watched():
        yield lambda text: None
        return
    with Console(stderr=True).status(text) as status:
        yield status.update


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Callable[[], None]]:
    """While inside: a bar of `total` steps, if a person watches. Yields `advance`, for one step."""
    if not is_watched():
        yield lambda: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    one_window = sys.stdout.isatty()  # else results would go to stderr, where the bar is
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=one_window
    ) as progress:
        task = progress.add_task(text, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def percent_bar(text: str) -> Iterator[Callable[[float], None]]:
    """While inside: a bar that moves in percents, however often it is called, if a person watches.
    Yields what takes the share that is done, 0 to 1.
    """
    steps = 0
    with progress_bar(text, PERCENTS) as advance:

        def show(share: float) -> None:
            nonlocal steps
            while steps < int(PERCENTS * share):
                steps += 1
                advance()

        yield show
