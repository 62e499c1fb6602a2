"""From the arguments of `window(...)` to the node that they describe.

window(range="10s", slide="1s")                                   Window 10 s / 1 s
window(range=rows(1000), slide=rows(10), partition_by="src")      RowWindow 1,000 / 10 rows by src
window(range=rows(1), partition_by="src")                         LatestRows 1 by src
window(range="all", slide="10m", restart="1h")                    Window all / 10 min, restart 1 h
window(session="30s", partition_by="src")                         Session 30 s by src
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import datetime

from gapless.engine.durations import Duration, instant, text, ticks
from gapless.engine.known import Properties
from gapless.engine.nodes import LatestRows, Node, RowWindow, Session, Window
from gapless.engine.row_counts import Rows
from gapless.protocol.column_names import column_name, column_names
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.expr import Expr

Columns = str | Expr | Sequence[str | Expr]
"""A column, or several."""
Span = Duration | Rows
"""Of time, or of rows."""

_LEVEL = 5
"""Calls from a warning up to that of `window`."""


def window_node(
    below: Node,
    known: Properties,
    covers: Span | None,
    slide: Span | None,
    on: str | Expr | None,
    session: Duration | None,
    partition_by: Columns,
    restart: Duration | None,
    origin: Duration | datetime | None,
) -> Node:
    """The node above `below`; raises `Misuse` where arguments do not go together."""
    column = None if on is None else column_name("window on", on)
    if column in known.starts:
        column = None
    given = [partition_by] if isinstance(partition_by, str | Expr) else partition_by
    partition = column_names("window partition_by", given)
    if session is not None:
        if any(given is not None for given in (covers, slide, restart)):
            raise Misuse(
                "window: a session is as long as its rows make it: say session= alone, or range= "
                "and slide="
            )
        _no_origin(origin, "a session begins with its first row")
        gap = ticks(session, below.schema.time_unit, "window session", least=1)
        return Session(below, gap, partition, column)
    if covers is None:
        raise Misuse("window: say range=, as in window(range='10s', slide='1s'), or session=")
    if isinstance(covers, Rows) or isinstance(slide, Rows):
        if restart is not None:
            raise Misuse(
                "window restart=: windows that count rows do not begin anew at a time: say "
                "range='all' and a slide of time, as in slide='10m'"
            )
        _no_origin(origin, "rows are counted from the first of all")
        return _row_window(below, covers, slide, column, partition)
    if partition:
        raise Misuse(
            f"window partition_by={', '.join(partition)}: goes with session= and gl.rows(n); "
            "windows of time are the same for all rows, so say "
            f"group_by({', '.join(map(repr, partition))}) above them"
        )
    return _window(below, covers, slide, column, restart, origin)


def _window(
    below: Node,
    covers: Duration,
    slide: Duration | None,
    on: str | None,
    restart: Duration | None,
    origin: Duration | datetime | None,
) -> Window:
    unit = below.schema.time_unit
    spans, every = _ticks(covers, "range", unit), _ticks(slide, "slide", unit)
    anew = None if restart is None else ticks(restart, unit, "window restart", least=1)
    if every is not None and spans is not None and every > spans:
        _warn_of_gaps(text(every, unit), text(spans, unit), repr(text(every, unit)))
    start = 0 if origin is None else instant(origin, unit, "window origin")
    period = anew or every
    return Window(below, spans, every, on, anew, start if period is None else start % period)


def _no_origin(origin: object, why: str) -> None:
    if origin is not None:
        raise Misuse(f"window origin=: moves windows of time with a slide, and {why}: leave it out")


def _row_window(
    below: Node, covers: Span, slide: Span | None, on: str | None, partition_by: tuple[str, ...]
) -> RowWindow | LatestRows:
    if on is not None:
        raise Misuse(
            f"window on={on!r}: rows are ranked by their time, which is the source's: leave on out"
        )
    if slide is None:
        if not isinstance(covers, Rows):
            raise Bug("one of range and slide counts rows")
        return LatestRows(below, covers, partition_by)
    unit = below.schema.time_unit
    spans = covers if isinstance(covers, Rows) else _ticks(covers, "range", unit)
    every = slide if isinstance(slide, Rows) else ticks(slide, unit, "window slide", least=1)
    if isinstance(spans, Rows) and isinstance(every, Rows) and every.count > spans.count:
        _warn_of_gaps(str(every), str(spans), f"gl.rows({every.count})")
    return RowWindow(below, spans, every, partition_by)


def _ticks(span: Duration | None, what: str, unit: str) -> int | None:
    if span is None or span == "all":
        return None
    return ticks(span, unit, f"window {what}", least=1)


def _warn_of_gaps(slide: str, covers: str, instead: str) -> None:
    warnings.warn(
        f"window: the slide, {slide}, is longer than the range, {covers}: rows between two windows "
        f"are skipped; to count every row once use range={instead}",
        UserWarning,
        stacklevel=_LEVEL,
    )
