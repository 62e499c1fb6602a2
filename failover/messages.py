"""What replicas, mergers and subscribers tell each other, and what their machines ask of the shell.

A machine is a pure function of what happened to it: `on(event, now) -> list[Effect]`. Events and
effects are the closed sets below. Messages travel over a network that may delay, lose, repeat and
reorder them; everything that must survive that is in the message itself (session, sequence, epoch).

    replica                          merger                         subscriber
       | Attach(session, join_at, tail) |                                |
       |------------------------------->| -- Append(output) --> journal  |
       | Data(session, 1, frame)        |                                |
       |------------------------------->|      <------ Fetch(token) -----|
       | Ack(session, 1, durable, ...)  |                                |
       |<-------------------------------| -- Delivery(frame, token) ---->|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame


class Session(NamedTuple):
    """One attachment of one life of one replica. Sequence numbers count within it."""

    replica: str
    incarnation: Incarnation
    """Which life: a higher one replaces, a lower one is a zombie."""
    attempt: int
    """Which attachment within that life."""


class Token(NamedTuple):
    """Where a subscriber stands in the output; handing it back resumes exactly there."""

    merger: str
    epoch: int
    """The life of the merger that gave it."""
    offset: int
    """Bytes of the output journal that have been delivered."""
    stable: int
    """The last stable delivered."""


# -- messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attach:
    """Replica to merger: opens a session. It is number 0 of its sequence."""

    session: Session
    join_at: int
    """The sender holds every event with ve >= join_at."""
    tail: Frame
    """The sender's output so far, of ve >= join_at, as inserts, and its stable."""

    def __post_init__(self) -> None:
        if not BEGIN <= self.join_at <= INF:
            raise Misuse(f"attach: join_at {self.join_at} is no time that a stream can join at")


@dataclass(frozen=True, slots=True)
class Data:
    """Replica to merger: frame number `sequence` of a session."""

    session: Session
    sequence: int
    frame: Frame

    def __post_init__(self) -> None:
        if self.sequence < 1:
            raise Misuse(f"data: sequence {self.sequence}; 0 is the attach, data starts at 1")


@dataclass(frozen=True, slots=True)
class Ack:
    """Merger to replica, after whatever it got: how far it is."""

    session: Session
    epoch: int
    """The merger's life; a session belongs to one."""
    sequence: int
    """Everything up to this number has been taken in."""
    durable_stable: int
    """The output is durable up to here: the tail below it is of no more use."""
    feedback: int
    """Events with `ve` below it are settled: they need not be made."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Merger to replica: this session does not exist (any more)."""

    session: Session
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fetch:
    """Subscriber to merger: asks for what comes after `token`."""

    subscriber: str
    token: Token

    def __post_init__(self) -> None:
        if self.token.offset < 0:
            raise Misuse(f"fetch: offset {self.token.offset} lies before the output begins")


@dataclass(frozen=True, slots=True)
class Delivery:
    """Merger to subscriber: the frame behind offset `after`, and the token behind the frame."""

    after: int
    frame: Frame
    token: Token

    def __post_init__(self) -> None:
        if not 0 <= self.after < self.token.offset:
            raise Misuse(
                f"delivery: from offset {self.after} to {self.token.offset}; a frame takes bytes"
            )


Message = Attach | Data | Ack | Refused | Fetch | Delivery


# -- events that are not messages -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of every life."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Comes every so often as long as the machine lives."""


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The answer to `ReadSource`: a frame and the position behind it; None: nothing new yet."""

    frame: Frame | None
    position: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to `Append`: the frame is durable, and the output journal ends at `offset`."""

    offset: int
    stable: int
    """The output's stable at that offset."""


@dataclass(frozen=True, slots=True)
class OutputRead:
    """The answer to `ReadOutput`: the frame behind offset `after`, and where it ends."""

    subscriber: str
    after: int
    frame: Frame
    offset: int


Event = Message | Start | Tick | SourceRead | Appended | OutputRead


# -- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Put a message on the network, to a machine by name. It may get lost."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Read the source frame at `position`; None: the first that has rows of `since` or later."""

    position: int | None
    since: int = BEGIN


@dataclass(frozen=True, slots=True)
class Append:
    """Append a frame to the output journal; say `Appended` once it is durable, in order."""

    frame: Frame
    stable: int
    """The output's stable behind this frame."""


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Read the output journal's next frame for a subscriber. There is one."""

    subscriber: str
    after: int


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand a frame to the subscriber's program; the token resumes behind it."""

    frame: Frame
    token: Token


Effect = Send | ReadSource | Append | ReadOutput | Emit
