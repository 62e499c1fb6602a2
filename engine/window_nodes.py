"""The nodes that give rows new lifetimes: windows, `lifetime`, `latest_by`.

Window 10 s / 1 s     a row lives as long as the last answer has it in its window
Lifetime 10 s         ... for 10 s
LatestBy src          ... until the next one of its key
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.engine.fit import check_columns, check_span, check_time, type_of
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.operators.row_windows import Context
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Expr

if TYPE_CHECKING:
    from gapless.engine.nodes import Node

WINDOWS_PER_ROW_MAX = 100_000
"""Windows that one row is in: a day that slides by the second has 86,400."""


@dataclass(frozen=True, eq=False, slots=True)
class Window(NodeBase):
    """Lifetimes by windows of `range` (None: all of the past), answered every `slide`.

    `on` is another column to read than `_vs`.
    """

    input: Node
    range: int | None
    slide: int | None
    on: str | None

    def __post_init__(self) -> None:
        for what, span in (("range", self.range), ("slide", self.slide)):
            if span is not None:
                check_span(f"window {what}", span)
        if self.range is not None and self.slide is not None:
            check_span("window range and slide together", self.range + self.slide)
            if self.range > self.slide * WINDOWS_PER_ROW_MAX:
                raise Misuse(
                    f"window range {self.range}, slide {self.slide}: a row would be in "
                    f"{-(-self.range // self.slide)} windows, {WINDOWS_PER_ROW_MAX} are the most"
                )
        if self.on is not None:
            check_column("window on", self.on, self.input.schema.names)
        self._is(self.input.schema, self.input)

    @property
    def context(self) -> Context:
        """What the windows of a row follow from: its time alone."""
        return "CF"


@dataclass(frozen=True, eq=False, slots=True)
class Lifetime(NodeBase):
    """Lifetimes that a row says itself: up to `end`, or for a `duration`; one of the two."""

    input: Node
    end: Expr | None
    duration: int | None

    def __post_init__(self) -> None:
        if (self.end is None) == (self.duration is None):
            raise Misuse("lifetime: give end= or duration=, one of them")
        if self.duration is not None:
            check_span("lifetime duration", self.duration)
        if self.end is not None:
            t = type_of("lifetime end", self.end, self.input.schema.payload)
            check_time(f"lifetime end {self.end}", t, self.input.schema.time_unit)
        self._is(self.input.schema, self.input)


@dataclass(frozen=True, eq=False, slots=True)
class LatestBy(NodeBase):
    """Each row lives until its key's next row."""

    input: Node
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        check_columns("latest_by", self.key, self.input.schema.names)
        if not self.key:
            raise Misuse("latest_by: name the columns of which each value has one latest row")
        self._is(self.input.schema, self.input)
