"""Numbers of rows, where a window's range or slide may be one: `rows(1000)`.

window(range=rows(1000), slide=rows(10))      the last 1,000 rows, every 10 rows
window(range="5m", slide=rows(1))             the last five minutes, at every row
window(range=rows(100), slide="1m")           the last 100 rows, every minute
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.operators.row_windows import ROWS_MAX
from gapless.protocol.errors import Misuse


@dataclass(frozen=True, slots=True)
class Rows:
    """So many rows."""

    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= ROWS_MAX:
            raise Misuse(
                f"rows({self.count!r}): a whole number of rows, 1 to {ROWS_MAX}, as in "
                "window(range=gl.rows(1000), slide=gl.rows(10))"
            )

    def __str__(self) -> str:
        return f"{self.count:,} row{'s' if self.count > 1 else ''}"


def rows(count: int) -> Rows:
    """A number of rows, as a window's range or slide."""
    return Rows(count)
