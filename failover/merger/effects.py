"""The events that a merger gets from its shell, and the effects that it asks for.

Append -----> Appended | AppendRefused | OutputLost      ReadOutput -> OutputRead | ReadRefused
Seal -------> Sealed   | OutputLost                      ReadTable --> TableRead  | ReadRefused
MakeBase ---> BaseMade | OutputLost                      ReadPeer ---> PeerRead
WatchOutput > nothing  | OutputLost                      DropTable, ClosePeer ---> nothing
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.messages import (
    Attach,
    Data,
    Drain,
    Fence,
    Fetch,
    Open,
    Retire,
    Token,
    Why,
)
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame

# -- events ------------------------------------------------------------------------------------


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


# -- effects -----------------------------------------------------------------------------------


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
    """A table that is being read is not wanted any more. An answer that still comes is ignored."""

    subscriber: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ReadPeer:
    """Read the next frame of a peer's output, first from the last base with a stable of at most
    `since`, or from its beginning: `PeerRead`.
    """

    peer: str
    since: int


@dataclass(frozen=True, slots=True)
class ClosePeer:
    """A peer's output is not read any more."""

    peer: str


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
