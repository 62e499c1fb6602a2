"""From the arguments of `window(...)` to the node that they describe.

window(range="10s", slide="1s")                  Window 10 s / 1 s
window(session="30s", partition_by="src")        Session 30 s by src
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from gapless.engine.durations import Duration, text, ticks
from gapless.engine.known import Properties
from gapless.engine.nodes import Node, Session, Window
from gapless.protocol.column_names import column_name, column_names
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Expr

Columns = str | Expr | Sequence[str | Expr]
"""A column, or several."""


def window_node(
    below: Node,
    known: Properties,
    covers: Duration | None,
    slide: Duration | None,
    on: str | Expr | None,
    session: Duration | None,
    partition_by: Columns,
) -> Node:
    """The node above `below`; raises `Misuse` where arguments do not go together."""
    column = None if on is None else column_name("window on", on)
    if column in known.starts:
        column = None
    given = [partition_by] if isinstance(partition_by, str | Expr) else partition_by
    partition = column_names("window partition_by", given)
    if session is not None:
        if covers is not None or slide is not None:
            raise Misuse(
                "window: a session is as long as its rows make it: say session= alone, or range= "
                "and slide="
            )
        gap = ticks(session, below.schema.time_unit, "window session", least=1)
        return Session(below, gap, partition, column)
    if covers is None:
        raise Misuse("window: say range=, as in window(range='10s', slide='1s'), or session=")
    if partition:
        raise Misuse(
            "window partition_by: goes with session=; windows of time are the same for all rows, "
            "so say group_by(...) above them"
        )
    return _window(below, covers, slide, column)


def _window(below: Node, covers: Duration, slide: Duration | None, on: str | None) -> Window:
    unit = below.schema.time_unit
    spans = None if covers == "all" else ticks(covers, unit, "window range", least=1)
    every = None if slide is None else ticks(slide, unit, "window slide", least=1)
    if every is not None and spans is not None and every > spans:
        warnings.warn(
            f"window: the slide, {text(every, unit)}, is longer than the range, "
            f"{text(spans, unit)}: rows between two windows are skipped; to count every "
            f"row once use range={text(every, unit)!r}",
            UserWarning,
            stacklevel=4,
        )
    return Window(below, spans, every, on)
