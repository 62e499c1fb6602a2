"""How a demonstration looks while it runs: a table that lives on a terminal, plain lines elsewhere.

      12.4 s  replica r0.1 is killed, on n2

    1,420,000 events   38,400 results   up to 00:02:21 of the stream
    slot   node   plan    state     lag    leads
    r0.0   n1     paned   running   0 ms   61 %

Both go to standard error: results alone go to standard output.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gapless.commands.terminal import is_watched

if TYPE_CHECKING:
    from gapless.actors.views import JobView

SHOWN_A_SECOND = 5
"""Looks of the table: the machine has better things to do."""
PLAIN_S = 5.0
"""Between two lines on how far it is, where nobody sees a table."""
_COLOURS = {"running": "green", "joining": "yellow", "suspected": "yellow", "failed": "red"}


@dataclass(frozen=True)
class Progress:
    """How far it is."""

    events: int
    results: int
    view: JobView | None = None


class Screen:
    """Tells a person what happens. A context."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._plain_at_s = 0.0
        self._console = Console(stderr=True, highlight=False)
        self._live = (
            Live(console=self._console, refresh_per_second=SHOWN_A_SECOND, transient=True)
            if is_watched()
            else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began_s

    def say(self, text: str) -> None:
        """Something has happened, or is going to."""
        line = f"{self.seconds:6.1f} s  {text}"
        if self._live is None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        else:
            self._console.print(Text(line))

    def show(self, progress: Progress) -> None:
        """How far it is, as often as that may be said."""
        if self._live is not None:
            self._live.update(_table(progress))
        elif time.monotonic() >= self._plain_at_s:
            self._plain_at_s = time.monotonic() + PLAIN_S
            self.say(_line(progress))


def _line(progress: Progress) -> str:
    return f"{progress.events:,} events, {progress.results:,} results"


def _table(progress: Progress) -> Group | Text:
    view = progress.view
    if view is None:
        return Text(_line(progress))
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("slot", "node", "plan", "state", "lag", "leads"):
        table.add_column(column)
    for slot in view.state.slots:
        is_replica = slot.slot.startswith("r")
        table.add_row(
            slot.slot,
            view.nodes.get(slot.node, "-"),
            slot.plan or "-",
            Text(slot.state, style=_COLOURS.get(slot.state, "red")),
            f"{slot.lag:,} ms" if is_replica else "-",
            f"{slot.lead_share:.0%}" if is_replica else "-",
        )
    return Group(Text(""), Text(_line(progress), style="bold"), table)
