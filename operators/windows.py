"""Windows: which of them a row belongs to, when their answers hold, and how long rows then live.

Window w of `range` r and `slide` s covers the rows of its extent, and its answer is an event:

    extent(w) = [(w+1)s - r, (w+1)s)          answer(w) lives [(w+1)s, (w+2)s)

    r = 10, s = 5        0    5    10   15   20   25
    extent(1)            |---------|                     answer(1) = [10,15)
    extent(2)                 |---------|                answer(2) = [15,20)
    a row at ts = 7              x                       wids(7) = 1..2
    as a lifetime                  |---------|           [10,20): seen by answers 1 and 2

The three functions of the thesis (section 5.1): `windows()` are all that there are, `extent(w)` are
the times of a window, `wids(ts)` the windows of a time. They are inverses: w is in wids(ts) exactly
when ts is in extent(w). Li's equations 5.3, 5.6, 5.8 and 5.9 are printed with ceilings and
contradict the text's own example; floors are right. Ids count from origin 0, never from the first
row seen: replicas must agree. At stable t every window below floor(t / s) is complete (a stable is
exclusive; "equaling" in figure 6-4 skips windows).

Operators that are not aggregates see windows as lifetimes: a row lives as long as it is in the
window that the last answer was about, or, without a slide, in the window that ends now.

    Hopping(r, s)        [(floor(ts/s)+1)s, (floor((ts+r)/s)+1)s)      For(d)      [ts, ts+d)
    Cumulating(R, s)     [(floor(ts/s)+1)s, (floor(ts/R)+1)R + s)      Until(end)  [ts, end)
    Sliding(r)           [ts, ts+r)
    Landmark(s)          [(floor(ts/s)+1)s, INF)
    Landmark()           [ts, INF)

A cumulating window is a landmark that begins anew every R, a multiple of s: its extent grows by a
slide from answer to answer, up to R.

    R = 15, s = 5        0    5    10   15   20   25
    extents of 0, 1, 2   |----|
                         |---------|
                         |--------------|
    extent of 3                         |----|
    a row at ts = 7              x                       wids(7) = 1..2, as a lifetime [10,20)

With an `origin`, in the first slide or before the first restart, multiples are counted from there:
all of the above holds of times relative to it.

Ends saturate at INF. A start that would lie at INF or beyond is given as INF.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.operators.evaluation import Computed
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

WindowIds = range
"""Window-ids without a gap. (Its own name: windows have a `range`, too.)"""


class _Stepping:
    """What windows have in common that are answered every slide."""

    __slots__ = ()

    origin: int
    """Where the windows are counted from."""

    @property
    def _step(self) -> int:
        raise NotImplementedError

    def relative(self, ts: Times) -> Times:
        """Times less the origin; the earliest of all at least."""
        return np.maximum(ts, BEGIN + 1 + self.origin) - self.origin if self.origin else ts

    def windows(self) -> WindowIds:
        """All windows: from that of the earliest time to the last whose end is a time."""
        first, last = BEGIN + 1 - self.origin, INF - 1 - self.origin
        return range(first // self._step, last // self._step)

    def first(self, ts: Times) -> Times:
        """The lowest window that each row belongs to."""
        return self.relative(ts) // self._step

    def ends(self, windows: Times) -> Times:
        """Where windows end."""
        return (windows + 1) * self._step + self.origin

    def end(self, w: int) -> int:
        """Where window w ends."""
        return (w + 1) * self._step + self.origin

    def answer(self, w: int) -> tuple[int, int]:
        """The lifetime [vs, ve) of the answer of window w."""
        return self.end(w), self.end(w + 1)

    def complete_below(self, stable: int) -> int:
        """Every window below this one has all its rows; INF at the end of the stream."""
        return INF if stable == INF else (stable - self.origin) // self._step

    def stable(self, stable: int) -> int:
        """What an input's stable promises of the answers, and of rows as lifetimes."""
        if stable == INF:
            return INF
        return min(self.end(self.complete_below(stable)), INF - 1)  # no answer starts later

    def first_wanted(self, t: int) -> int:
        """The lowest window whose answer has `ve >= t`."""
        return -((self.origin - t) // self._step) - 2

    def _starts(self, ts: Times) -> Times:
        """The end of the first window of each time."""
        before, last = self.first(ts), self.windows().stop - 1
        return np.where(before > last, INF, self.ends(np.minimum(before, last)))


@dataclass(frozen=True, slots=True)
class Hopping(_Stepping):
    """Windows of `range` that start every `slide`; tumbling where both are equal."""

    range: int
    slide: int
    origin: int = 0

    def __post_init__(self) -> None:
        _check_span("window range", self.range)
        _check_span("window slide", self.slide)
        _check_origin(self.origin, self.slide)

    @property
    def _step(self) -> int:
        return self.slide

    @property
    def reach(self) -> int:
        """How much time before t rows are seen by answers with `ve >= t`."""
        return min(INF, self.range + self.slide)

    @property
    def latest(self) -> int:
        """The last time of a row all of whose answers end before INF, which means no end."""
        return INF - 1 - self.range - self.slide

    @property
    def windows_per_row(self) -> int:
        """In how many windows a row is at most."""
        return -(-self.range // self.slide)

    def last(self, ts: Times) -> Times:
        """The highest; below `first` where slide > range and the row falls between extents."""
        return (self.relative(ts) + self.range) // self.slide - 1

    def wids(self, ts: int) -> WindowIds:
        """The windows that have time ts."""
        ts -= self.origin
        last = (ts + self.range) // self.slide - 1
        return range(ts // self.slide, min(last + 1, self.windows().stop))

    def extent(self, w: int) -> tuple[int, int]:
        """The times [from, to) whose rows window w covers."""
        return self.end(w) - self.range, self.end(w)

    def rows_needed_from(self, t: int) -> int:
        """The earliest row that an answer with `ve >= t` needs."""
        return self.rows_needed_from_window(self.first_wanted(t))

    def rows_needed_from_window(self, w: int) -> int:
        """The earliest row that windows from w on need."""
        return max(BEGIN, self.extent(w)[0])

    def spans(self, ends: Times) -> Times:
        """How much time the windows with these ends cover."""
        return np.full(len(ends), self.range)

    def lifetimes(self, ts: Times) -> tuple[Times, Times]:
        """The lifetime of a row at each time; empty where slide > range and no answer sees it."""
        s, since = self.slide, self.relative(ts)
        whole, rest = divmod(self.range, s)
        before = since // s
        carry = since % s >= s - rest  # floor((ts+r)/s), without a sum that is no int64
        room = (INF - self.origin) // s - whole - 1 - carry
        ends = self.ends(np.minimum(before, room) + whole + carry)
        return self._starts(ts), np.where(before > room, INF, ends)


@dataclass(frozen=True, slots=True)
class Cumulating(_Stepping):
    """Windows of all since the last multiple of `restart`, answered every `slide`."""

    restart: int
    slide: int
    origin: int = 0

    def __post_init__(self) -> None:
        _check_span("window restart", self.restart)
        _check_span("window slide", self.slide)
        _check_origin(self.origin, self.restart)
        if self.restart % self.slide:
            raise Misuse(f"window slide {self.slide} does not divide restart {self.restart}")

    @property
    def _step(self) -> int:
        return self.slide

    @property
    def reach(self) -> int:
        """How much time before t rows are seen by answers with `ve >= t`."""
        return min(INF, self.restart + self.slide)

    @property
    def latest(self) -> int:
        """The last time of a row all of whose answers end before INF, which means no end."""
        last = (INF - 1 - self.slide - self.origin) // self.restart * self.restart
        return last + self.origin - 1

    @property
    def windows_per_row(self) -> int:
        """In how many windows a row is at most: one right after the restart is."""
        return self.restart // self.slide

    def last(self, ts: Times) -> Times:
        """The highest window that each row belongs to: the last before the next restart."""
        return (self.relative(ts) // self.restart + 1) * self.windows_per_row - 1

    def wids(self, ts: int) -> WindowIds:
        """The windows that have time ts."""
        ts -= self.origin
        end = (ts // self.restart + 1) * self.windows_per_row
        return range(ts // self.slide, min(end, self.windows().stop))

    def extent(self, w: int) -> tuple[int, int]:
        """The times [from, to) whose rows window w covers."""
        start = w * self.slide // self.restart * self.restart
        return start + self.origin, self.end(w)

    def rows_needed_from(self, t: int) -> int:
        """The earliest row that an answer with `ve >= t` needs."""
        return self.rows_needed_from_window(self.first_wanted(t))

    def rows_needed_from_window(self, w: int) -> int:
        """The earliest row that windows from w on need."""
        return max(BEGIN, self.extent(w)[0])

    def spans(self, ends: Times) -> Times:
        """How much time the windows with these ends cover."""
        return ((ends - 1) % self.restart - self.origin) % self.restart + 1

    def lifetimes(self, ts: Times) -> tuple[Times, Times]:
        """The lifetime of a row at each time."""
        period = self.relative(ts) // self.restart
        room = (INF - self.slide - self.origin) // self.restart - 1
        ends = (np.minimum(period, room) + 1) * self.restart + self.slide + self.origin
        return self._starts(ts), np.where(period > room, INF, ends)


Cut = Hopping | Cumulating
"""Windows whose answers are cut at each slide."""


@dataclass(frozen=True, slots=True)
class Landmark(_Stepping):
    """Windows that begin with time itself, answered every `slide`; or at every instant."""

    slide: int | None = None
    origin: int = 0

    def __post_init__(self) -> None:
        if self.slide is not None:
            _check_span("window slide", self.slide)
        _check_origin(self.origin, self.slide or 1)

    @property
    def _step(self) -> int:
        if self.slide is None:
            raise Misuse("a landmark window without a slide has no answers: say slide=")
        return self.slide

    @property
    def reach(self) -> int:
        """All of the past."""
        return INF

    @property
    def latest(self) -> int:
        """The last time of a row whose first answer ends before INF."""
        return INF - 1 - 2 * self._step

    def wids(self, ts: int) -> WindowIds:
        """The windows that have time ts: all from its first on."""
        return range((ts - self.origin) // self._step, self.windows().stop)

    def extent(self, w: int) -> tuple[int, int]:
        """The times [from, to) whose rows window w covers."""
        return BEGIN, self.end(w)

    def rows_needed_from(self, t: int) -> int:
        """The earliest row of all: every answer needs it."""
        del t
        return BEGIN

    def rows_needed_from_window(self, w: int) -> int:
        """The earliest row of all: every window has it."""
        del w
        return BEGIN

    def stable(self, stable: int) -> int:
        """What an input's stable promises of the answers, and of rows as lifetimes."""
        return stable if self.slide is None else _Stepping.stable(self, stable)

    def lifetimes(self, ts: Times) -> tuple[Times, Times]:
        """The lifetime of a row at each time."""
        starts = ts if self.slide is None else self._starts(ts)
        return starts, np.full(len(ts), INF)


class _Lasting:
    """What lifetimes have in common that start with their row and last for some time."""

    __slots__ = ()

    @property
    def reach(self) -> int:
        """How much time before t rows still live at t."""
        raise NotImplementedError

    def rows_needed_from(self, t: int) -> int:
        """The earliest row that lives until t."""
        return max(BEGIN, t - self.reach)

    def stable(self, stable: int) -> int:
        """A row starts when it comes, so the promise is the same."""
        return stable

    def lifetimes(self, ts: Times) -> tuple[Times, Times]:
        """The lifetime of a row at each time."""
        room = INF - self.reach
        if not len(ts) or ts.max() <= room:
            return ts, ts + self.reach
        return ts, np.where(ts > room, INF, np.minimum(ts, room) + self.reach)


@dataclass(frozen=True, slots=True)
class Sliding(_Lasting):
    """A window that moves with every instant: of each, the `range` before it."""

    range: int

    def __post_init__(self) -> None:
        _check_span("window range", self.range)

    @property
    def reach(self) -> int:
        """Its range."""
        return self.range


@dataclass(frozen=True, slots=True)
class For(_Lasting):
    """Rows that live for a `duration`."""

    duration: int

    def __post_init__(self) -> None:
        _check_span("lifetime duration", self.duration)

    @property
    def reach(self) -> int:
        """Its duration."""
        return self.duration


@dataclass(frozen=True, slots=True)
class Until:
    """Rows that live until what `end` says of them; null: for ever."""

    end: Computed

    @property
    def reach(self) -> int:
        """All of the past: any row may say that it still lives."""
        return INF

    def rows_needed_from(self, t: int) -> int:
        """The earliest row of all."""
        del t
        return BEGIN

    def stable(self, stable: int) -> int:
        """A row starts when it comes, so the promise is the same."""
        return stable


def _check_origin(origin: int, period: int) -> None:
    if not 0 <= origin < period:
        raise Misuse(f"window origin {origin}: it is at least 0 and below {period}")


def _check_span(what: str, span: int) -> None:
    if not 1 <= span < INF:
        raise Misuse(f"{what} {span}: it is at least 1, and less than all of time")
