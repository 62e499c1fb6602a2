"""The columns in which answers say which window they are about: what they are, what they promise.

    aggregate(n=gl.count(), at=gl.window_time())     at = _vs - 1: it progresses as `_vs` does
    .window("30s", "30s", on="at")                   so a window may read it: answers roll up

An end equals `_vs`, a time is one tick before it. A start lies the range before it, where windows
have one; of sessions, and of windows that cumulate, it may be any time before, so nothing is
promised of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.engine.known import Properties
from gapless.operators.aggregates.window_bounds import WindowBound
from gapless.operators.windows import Cut, Hopping, Landmark
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.engine.nodes import Aggregate, Node


def time_type(node: Node) -> pa.DataType:
    """The type of the time column of the source that a query reads first."""
    while node.inputs:
        node = node.inputs[0]
    return node.schema.payload.field(node.time).type  # type: ignore[union-attr]  # only sources have none


def bounds_of(node: Aggregate) -> dict[str, WindowBound]:
    """The columns of answers that say something of their window."""
    return {name: f for name, f in node.aggregates if isinstance(f, WindowBound)}


def offsets(node: Aggregate, p: Properties) -> dict[str, int]:
    """What these columns are more than `_vs`, where that is the same in all answers.

    `p` is of the aggregate's input.
    """
    return offsets_of(bounds_of(node), None if p.hop is None else p.hop.window)


def offsets_of(bounds: Mapping[str, WindowBound], window: object) -> dict[str, int]:
    """The same, of answers of this window."""
    span = window.range if isinstance(window, Hopping) else None
    by = {"start": None if span is None else -span, "end": 0, "time": -1}
    found = {name: by[bound.which] for name, bound in bounds.items()}
    return {name: offset for name, offset in found.items() if offset is not None}


def with_bounds(node: Aggregate, answers: Properties, p: Properties) -> Properties:
    """What is known of answers, with what these columns promise."""
    known = offsets(node, p)
    if not known:
        return answers
    return replace(
        answers,
        starts=frozenset(name for name, offset in known.items() if not offset),
        progress={name: min(INF, answers.longest - offset) for name, offset in known.items()},
    )


def check_bounds(node: Aggregate, p: Properties, *, is_session: bool) -> None:
    """Raises `Misuse` where a window does not say what is asked."""
    window = None if p.hop is None else p.hop.window
    for name, bound in bounds_of(node).items():
        if not (is_session or isinstance(window, Cut | Landmark)):
            raise Misuse(
                f"aggregate {name}={bound}: only answers of sessions and of windows of time with a "
                "slide are about one window: say window(range=, slide=) or window(session=)"
            )
        if isinstance(window, Landmark) and bound.which == "start":
            raise Misuse(
                f"aggregate {name}={bound}: a window of all the past has no start: leave it out"
            )
