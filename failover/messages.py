"""What the machines tell each other. Everything that must survive the network is in the message.

    replica                          merger                         subscriber
       | Attach(session, join_at, tail) |      <------ Open(since) -----|  a reset first, or
       |------------------------------->|------- Opened(frame) -------->|
       | Data(session, 1, frame)        |                               |
       |------------------------------->|      <------ Fetch(token) ----|  on from a token
       | Ack(session, 1, durable, ...)  |-- Delivery(frame, token) ---->|
       |<-------------------------------|

    replica, merger -- ReplicaStatus, MergerStatus --> supervisor -- orders --> replica, merger
    replica -- SnapshotRequest --> replica -- SnapshotReply --> replica

A network may delay, lose, repeat and reorder them. A *slot* is a place in the job ("r0.2" is
replica 2 of shard 0, "m0.1" a merger), a *life* one process in that slot. Messages go to a life, or
to a slot, and then to its newest life. Orders carry the supervisor's term: of two supervisors the
one with the lower term is not obeyed any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from gapless.failover.statuses import CheckpointTaken, MergerStatus, ReplicaStatus
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame

if TYPE_CHECKING:
    from gapless.failover.replica.checkpoint import Checkpoint

SUPERVISOR = "supervisor"
"""The slot of the job's root."""


def _check(what: str, value: object, kind: type) -> None:
    """Raises `Misuse` for a value of another type: it would count before it fails somewhere."""
    if type(value) is not kind:
        raise Misuse(f"{what} {value!r:.100}: it has to be of the type {kind.__name__}")


class Life(NamedTuple):
    """One process in a slot. Of two lives in a slot the larger is the later."""

    slot: str
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.slot}/{self.incarnation}"

    @staticmethod
    def parse(text: str) -> Life | None:
        """The inverse of `str`; None where the text is of no life."""
        slot, _, incarnation = text.partition("/")
        term, _, counter = incarnation.partition(".")
        if not slot or not term.isdecimal() or not counter.isdecimal():
            return None
        return Life(slot, Incarnation(int(term), int(counter)))


class Session(NamedTuple):
    """One attachment of one life of a replica to one merger. Sequence numbers count within it."""

    life: Life
    merger: str
    """The merger's slot."""
    attempt: int
    """Which attachment of that life to that merger."""


class Token(NamedTuple):
    """Where a subscriber stands in the output of one shard; handing it back resumes there.

    With a merger: exactly at an offset of that merger's journal, and of no other's. Without (""):
    at a time; what is at or behind it comes as a reset, from any merger.
    """

    merger: str
    epoch: int
    """The life of the journal's writer that gave it."""
    offset: int
    """Rows of the output journal that have been delivered."""
    stable: int
    """The last stable delivered."""


# -- replica and merger -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attach:
    """Replica to merger: opens a session. It is number 0 of its sequence."""

    session: Session
    join_at: int
    """The sender holds every event with ve >= join_at."""
    tail: Frame
    """The sender's output so far, of ve >= join_at, and its stable; or the first part of that."""
    parts: int = 0
    """Frames of `Data` that follow and belong to the tail. The promise of `join_at` is kept once
    the last of them is there, and no stable comes before it.
    """

    def __post_init__(self) -> None:
        _check("attach: session", self.session, Session)
        _check("attach: join_at", self.join_at, int)
        _check("attach: tail", self.tail, Frame)
        _check("attach: parts", self.parts, int)
        if self.parts < 0:
            raise Misuse(f"attach: {self.parts} parts follow")
        if not BEGIN <= self.join_at <= INF:
            raise Misuse(f"attach: join_at {self.join_at} is no time that a stream can join at")


@dataclass(frozen=True, slots=True)
class Data:
    """Replica to merger: frame number `sequence` of a session."""

    session: Session
    sequence: int
    frame: Frame

    def __post_init__(self) -> None:
        _check("data: session", self.session, Session)
        _check("data: sequence", self.sequence, int)
        _check("data: frame", self.frame, Frame)
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
    """The output is durable up to here: the tail below it is of no more use to this merger."""
    feedback: int
    """Events with `ve` below it are settled: for this merger they need not be made."""
    throttled: bool = False
    """What follows `sequence` was not taken in, for the merger holds too much; send it later."""

    def __post_init__(self) -> None:
        _check("ack: session", self.session, Session)
        _check("ack: epoch", self.epoch, int)
        _check("ack: sequence", self.sequence, int)
        _check("ack: durable_stable", self.durable_stable, int)
        _check("ack: feedback", self.feedback, int)


@dataclass(frozen=True, slots=True)
class Refused:
    """Merger to replica: this session does not exist (any more)."""

    session: Session
    epoch: int
    reason: str
    fenced: bool = False
    """Whether the whole life is over: another one has taken its slot."""


# -- replica and replica ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A joining replica asks a live one for all that it is."""

    life: Life
    """The asker, which gets the answer."""
    plan: str
    """The asker's plan: a snapshot fits no other."""


@dataclass(frozen=True, slots=True)
class SnapshotReply:
    """The answer: a checkpoint that was never on a disk, or why there is none."""

    life: Life
    """The one that answers."""
    checkpoint: Checkpoint | None
    reason: str = ""
    """Why there is none."""
    stored: str = ""
    """The name of the checkpoint on the disk that it is: too large for a message. A replica that
    has read it drops it.
    """
    is_coming: bool = False
    """Whether it is being made: worth waiting for."""


# -- subscriber and merger --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fetch:
    """Subscriber to merger: asks for what comes after `token`."""

    subscriber: str
    """Whom to answer."""
    token: Token

    def __post_init__(self) -> None:
        if not 0 <= self.token.offset <= INF:
            raise Misuse(f"fetch: offset {self.token.offset} is no place in an output")


@dataclass(frozen=True, slots=True)
class Delivery:
    """Merger to subscriber: the rows behind offset `after`, and the token behind them.

    Without rows, only a stable has come.
    """

    after: int
    frame: Frame
    token: Token

    def __post_init__(self) -> None:
        if not 0 <= self.after == self.token.offset - len(self.frame):
            raise Misuse(
                f"delivery: {len(self.frame)} rows from offset {self.after} to {self.token.offset}"
            )


@dataclass(frozen=True, slots=True)
class Open:
    """Subscriber to merger: asks for the table of all events with `ve >= since`, as a reset.

    None: since the merger's own stable. Answered once the output is stable up to `since`.
    """

    subscriber: str
    attempt: int
    """Which question of this subscriber it is; the answer repeats the number."""
    since: int | None
    part: int = 0
    """Which part of the answer; a merger that does not hold the others begins with the first."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Merger to subscriber: the reset, and the token behind it; or a part of that."""

    attempt: int
    since: int
    """Every event with `ve` from here on is in the frames of all parts."""
    frame: Frame
    """As inserts, followed by the output's stable; of several parts that comes behind the last."""
    token: Token
    """Behind all parts: those of one table have the same."""
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts:
            raise Misuse(f"opened: part {self.part} of {self.parts}")


Why = Literal["trimmed", "future", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Declined:
    """Merger to subscriber: a question that cannot be answered here, now or ever.

    "trimmed": that part of the output is gone. "future": nobody has given such a token.
    "elsewhere": the token is of another merger's journal.
    """

    merger: str
    asked: Token | int
    """The token of the `Fetch`, or the attempt of the `Open`."""
    why: Why
    reason: str


# -- orders -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """To a replica: it sends to these mergers; its tail waits for the slowest of `awaited`."""

    term: int
    version: int
    """Later ones replace earlier ones."""
    mergers: tuple[str, ...]
    awaited: tuple[str, ...] = ()
    """Those of them whose durable output it waits for; none: all of them."""

    def __post_init__(self) -> None:
        _check("assign: term", self.term, int)
        _check("assign: version", self.version, int)
        _check("assign: mergers", self.mergers, tuple)
        if not self.mergers:
            raise Misuse("assign: the last merger is never taken away")
        if not set(self.awaited) <= set(self.mergers):
            raise Misuse(f"assign: {self.awaited} are awaited, and sent to are {self.mergers}")


@dataclass(frozen=True, slots=True)
class Fence:
    """To a merger: lives before this one in its slot are detached, and refused from now on."""

    term: int
    life: Life

    def __post_init__(self) -> None:
        _check("fence: term", self.term, int)
        _check("fence: life", self.life, Life)


@dataclass(frozen=True, slots=True)
class Retire:
    """To any life: exit by yourself."""

    term: int
    life: Life
    reason: str

    def __post_init__(self) -> None:
        _check("retire: term", self.term, int)
        _check("retire: life", self.life, Life)


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    """To a replica: write a checkpoint of this name."""

    term: int
    name: str

    def __post_init__(self) -> None:
        _check("take a checkpoint: term", self.term, int)
        _check("take a checkpoint: name", self.name, str)


@dataclass(frozen=True, slots=True)
class Drain:
    """To a replica: read what is there now, send it, read no more. To a merger: close the output
    once all that its replicas have said is durable.
    """

    term: int

    def __post_init__(self) -> None:
        _check("drain: term", self.term, int)


@dataclass(frozen=True, slots=True)
class Hold:
    """To a replica: promise no stable beyond `at`, until a later hold changes that."""

    term: int
    at: int
    version: int = 0
    """Of two holds of one term the one with the lower version is not obeyed any more: a network
    may bring them in the other order.
    """

    def __post_init__(self) -> None:
        _check("hold: term", self.term, int)
        _check("hold: at", self.at, int)
        _check("hold: version", self.version, int)


Order = Assign | Fence | Retire | TakeCheckpoint | Drain | Hold
Status = ReplicaStatus | MergerStatus | CheckpointTaken
Message = (
    Attach
    | Data
    | Ack
    | Refused
    | SnapshotRequest
    | SnapshotReply
    | Fetch
    | Delivery
    | Open
    | Opened
    | Declined
    | Status
    | Order
)
