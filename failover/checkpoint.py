"""A checkpoint: all that a replica is at one moment, so that another one can go on from there.

    positions   what it has read of each source
    given       the last stable that it gave its plan, of each source
    state       what the plan remembers
    tail        its output with ve >= since, as inserts: what mergers may lack

All of it is of the same moment: rows up to the positions are in the state and in the tail, and
none behind them is. A live replica hands one to a joining peer; now and then one goes to the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from gapless.failover.effects import Position
from gapless.protocol.frame import Frame


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One moment of a replica."""

    plan: str
    """The name of the plan that it ran: the state fits no other."""
    positions: Mapping[str, Position]
    """By source, where to read on."""
    given: Mapping[str, int]
    """By source, the last stable that the plan was given."""
    since: int
    """The tail has every event with `ve` from here on: the time at which a stream joins with it."""
    stable: int
    """The last that the plan has put out; BEGIN where there is none."""
    tail: Frame
    """As inserts."""
    state: Mapping[str, pa.RecordBatch]
    """The snapshot of the plan's graph."""
