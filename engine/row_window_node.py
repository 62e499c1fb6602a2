"""The node of a window that counts rows: a range of rows, a slide of rows, or both.

window(range=rows(1000), slide=rows(10), partition_by="src")     ranks and windows by src

Which rows a window has depends on how many there are, so such a window gives rows no lifetimes of
their own: the aggregate directly above answers it, and what chooses or computes rows goes below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from gapless.engine.fit import check_columns, check_span
from gapless.engine.known import Hop, Properties
from gapless.engine.node_base import NodeBase
from gapless.engine.row_counts import Rows
from gapless.operators.row_windows import (
    Context,
    LastRows,
    RowHopping,
    RowLandmark,
    SlideByTuple,
)
from gapless.operators.row_windows import RowWindow as Described
from gapless.operators.windows import Landmark
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse

if TYPE_CHECKING:
    from gapless.engine.nodes import Node


@dataclass(frozen=True, eq=False, slots=True)
class RowWindow(NodeBase):
    """Windows of `range` (None: all of the past), answered every `slide`; one of them in rows."""

    input: Node
    range: int | Rows | None
    slide: int | Rows
    partition_by: tuple[str, ...]

    def __post_init__(self) -> None:
        for what, span in (("range", self.range), ("slide", self.slide)):
            if isinstance(span, int):
                check_span(f"window {what}", span)
        if not isinstance(self.range, Rows) and not isinstance(self.slide, Rows):
            raise Misuse("a window that counts rows has a range or a slide of rows")
        check_columns("window partition_by", self.partition_by, self.input.schema.names)
        self._is(self.input.schema, self.input)

    @property
    def window(self) -> Described:
        """What its operator works by."""
        match self.range, self.slide:
            case Rows(covers), Rows(every):
                return RowHopping(covers, every)
            case Rows(covers), int(every):
                return LastRows(covers, every)
            case int(covers), Rows(every):
                return SlideByTuple(covers, every)
            case None, Rows(every):
                return RowLandmark(every)
        raise Misuse("a window that counts rows has a range or a slide of rows")

    @property
    def context(self) -> Context:
        """What the windows of a row follow from."""
        return self.window.context(bool(self.partition_by))

    def __str__(self) -> str:
        """As its author wrote it, in the unit of its times."""
        spans = ("all" if self.range is None else self.range, self.slide)
        covers, slide = (f"rows({s.count})" if isinstance(s, Rows) else repr(s) for s in spans)
        by = f", partition_by={list(self.partition_by)}" if self.partition_by else ""
        return f"window(range={covers}, slide={slide}{by})"


def counted(node: RowWindow, p: Properties) -> Properties:
    """What is known of the rows of such a window, for the aggregate that answers it."""
    text = str(node)
    hop = Hop(node.window, None)
    return replace(p, hop=hop, window=text, progress={}, own_reach=INF, own_divergence=())


def answered_held(
    window: Described | Landmark, group_by: Sequence[str], divergence: tuple[str, ...]
) -> Properties:
    """What is known of answers that are held: of a group one at a time, each until the next."""
    grain = window.slide or 1 if isinstance(window, LastRows | Landmark) else 1
    grain = gcd(grain, window.origin) if isinstance(window, Landmark) else grain
    return Properties(key=True, unique=tuple(group_by), grain=grain, own_divergence=divergence)
