"""One case of the section `weight`: a query over an input that grows along one axis.

A case grows along one axis (keys, seconds of a lull, rows of one key, ...) over sizes that each
double or more. Its **work** at a size is what its definition makes of it, by default the rows that
go in and the answers that come out. What it **holds** there is what the definition has to remember,
in any unit. Seconds have to grow as the work does, bytes as what is held does, each within
`engine_weight.LINEAR` of it.

    "max over long windows"     size: seconds of the range; one row a second, one answer a second
                                work: the same at each size; so an answer may not cost more because
                                its window has more panes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapless.bench.weight_feeds import ROW, Feed
from gapless.engine.intake import FRAME_ROWS
from gapless.engine.lateness import Lateness
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import count, sum_

ALL_ANSWERS = 1 << 62


@dataclass(frozen=True)
class Case:
    """One query over inputs of growing size."""

    about: str
    """What the size is."""
    query: Callable[[int], Query]
    feed: Callable[[int], Feed]
    sizes: tuple[int, ...]
    """Ascending."""
    quick: tuple[int, ...]
    """Small ones: they show that the case runs, and warm a process up."""
    work: Callable[[int, int, int], float] = lambda size, rows, answers: rows + answers
    """Of a size, with the rows that went in and the answers that came out."""
    holds: Callable[[int], float] = lambda size: 1
    """How much must be remembered at a size, in any unit; by default as much at every one."""
    answers_max: int = ALL_ANSWERS
    """With so many answers the caller stops."""
    frame_rows: int = FRAME_ROWS


def as_size(size: int) -> float:
    """What is held grows with the size."""
    return size


def rows(name: str = "a", lateness: Lateness | int = 0) -> Query:
    """A source of `weight_feeds.ROW`."""
    return source(name, ROW, time="ts", lateness=lateness)


def counted(range_: str, slide: str) -> Query:
    """A count and a sum by key: both can be subtracted."""
    return rows().window(range_, slide).group_by("k").aggregate(n=count(), v=sum_("v"))
