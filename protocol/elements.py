"""The three kinds of stream elements (LMerge paper, Example 3), and time itself.

    Insert(p, vs, ve)        adds the event <p, [vs, ve)>
    Adjust(p, vs, was, ve)   turns <p, [vs, was)> into <p, [vs, ve)>; ve == vs removes it
    Stable(t)                freezes what lies before t: no later insert has vs < t,
                             no later adjust has was < t or ve < t

Example: `Insert(("A",), 6, 20), Adjust(("A",), 6, 20, 30), Adjust(("A",), 6, 30, 25)` says the
same as `Insert(("A",), 6, 25)`.

Elements are for people, tests, the text notation and the slow twins. Whatever costs time in
proportion to data works on a `Frame`, which holds many elements as columns.

Time is an int64 count of the schema's unit. Lifetimes are half-open. `INF` is the largest int64
and stands for "no end yet"; `BEGIN`, the smallest, lies before every time and is never the time
of an event: it is the stable of a stream that has promised nothing, and the `_was` of an insert.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

from gapless.protocol.errors import FrameError

BEGIN = -(2**63)
INF = 2**63 - 1

Payload = tuple[Any, ...]


def format_time(t: int) -> str:
    """A time as the text notation writes it."""
    return "inf" if t == INF else "begin" if t == BEGIN else str(t)


def as_time(name: str, t: int) -> int:
    """A time as a Python int; raises for what is no integer (1.5, None), however close."""
    try:
        return index(t)
    except TypeError:
        raise FrameError(f"{name} is {t!r}: a time is an integer") from None


def _check_start(vs: int) -> None:
    vs = as_time("vs", vs)
    if not BEGIN < vs < INF:
        raise FrameError(f"vs is {format_time(vs)}: an event starts at a finite int64 time")


def _check_end(name: str, t: int) -> None:
    if as_time(name, t) > INF:
        raise FrameError(f"{name} is {t}: a time is an int64 (use INF for no end)")


@dataclass(frozen=True, slots=True)
class Insert:
    """Adds the event <payload, [vs, ve)>."""

    payload: Payload
    vs: int
    ve: int

    def __post_init__(self) -> None:
        _check_start(self.vs)
        _check_end("ve", self.ve)
        if self.ve <= self.vs:
            raise FrameError(f"insert with vs {self.vs} and ve {self.ve}: an event needs vs < ve")


@dataclass(frozen=True, slots=True)
class Adjust:
    """Turns <payload, [vs, was)> into <payload, [vs, ve)>; `ve == vs` removes the event."""

    payload: Payload
    vs: int
    was: int
    ve: int

    def __post_init__(self) -> None:
        _check_start(self.vs)
        _check_end("was", self.was)
        _check_end("ve", self.ve)
        if self.was <= self.vs:
            raise FrameError(f"adjust with vs {self.vs} and was {self.was}: needs vs < was")
        if self.ve < self.vs:
            raise FrameError(f"adjust with vs {self.vs} and ve {self.ve}: needs vs <= ve")


@dataclass(frozen=True, slots=True)
class Stable:
    """A promise: nothing before `t` changes any more. `Stable(INF)` ends the stream."""

    t: int

    def __post_init__(self) -> None:
        check_stable(self.t)


Element = Insert | Adjust | Stable


def check_stable(t: int) -> int:
    """`t` as an int; raises unless it may be the time of a stable."""
    t = as_time("stable", t)
    if not BEGIN < t <= INF:
        raise FrameError(f"stable({t}): needs an int64 time above the smallest")
    return t
