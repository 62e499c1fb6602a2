"""What a replica is told by its shell, and what it asks of it.

ReadSource --> SourceRead | SourceFailed        WriteCheckpoint --> CheckpointWritten
OpenSources -> nothing    | SourceFailed        LoadCheckpoint ---> CheckpointLoaded
Work --------> Done                             DropCheckpoint ---> nothing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.messages import (
    Ack,
    Assign,
    Drain,
    Hold,
    Refused,
    Retire,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.protocol.frame import Frame

if TYPE_CHECKING:
    from gapless.failover.replica.checkpoint import Checkpoint

Position = Mapping[int, int]
"""By partition of a journal, the offset of the next row."""

# -- events ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The answer to `ReadSource`: a frame and the position behind it; None: nothing new yet."""

    source: str
    frame: Frame | None
    position: Position
    more: bool = False
    """Whether there is more to be read at once: what follows from this may gather with it."""


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The other answer to `OpenSources` and `ReadSource`: it cannot be read, now or ever."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """The answer to `WriteCheckpoint`; with a reason where it could not be written."""

    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointLoaded:
    """The answer to `LoadCheckpoint`: None where it is missing or does not verify."""

    name: str
    checkpoint: Checkpoint | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to `Work`."""

    number: int
    result: Any


ReplicaEvent = (
    SourceRead
    | Ack
    | Tick
    | SourceFailed
    | Refused
    | SnapshotRequest
    | SnapshotReply
    | CheckpointLoaded
    | CheckpointWritten
    | Assign
    | TakeCheckpoint
    | Drain
    | Hold
    | Retire
    | Done
    | Start
)


# -- effects -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSources:
    """Open the sources: at positions, or where rows of `since` or later begin. No answer, but one
    `SourceFailed` where any cannot be opened. A read that is under way has no answer any more.
    """

    positions: Mapping[str, Position] | None
    since: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Read the next frame of a source: `SourceRead`."""

    source: str
    drains: bool = False
    """Whether rows are left out that were not there yet when such a read first found any."""


@dataclass(frozen=True, slots=True)
class SkipSource:
    """Rows of a source before t are not needed any more."""

    source: str
    t: int


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """Make a checkpoint durable under a name of its own, whole or not at all, and keep the sources
    from being trimmed before its positions: `CheckpointWritten`.
    """

    name: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class LoadCheckpoint:
    """Read a checkpoint and verify it: `CheckpointLoaded`."""

    name: str


@dataclass(frozen=True, slots=True)
class DropCheckpoint:
    """Remove a checkpoint that nobody needs. The supervisor asks for it, too."""

    name: str


@dataclass(frozen=True, slots=True)
class Work:
    """Do what takes longer than a machine may be silent, beside it: `Done`. What it looks at the
    machine leaves alone until then.
    """

    number: int
    what: str
    """For people."""
    do: Callable[[], Any]


ReplicaEffect = (
    Send
    | ReadSource
    | SkipSource
    | OpenSources
    | WriteCheckpoint
    | LoadCheckpoint
    | DropCheckpoint
    | Work
    | Alarm
    | Exit
)
