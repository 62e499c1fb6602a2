"""Clip: what a stream says of the time before T, or of the time from T on.

                      6        20                 T = 10
    event             |--------------------)
    Clip(before=T)    |--------)                        stable(10) and later become stable(inf)
    Clip(from_=T)              |-----------)            stables before 10 become stable(10)

An event that lies on both sides is cut at T, and each side has its part; together they say at each
instant what the stream says. An adjust is cut as the event it changes: where it moves an end on the
other side of T it becomes nothing, where it brings an event over T it becomes an insert, where it
takes one back it becomes a removal.

What keeps true: `before` changes no start, so (payload, vs) stays a key. `from_` lets all that is
alive at T start at T: (payload, vs) stays a key only where no two events with one payload live
together. Inserts that are never adjusted stay so on both sides.
"""

from __future__ import annotations

import numpy as np

from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Clip(Operator):
    """The part of each event before a time, or from a time on."""

    def __init__(
        self, schema: StreamSchema, *, before: int | None = None, from_: int | None = None
    ) -> None:
        at = before if from_ is None else from_
        if at is None or (before is not None and from_ is not None):
            raise Misuse("clip: give before= or from_=, one of them")
        if not BEGIN < at < INF:
            raise Misuse(f"clip at {format_time(at)}: it needs a finite time")
        self.schema = schema
        self._at = at
        self._is_before = before is not None
        self._stable = BEGIN  # of the output

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The rows on this side of the time, and what has become final there. Marks go no further:
        they speak of starts that are others now.
        """
        check_schema(frame, self.schema)
        out = frame
        if len(frame):
            out = self._before(frame) if self._is_before else self._from(frame)
        stable = self._promise(frame.stable)
        return Out(out if out.stable == stable else out.with_stable(stable))

    def _promise(self, stable: int | None) -> int | None:
        """What the input's stable says of this side, if it is news."""
        if self._is_before:
            said = BEGIN if stable is None else INF if stable >= self._at else stable
        else:
            said = self._at if stable is None else max(stable, self._at)
        if said <= self._stable:
            return None
        self._stable = said
        return said

    # -- rows ---------------------------------------------------------------------------------

    def _before(self, frame: Frame) -> Frame:
        """Ends beyond the time become the time; what starts there is left out."""
        at = self._at
        vs, ve, was = frame.vs, frame.ve, frame.was
        if int(vs.max()) < at and int(ve.max()) <= at and int(was.max()) <= at:
            return frame
        ve, was = np.minimum(ve, at), np.minimum(was, at)
        there = (vs < at) & (ve != was)  # an insert's `was` is BEGIN, which no end is
        kept = frame.take(there)
        return Frame.made(self.schema, kept.vs, ve[there], kept.payload.columns, was[there])

    def _from(self, frame: Frame) -> Frame:
        """Starts before the time become the time; what ends there is left out."""
        at = self._at
        vs, ve, was = frame.vs, frame.ve, frame.was
        if int(vs.min()) >= at:
            return frame
        early = vs < at
        came, comes = was > at, ve > at  # whether there was a part here, and whether there will be
        there = ~early | came | comes
        kept = frame.take(there)
        vs = np.maximum(vs, at)
        ve = np.where(
            early & ~comes, at, ve
        )  # a part that goes is removed: it ends where it starts
        was = np.where(early & ~came, BEGIN, was)  # one that comes anew is inserted
        return Frame.made(self.schema, vs[there], ve[there], kept.payload.columns, was[there])

    # -- the rest -----------------------------------------------------------------------------

    def fast_forward(self, t: int) -> int:
        """Where only later times are wanted, nothing of what came before is; what ends up to the
        time has no part behind it.
        """
        if self._is_before:
            return t if t <= self._at else INF
        return max(t, self._at + 1)

    def snapshot(self) -> State:
        """What has been promised."""
        return {FACTS: facts(stable=self._stable)}

    def restore(self, state: State) -> None:
        """Takes it back."""
        check_names(state, FACTS)
        (self._stable,) = read_facts(state, "stable")

    def validate(self) -> None:
        """Raises `Bug` where it has promised what it cannot say."""
        stable = self._stable
        if self._is_before and self._at <= stable < INF:
            raise Bug(f"clipped before {self._at}, a stable of {stable}")
        if not self._is_before and BEGIN < stable < self._at:
            raise Bug(f"clipped from {self._at} on, a stable of {stable}")
