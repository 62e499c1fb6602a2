"""What a frame changes on one side of a join, each event at most once.

    ins(A,6,9)  adj(A,6,9,20)  adj(B,2,5,7)  adj(B,2,7,8)      the frame
    A [6,-) -> [6,20)          B [2,5) -> [2,8)                 what it changes

A frame may name one event several times. Which ends of a (vs, payload) it takes away and which
it adds is a sum, so its steps need not be followed: what is left over is paired, the i-th end lost
with the i-th gained; ends gained alone are new events, ends lost alone are removed ones. A frame
of inserts, which is most of them, changes just what it says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids
from gapless.protocol.columns import take_rows
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import VS


class Changes(NamedTuple):
    """Events of one side and how their lifetimes change; the new events come last."""

    payload: pa.RecordBatch
    vs: Times
    was: Times
    """The end so far; equal to `vs` where the event is new."""
    ve: Times
    """The end from now on; equal to `vs` where the event goes."""
    old: int
    """How many events are not new."""

    def part(self, rows: Ids) -> Changes:
        """These rows of it, in ascending order."""
        return Changes(
            take_rows(self.payload, rows),
            self.vs[rows],
            self.was[rows],
            self.ve[rows],
            int(np.count_nonzero(rows < self.old)),
        )


def changes_of(frame: Frame) -> Changes:
    """What a frame with rows changes."""
    if frame.insert_only:
        return Changes(frame.payload, frame.vs, frame.vs, frame.ve, 0)
    ids, rows = _identities(frame)
    adjusts = (~frame.is_insert).nonzero()[0]
    lives = (frame.ve > frame.vs).nonzero()[0]
    lost, was, gained, ve = _left_over(
        np.concatenate([ids[lives], ids[adjusts]]),
        np.concatenate([frame.ve[lives], frame.was[adjusts]]),
        len(lives),
    )
    # The i-th of each: their place in the sequence of (identity, i).
    places, size = (_place(lost), _place(gained)), len(frame) + 1
    keys = lost * size + places[0], gained * size + places[1]
    moved = np.isin(keys[0], keys[1], assume_unique=True)
    new = ~np.isin(keys[1], keys[0], assume_unique=True)
    identity = np.concatenate([lost, gained[new]])
    vs = frame.vs[rows[identity]]
    end = vs.copy()
    end[: len(lost)][moved] = ve[~new]
    end[len(lost) :] = ve[new]
    before = vs.copy()
    before[: len(lost)] = was
    return Changes(take_rows(frame.payload, rows[identity]), vs, before, end, len(lost))


def _identities(frame: Frame) -> tuple[Ids, Ids]:
    """Which (vs, payload) each row is of, as a number, and one row of each."""
    payload = frame.payload
    table = KeyTable(pa.schema([pa.field(VS, pa.int64(), nullable=False), *payload.schema]))
    keys = pa.RecordBatch.from_arrays(
        [frame.batch.column(0), *payload.columns], schema=table.schema
    )
    ids, first = table.intern(keys)
    return ids, first.nonzero()[0]


def _left_over(ids: Ids, ends: Times, gained: int) -> tuple[Ids, Times, Ids, Times]:
    """Ends lost and ends gained by each identity, both in its and their order, after cancelling."""
    order = np.lexsort((ends, ids))
    ids, ends = ids[order], ends[order]
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = (ids[1:] != ids[:-1]) | (ends[1:] != ends[:-1])
    at = begins.nonzero()[0]
    by = np.add.reduceat(np.where(order < gained, 1, -1), at) if len(at) else at
    lost, won = np.repeat(at, np.maximum(-by, 0)), np.repeat(at, np.maximum(by, 0))
    return ids[lost], ends[lost], ids[won], ends[won]


def _place(ids: Ids) -> Ids:
    """For each of sorted ids, how many equal ones are before it."""
    place: Ids = np.arange(len(ids)) - np.searchsorted(ids, ids)
    return place
