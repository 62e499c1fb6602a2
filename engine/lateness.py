"""How late a source's rows may come: what it promises while it is read (docs/engine.md, "Sources").

    lateness="5s", 5000      TimeLate(5000)   stable is the largest time so far less 5 s
    lateness=0, ordered()    TimeLate(0)      times never fall
    lateness=k_late(100)     KLate(100)       the largest time except for the last 100 rows
    lateness=None            Watermarks()     what the input itself says, between batches

This says what was declared. The verdict on each row is the intake's where batches come in, and the
journal's where rows come from one: there it was made once, so all who read them share it. What was
declared is then only held against the journal's own bound (`judged.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.engine.durations import Duration, text, ticks
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse

ROWS_MAX = 1 << 24
"""Rows that k-late looks back over: it keeps that many times."""


@dataclass(frozen=True, slots=True)
class TimeLate:
    """A row is late if its time is more than `bound` below the largest before it."""

    bound: int
    """In the source's unit of time; 0: in order."""

    def __post_init__(self) -> None:
        if not 0 <= self.bound < INF:
            raise Misuse(f"lateness {self.bound}: it is not negative")


@dataclass(frozen=True, slots=True)
class KLate:
    """A row is late if its time is below the largest before it, except for the last `rows`."""

    rows: int

    def __post_init__(self) -> None:
        if type(self.rows) is not int or not 0 <= self.rows <= ROWS_MAX:
            raise Misuse(f"k_late({self.rows!r}): a number of rows, 0 to {ROWS_MAX}")


@dataclass(frozen=True, slots=True)
class Watermarks:
    """A row is late if it is below what the input has promised."""


Lateness = TimeLate | KLate | Watermarks


def ordered() -> Lateness:
    """The source's times never fall."""
    return TimeLate(0)


def k_late(rows: int) -> Lateness:
    """Fewer than `rows` rows, or as many, come between a row and its place in order."""
    return KLate(rows)


def watermarks() -> Lateness:
    """The input promises by itself: `Punctuation.of(ts=...)` between its batches."""
    return Watermarks()


def lateness_of(given: Duration | Lateness | None, unit: str) -> Lateness:
    """What a user wrote after `lateness=`."""
    if given is None:
        return Watermarks()
    if isinstance(given, TimeLate | KLate | Watermarks):
        return given
    return TimeLate(ticks(given, unit, "lateness"))


def is_ordered(lateness: Lateness) -> bool:
    """Whether a source that keeps it has times that never fall."""
    return lateness in (TimeLate(0), KLate(0))


def lateness_text(lateness: Lateness, unit: str) -> str:
    """As plans print it."""
    if is_ordered(lateness):
        return "in order"
    match lateness:
        case TimeLate(bound):
            return f"lateness {text(bound, unit)}"
        case KLate(rows):
            return f"at most {rows} rows late"
        case Watermarks():
            return "with watermarks"


def lateness_to_document(lateness: Lateness) -> Document:
    """As plain data."""
    match lateness:
        case TimeLate(bound):
            return {"time": bound}
        case KLate(rows):
            return {"rows": rows}
        case Watermarks():
            return {}


def lateness_from_document(document: Document, what: str) -> Lateness:
    """The inverse, for documents from anybody: raises `DecodeError`."""
    fields = Fields(document, what)
    if not document:
        return Watermarks()
    if isinstance(document, dict) and "rows" in document:
        rows = fields.take_int("rows", 0, ROWS_MAX)
        fields.done()
        return KLate(rows)
    bound = fields.take_int("time", 0, INF - 1)
    fields.done()
    return TimeLate(bound)
