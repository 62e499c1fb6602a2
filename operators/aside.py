"""Where rows go that a query cannot process: kept with their reason, or the reason to stop.

    aside = Aside("aside")
    aside.put("where (len / n) > 3", batch, "divide by zero")
    aside.count, aside.take()

Mode "stop" raises a `RowError` that shows the first row; nothing is lost in silence in either mode.
What is kept is bounded, and a query does not stop for that: who asked for rows to go aside may have
no hand free to take them, and all replicas of a job would stop at the same row. Of those that are
beyond the bound until somebody takes what is kept, the number is known (`lost`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import pyarrow as pa

from gapless.protocol.errors import Misuse, RowError
from gapless.protocol.plain_rows import NO_FORM, plain_column

OnError = Literal["stop", "aside"]

ASIDE_ROWS_MAX = 100_000
"""Rows kept until somebody takes them: of more than a person looks at, some are enough."""
ROW_TEXT_MAX = 500
"""Characters of a row in a message."""


class SetAside(NamedTuple):
    """Rows that were not processed."""

    where: str
    """The step that could not process them."""
    reason: str
    rows: pa.RecordBatch


class Aside:
    """Keeps the rows of one query, or stops it."""

    def __init__(self, mode: OnError = "stop", rows_max: int = ASIDE_ROWS_MAX) -> None:
        if mode not in ("stop", "aside"):
            raise Misuse(f"on_error {mode!r}: use 'stop' or 'aside'")
        self.mode = mode
        self.count = 0
        """Rows ever set aside."""
        self.lost = 0
        """Of those, the ones that are only counted."""
        self.on_full: Callable[[], object] | None = None
        """Is called where there is no room, to take what is kept."""
        self._rows_max = rows_max
        self._held = 0
        self._kept: list[SetAside] = []

    def put(self, where: str, rows: pa.RecordBatch, reason: str) -> None:
        """Sets rows aside. Raises `RowError` in mode "stop"."""
        if not rows.num_rows:
            return
        if self.mode == "stop":
            raise RowError(where, row_text(rows), reason, "on_error('aside') keeps such rows aside")
        start = 0
        while start < rows.num_rows and self._has_room():
            part = rows.slice(start, self._rows_max - self._held)
            start += part.num_rows
            self.count += part.num_rows
            self._held += part.num_rows
            self._kept.append(SetAside(where, reason, part))
        self.count += rows.num_rows - start
        self.lost += rows.num_rows - start

    def _has_room(self) -> bool:
        if self._held >= self._rows_max and self.on_full is not None:
            self.on_full()
        return self._held < self._rows_max

    def take(self) -> list[SetAside]:
        """What was set aside since the last call."""
        kept, self._kept, self._held = self._kept, [], 0
        return kept


def row_text(rows: pa.RecordBatch) -> str:
    """The first row, for a message."""
    row = {
        name: _value_text(c.slice(0, 1)) for name, c in zip(rows.schema.names, rows, strict=True)
    }
    text = ", ".join(f"{name}={value}" for name, value in row.items())
    return text if len(text) <= ROW_TEXT_MAX else f"{text[:ROW_TEXT_MAX]}..."


def _value_text(value: pa.Array) -> str:
    """Of one value, also of one that Python has no object for: bad rows hold such values."""
    try:
        return repr(value[0].as_py())
    except UnicodeDecodeError:
        return f"a {value.type} that is no UTF-8"
    except NO_FORM:  # a time outside of Python's years, say: its ticks
        return f"{plain_column(value)[0]!r} ({value.type})"
