"""The nodes that give rows new lifetimes: windows, `lifetime`, `latest_by`.

Window 10 s / 1 s     a row lives as long as the last answer has it in its window
Window all / 1 s, 1 h ... until the window begins anew, which it does every hour
Lifetime 10 s         ... for 10 s
LatestBy src          ... until the next one of its key
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from gapless.engine.durations import text
from gapless.engine.fit import check_columns, check_span, check_time, type_of
from gapless.engine.names import check_column
from gapless.engine.node_base import NodeBase
from gapless.operators.row_windows import Context
from gapless.operators.windows import Cumulating, Cut, Hopping, Landmark, Sliding
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Expr

if TYPE_CHECKING:
    from gapless.engine.nodes import Node

WINDOWS_PER_ROW_MAX = 100_000
"""Windows that one row is in: a day that slides by the second has 86,400."""


@dataclass(frozen=True, eq=False, slots=True)
class Window(NodeBase):
    """Lifetimes by windows of `range` (None: all of the past), answered every `slide`.

    `on` is another column to read than `_vs`. With `restart` a window of all of the past begins
    anew at its multiples. Multiples are counted from `origin`, which is less than the first one.
    """

    input: Node
    range: int | None
    slide: int | None
    on: str | None
    restart: int | None = None
    origin: int = 0

    def __post_init__(self) -> None:
        for what in ("range", "slide", "restart"):
            span = getattr(self, what)
            if span is not None:
                check_span(f"window {what}", span)
        if self.range is not None and self.slide is not None:
            check_span("window range and slide together", self.range + self.slide)
            _check_windows_per_row("range", self.range, self.slide)
        if self.restart is not None:
            self._check_restart(self.restart)
        if self.origin:
            self._check_origin()
        if self.on is not None:
            check_column("window on", self.on, self.input.schema.names)
        self._is(self.input.schema, self.input)

    def _check_restart(self, restart: int) -> None:
        shown = f"window restart={text(restart, self.input.schema.time_unit)!r}"
        if self.range is not None:
            raise Misuse(
                f"{shown}: a window of all of the past begins anew, so say range='all'; a range "
                "forgets by itself: leave restart out"
            )
        if self.slide is None:
            raise Misuse(f"{shown}: say how often it is answered, as in slide='1m'")
        if restart % self.slide:
            unit = self.input.schema.time_unit
            slide, divisor = text(self.slide, unit), text(gcd(restart, self.slide), unit)
            longer = text(-(-restart // self.slide) * self.slide, unit)
            raise Misuse(
                f"{shown}: the slide, {slide}, does not divide it, so a window would begin anew "
                f"between two answers: say slide={divisor!r} or restart={longer!r}"
            )
        check_span("window restart and slide together", restart + self.slide)
        _check_windows_per_row("restart", restart, self.slide)

    def _check_origin(self) -> None:
        if self.slide is None:
            raise Misuse(
                "window origin=: without a slide a window ends at every instant, so it has no grid "
                "to move: say slide= too, or leave origin out"
            )
        period = self.restart or self.slide
        if not 0 <= self.origin < period:
            raise Misuse(f"window origin {self.origin}: it is at least 0 and below {period}")

    @property
    def window(self) -> Cut | Landmark | Sliding:
        """What its operator works by."""
        if self.range is None:
            if self.slide is None or self.restart is None:
                return Landmark(self.slide, self.origin)
            return Cumulating(self.restart, self.slide, self.origin)
        if self.slide is None:
            return Sliding(self.range)
        return Hopping(self.range, self.slide, self.origin)

    @property
    def context(self) -> Context:
        """What the windows of a row follow from: its time alone."""
        return "CF"


def _check_windows_per_row(what: str, covers: int, slide: int) -> None:
    if covers > slide * WINDOWS_PER_ROW_MAX:
        raise Misuse(
            f"window {what} {covers}, slide {slide}: a row would be in {-(-covers // slide)} "
            f"windows, {WINDOWS_PER_ROW_MAX} are the most"
        )


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
