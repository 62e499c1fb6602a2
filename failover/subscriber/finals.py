"""Each event once: what a stream of changes has said for good.

    changes  ins(A,6,20) ins(B,9,12) stable(10)  adj(A,6,20,30) stable(13)  stable(31)
    final                            stable(10)  ins(B,9,12) stable(13)     ins(A,6,30) stable(31)

An event is *final* once nothing about it can change any more: `ve < stable`, and where a plan never
adjusts what it has inserted, already `vs < stable`. stable(INF) makes all of it final. What is not
final yet is held; what is goes out as inserts, followed by the stable that made it so.

So behind a stable t exactly the events have been given that are final at t, whichever life tells
the stream and however. That is the whole token: to go on at t, all events with `ve >= t` are read
again and those that are final at t are left out. One that begins at a time t has no token, and
nothing was given: then none is left out, as of events that only ever insert one that lives at t is
final at t.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gapless.failover.table import LiveTable, check_promise
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import StreamSchema


class Finals:
    """Turns the changes of one shard into its final events."""

    def __init__(self, schema: StreamSchema, *, insert_only: bool) -> None:
        """`insert_only`: no event of this output is ever adjusted, as its plans only insert and
        (payload, vs) is a key. Without a key that is not enough: of two events that share a start
        LMerge may put out the end of one twice, and adjust it later.
        """
        self._schema = schema
        self._insert_only = insert_only
        self._table = LiveTable(schema)
        self.stable = BEGIN
        """What is final at this time has been given."""

    def begin(self, since: int, table: Frame, *, resumes: bool) -> Frame:
        """Takes every event with `ve >= since`. Of these, where it `resumes` from a token, those
        final at `since` were given before.

        Returns what is new of it, and its stable.
        """
        if not resumes:
            return self._take(table)
        self.stable = since
        given = self.was_given(table, since)
        return self._take(table.take(~given, table.stable))

    def take(self, frame: Frame) -> Frame:
        """Takes the next changes; what is final now, and the stable, where that has advanced.

        Raises `StreamViolation` for an adjust of what is not there, or not any more, and for what
        may not follow a stable.
        """
        check_promise(frame, self.stable)
        return self._take(frame)

    def _take(self, frame: Frame) -> Frame:
        self._table.change(frame)
        stable = frame.stable
        if stable is None or stable <= self.stable:
            return Frame.empty(self._schema)
        self.stable = stable
        table = self._table
        ids = table.ids(self.is_final(table.starts, table.ends, stable))
        if not len(ids):
            return Frame.empty(self._schema, stable)
        rows = table.rows(ids).with_stable(stable)
        table.drop(ids)
        return rows

    def is_final(self, vs: Times, ve: Times, stable: int) -> Mask:
        """Which events cannot change any more."""
        if stable == INF:
            return np.ones(len(vs), np.bool_)
        final: Any = (vs if self._insert_only else ve) < stable
        mask: Mask = final
        return mask

    def was_given(self, table: Frame, since: int) -> Mask:
        """Which events of a table have been given to a subscriber that had `since`."""
        return self.is_final(table.vs, table.ve, since)

    def __len__(self) -> int:
        """Events that are held."""
        return len(self._table)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        table = self._table
        table.validate()
        if len(table.ids(self.is_final(table.starts, table.ends, self.stable))):
            raise Bug(f"what is final at {self.stable} is held")
