"""Events that are no messages, and effects: what the shell tells a machine, and does for it.

A machine is a pure function of what happened to it: `on(event, now) -> list[Effect]`, `now` in
milliseconds of any clock that never goes back. Each machine has a closed union of events and one of
effects, below; the type checker finds a case that a handler forgets (see machines.py). An effect
that asks for something has its answer among the events, named in its doc line; answers come in any
order and, where the machine dies, not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gapless.failover.messages import (
    Ack,
    Assign,
    Attach,
    CheckpointTaken,
    Data,
    Declined,
    Delivery,
    Drain,
    Fence,
    Fetch,
    Hold,
    Life,
    MergerStatus,
    Message,
    Open,
    Opened,
    Refused,
    ReplicaStatus,
    Retire,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
    Token,
    Why,
)
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame

if TYPE_CHECKING:
    from gapless.failover.job.desired import Change, Desired
    from gapless.failover.life_start import Start as StartOf
    from gapless.failover.replica.checkpoint import Checkpoint

Position = Mapping[int, int]
"""By partition of a journal, the offset of the next row."""

# -- events of all machines -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of every life."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Comes every so often as long as the machine lives."""


# -- events of a replica ----------------------------------------------------------------------


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


# -- events of a merger -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to `Append`: all of it is durable, and nobody had taken the journal over."""

    offset: int
    """Rows of the journal."""
    stable: int
    """The output's at that offset."""
    wants_base: bool = False
    """Whether enough was appended that a base is worth it."""


@dataclass(frozen=True, slots=True)
class AppendRefused:
    """The other answer: nothing of it is in the journal, for the disk is full. Try again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class OutputLost:
    """The journal is ours no more: taken over, or its disk has failed. This life is over."""

    reason: str
    is_taken_over: bool = False
    """Whether another life writes it now."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The answer to `Seal`."""


@dataclass(frozen=True, slots=True)
class BaseMade:
    """The answer to `MakeBase`: it is there, or why it is not."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class OutputRead:
    """The answer to `ReadOutput`: the rows behind offset `after`, maybe only a stable; None where
    there is nothing.
    """

    subscriber: str
    after: int
    frame: Frame | None


@dataclass(frozen=True, slots=True)
class TableRead:
    """The answer to `ReadTable`: events with `ve >= since` as inserts, and the stable behind."""

    subscriber: str
    attempt: int
    since: int
    frame: Frame
    offset: int


@dataclass(frozen=True, slots=True)
class ReadRefused:
    """The other answer to `ReadOutput` and `ReadTable`."""

    subscriber: str
    asked: Token | int
    why: Why
    reason: str


@dataclass(frozen=True, slots=True)
class PeerRead:
    """The answer to `ReadPeer`: the next frame of a peer's output; None: nothing new yet, or no
    such journal.
    """

    peer: str
    frame: Frame | None
    join_at: int = BEGIN
    """What was read has every event with `ve` from here on."""


# -- events of the supervisor -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Died:
    """A life is over, says its shell. That may be wrong: the life is then a zombie."""

    life: Life
    reason: str


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that can be used now. What ran on others is lost."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """What a person, or a program, wants changed."""

    change: Change


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
MergerEvent = (
    Data
    | Appended
    | Fetch
    | OutputRead
    | Tick
    | Attach
    | PeerRead
    | Open
    | TableRead
    | ReadRefused
    | AppendRefused
    | Sealed
    | BaseMade
    | OutputLost
    | Fence
    | Drain
    | Retire
    | Start
)
SubscriberEvent = Delivery | Tick | Opened | Declined | Start
SupervisorEvent = (
    Tick | ReplicaStatus | MergerStatus | CheckpointTaken | Died | Nodes | Command | Retire | Start
)
Event = ReplicaEvent | MergerEvent | SubscriberEvent | SupervisorEvent


# -- effects of all machines ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Put a message on the network, to a slot or a life (as text). It may get lost."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Exit:
    """The life ends by itself; nothing more is given to it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that a person should know."""

    what: str


@dataclass(frozen=True, slots=True)
class Work:
    """Do what takes longer than a machine may be silent, beside it: `Done`. What it looks at the
    machine leaves alone until then.
    """

    number: int
    what: str
    """For people."""
    do: Callable[[], Any]


# -- effects of a replica ---------------------------------------------------------------------


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


# -- effects of a merger ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """Append a frame to the output journal, make it durable, look whether somebody has taken the
    journal over: `Appended`, `AppendRefused` or `OutputLost`. One at a time.
    """

    frame: Frame


@dataclass(frozen=True, slots=True)
class Seal:
    """Seal the live segment: with a base, or for good where the output is closed: `Sealed`."""

    base: Frame | None


@dataclass(frozen=True, slots=True)
class MakeBase:
    """Seal the live segment, and make a base of all that was appended from what the journal has,
    beside all that follows: `BaseMade`, or `OutputLost`.
    """


@dataclass(frozen=True, slots=True)
class WatchOutput:
    """Look whether somebody has taken the journal over: `OutputLost`, else no answer."""


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Read the output journal on for a subscriber: `OutputRead` or `ReadRefused`."""

    subscriber: str
    token: Token


@dataclass(frozen=True, slots=True)
class ReadTable:
    """Read the table of events with `ve >= since` for a subscriber: `TableRead`, `ReadRefused`."""

    subscriber: str
    attempt: int
    since: int


@dataclass(frozen=True, slots=True)
class DropTable:
    """A table that is being read is not wanted any more. If it is answered that is not heard."""

    subscriber: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ReadPeer:
    """Read the next frame of a peer's output, first from the last base with a stable of at most
    `since`, or from its begin: `PeerRead`.
    """

    peer: str
    since: int


@dataclass(frozen=True, slots=True)
class ClosePeer:
    """A peer's output is not read any more."""

    peer: str


# -- effects of a subscriber ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand a frame to the subscriber's program; the tokens, by shard, resume behind it.

    `reset`: the frame replaces all that the program holds with `ve >= since`.
    """

    frame: Frame
    tokens: Mapping[str, Token]
    reset: bool = False
    since: int = BEGIN


@dataclass(frozen=True, slots=True)
class Give:
    """Hand an error to the subscriber's program: it cannot go on from where it stands.

    Why: as a merger has declined, or "broken": what the merger says is no output of this job.
    """

    why: Why | Literal["broken"]
    reason: str


# -- effects of the supervisor ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a life on a node. If that fails: `Died`."""

    life: Life
    node: str
    start: StartOf


@dataclass(frozen=True, slots=True)
class Kill:
    """End a life by force. It may be dead already, or out of reach."""

    life: Life


@dataclass(frozen=True, slots=True)
class Desire:
    """Write what is desired to the job's directory, durably, before any effect that follows."""

    desired: Desired


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
MergerEffect = (
    Send
    | Append
    | ReadOutput
    | Seal
    | MakeBase
    | WatchOutput
    | ReadTable
    | DropTable
    | ReadPeer
    | ClosePeer
    | Alarm
    | Exit
)
SubscriberEffect = Send | Emit | Give
SupervisorEffect = Send | Spawn | Kill | Desire | DropCheckpoint | Alarm | Exit
Effect = ReplicaEffect | MergerEffect | SubscriberEffect | SupervisorEffect
