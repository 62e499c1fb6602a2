"""What happened in a run, as facts, and how checkers hear of them.

    simulator -- fact --> History -- those that asked for its kind --> checkers
                             |
                             +--> the trace: every fact with its time and its cause

A fact is said once, when it happens. A checker (chaos/sim/checkers/) names the kinds that it
wants and
keeps what it needs; at the end it gives a verdict: the promise holds, is broken, or nothing in the
run could tell (`unknown`). Facts are tuples: a run has thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from gapless.failover.messages import Life, Session, Token
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import BadData
from gapless.protocol.frame import Frame

if TYPE_CHECKING:
    from gapless.chaos.sim.checkers.world import World


class Started(NamedTuple):
    """A life began."""

    life: Life
    node: str


class Ended(NamedTuple):
    """A life is over: it was killed, crashed with its node, or exited by itself."""

    life: Life
    how: str


class Said(NamedTuple):
    """A machine has raised an alarm."""

    life: Life
    what: str


class Struck(NamedTuple):
    """A fault began."""

    fault: str
    target: str


class Healed(NamedTuple):
    """A fault is over."""

    fault: str
    target: str


class Written(NamedTuple):
    """A source has grown: it now promises `stable`."""

    source: str
    stable: int


class Joined(NamedTuple):
    """A replica has got what it starts from. Said before any `TailTrimmed` of that life."""

    replica: Life
    since: int
    """It holds every event with `ve` from here on."""


class Recovered(NamedTuple):
    """A new life of a merger has taken its journal over and read it back: that is the cut.

    Said as soon as the journal is opened, before anything else that this life does. Rows may be
    in the journal of which no `Durable` was said, as their writer died before it heard so.
    """

    merger: Life
    epoch: int
    offset: int
    """Rows of the journal."""
    live: Frame
    """Every event that is not settled at the journal's stable, and that stable."""


class TookIn(NamedTuple):
    """A merger's LMerge was given a frame of a replica."""

    merger: Life
    session: Session
    sequence: int
    join_at: int
    """What the session holds every event from."""
    frame: Frame


class Durable(NamedTuple):
    """A merger's frame is durable in its journal, and the merger was told so."""

    merger: Life
    epoch: int
    after: int
    """The offset before it."""
    frame: Frame


class ToldLate(NamedTuple):
    """A merger is told that a frame is durable when a later life has its journal already: it was
    stopped between looking whether that is so and going on. All of the frame is before the cut.
    """

    merger: Life
    epoch: int
    after: int
    frame: Frame


class Delivered(NamedTuple):
    """A merger sent output to a subscriber."""

    merger: Life
    subscriber: str
    after: int
    frame: Frame
    token: Token


class Emitted(NamedTuple):
    """A subscriber's program was handed a frame."""

    subscriber: str
    frame: Frame
    tokens: Mapping[str, Token]
    reset: bool
    since: int


class Resumed(NamedTuple):
    """A subscriber's program began, or began again, with the tokens that it had kept."""

    subscriber: str
    tokens: Mapping[str, Token] | None
    deliver: Literal["changes", "final"] = "changes"
    """What it asked for."""
    since: int | None = BEGIN
    """It is owed every event that may still change from here on; None: from "now" on, wherever
    that was.
    """


class Forwarded(NamedTuple):
    """A replica may skip events with `ve` below t, by the feedback that it got."""

    replica: Life
    t: int


class TailTrimmed(NamedTuple):
    """A replica's tail has forgotten events with `ve` below t."""

    replica: Life
    t: int


class Assigned(NamedTuple):
    """A replica obeys a list of mergers from now on. Comes before any `TailTrimmed` or `Forwarded`
    that follows from it.
    """

    replica: Life
    mergers: tuple[str, ...]


class Obeyed(NamedTuple):
    """A machine has obeyed an order of a supervisor of this term."""

    life: Life
    term: int
    order: str
    """The name of its class."""
    about: Life | None = None
    """The life that the order names: of a `Fence` the first one that is let in."""


class Drained(NamedTuple):
    """A replica says that it has read all that was there when it was told to drain."""

    replica: Life
    unread: Mapping[str, int]
    """By source, rows of that which it has not read, and somebody needs."""


class CheckpointStored(NamedTuple):
    """A replica has heard that its checkpoint is written."""

    replica: Life
    name: str
    nbytes: int
    """Of the file; 0 where there is none."""


Fact = (
    Started
    | Ended
    | Said
    | Struck
    | Healed
    | Written
    | Joined
    | Recovered
    | TookIn
    | Durable
    | ToldLate
    | Delivered
    | Emitted
    | Resumed
    | Forwarded
    | TailTrimmed
    | Assigned
    | Obeyed
    | Drained
    | CheckpointStored
)


class Verdict(Enum):
    """What a checker says of its promise at the end of a run."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Broken(BadData):
    """A promise of the product does not hold. `checker` is the name of the checker that saw it."""

    def __init__(self, checker: str, problem: str) -> None:
        super().__init__(f"{checker}: {problem}")
        self.checker = checker


class Checker(Protocol):
    """One promise. Raises `Broken` as soon as it sees it broken."""

    name: str
    """A few words; docs/guarantees.md lists them."""
    promise: str
    """One sentence."""

    def hears(self) -> Mapping[type, Callable[[int, Any], object]]:
        """Which kinds of facts it wants, and the method for each: called with now and the fact."""

    def verdict(self, world: World) -> Verdict:
        """At the end of a run: `HOLDS`, or `UNKNOWN` where nothing could have shown a breach."""


@dataclass(slots=True)
class History:
    """Passes facts on, and keeps them."""

    checkers: Sequence[Checker]
    facts: list[tuple[int, Fact]] = field(default_factory=list)
    """Every fact, with its time."""
    _heard: dict[type, list[Callable[[int, Any], object]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for checker in self.checkers:
            for kind, method in checker.hears().items():
                self._heard.setdefault(kind, []).append(method)

    def say(self, now: int, fact: Fact) -> None:
        """A fact, at its time. Raises `Broken` where it breaks a promise."""
        self.facts.append((now, fact))
        for method in self._heard.get(type(fact), ()):
            method(now, fact)
