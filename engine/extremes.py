"""Which computed columns progress because they are the greatest or least of columns that do.

    at = gl.greatest(gl.col("ts"), gl.col("ts_right"))      join.map(at=at).window(..., on="at")

How marks of them follow is told in `operators/extremes.py`. What is behind a value at most: of the
greatest the least that is behind one of the columns, of the least the most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.engine.known import Properties
from gapless.operators.extremes import Extreme
from gapless.protocol.expr import Call, Column

if TYPE_CHECKING:
    from gapless.engine.nodes import Select

_GREATEST, _LEAST = "max_element_wise", "min_element_wise"


def extremes_of(node: Select, p: Properties) -> list[Extreme]:
    """The extremes that a select computes of progressing columns; `p` is of its input."""
    found = []
    for name, computed in node.columns:
        if not isinstance(computed, Call) or computed.function not in (_GREATEST, _LEAST):
            continue
        columns = tuple(arg.name for arg in computed.args if isinstance(arg, Column))
        if len(columns) == len(computed.args) and all(c in p.progress for c in columns):
            either = computed.function == _GREATEST and p.no_nulls
            found.append(Extreme(name, columns, either))
    return found


def lags_of(node: Select, p: Properties) -> dict[str, int]:
    """By extreme, the most that an end is after its value."""
    found = {}
    for each in extremes_of(node, p):
        lags = [p.progress[column] for column in each.columns]
        computed = dict(node.columns)[each.name]
        greatest = isinstance(computed, Call) and computed.function == _GREATEST
        found[each.name] = min(lags) if greatest and p.no_nulls else max(lags)
    return found
