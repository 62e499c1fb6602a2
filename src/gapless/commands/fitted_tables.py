"""Tables that fit the window: where it is narrow, what matters least is left out, and that is said.

    wide      merger  state    node  pid   inputs  stable  durable  epoch  waits for
    narrow    merger  state    pid   durable            a wider window, or --json, has also: ...

Rich folds what does not fit, column by column, down to single letters: a table of eleven columns is
then no table any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

AROUND = 3
"""Characters that a column takes beside its text: two blanks and a line."""
FOLDED_AT = 24
"""Characters of a cell that may be folded: sentences, such as a reason."""


@dataclass(frozen=True)
class Column:
    """One column of all rows."""

    name: str
    cells: tuple[str, ...]
    worth: int
    """Those with the largest number go first; 0: it stays."""
    folds: bool = False
    """Whether its text may be folded."""

    @property
    def width(self) -> int:
        """Characters that it needs."""
        longest = max((len(cell) for cell in self.cells), default=0)
        return max(len(self.name), min(longest, FOLDED_AT) if self.folds else longest) + AROUND


@dataclass(frozen=True)
class FittedTable:
    """A table of these columns, or of those that fit. For Rich to print."""

    columns: tuple[Column, ...]

    def fitting(self, width: int) -> tuple[Sequence[Column], Sequence[Column]]:
        """Which of them a window of so many characters shows, and which it leaves out."""
        shown = list(self.columns)
        by_worth = sorted((c for c in self.columns if c.worth), key=lambda c: c.worth)
        while by_worth and 1 + sum(column.width for column in shown) > width:
            shown.remove(by_worth.pop())
        return shown, [column for column in self.columns if column not in shown]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """The table, and a line of what is missing."""
        shown, hidden = self.fitting(options.max_width)
        yield self._table(shown)
        if hidden:
            names = ", ".join(column.name for column in hidden)
            yield Text(f"a wider window, or --json, has also: {names}")

    def _table(self, shown: Sequence[Column]) -> Table:
        table = Table(*(column.name for column in shown))
        for row in self._rows(shown):
            table.add_row(*row)
        return table

    def _rows(self, shown: Sequence[Column]) -> Iterator[tuple[str, ...]]:
        return zip(*(column.cells for column in shown), strict=True)
