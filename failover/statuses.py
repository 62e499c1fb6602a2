"""Statuses: what lives report about themselves to the supervisor, every heartbeat.

    replica   how far it is, what it obeys, what it came from and how soon it was back
    merger    its inputs (which leads, which differ), how far the output is and is durable

They get lost and overtake each other; nothing but them tells the supervisor how the job is. What
only people ask for is in them too: a status is some hundred bytes, and comes a few times a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless.protocol.elements import BEGIN

if TYPE_CHECKING:
    from gapless.failover.messages import Life

SAMPLES_MAX = 5
"""Divergences that a merger reports, the newest: a person needs one, and some to compare."""
TEXT_CHARS_MAX = 500
"""Of the text of one: payloads may be long, and a status is repeated again and again."""


class DivergenceReport(NamedTuple):
    """One event of which an input and the output have different versions, that neither can take
    back.
    """

    life: Life | None
    """The input that disagreed with the output; None: the journal of the merger's peer."""
    odd: Life | None
    """The input that was alone with its version while two or more agreed, where one was. It may be
    the one that the output follows.
    """
    at: int
    """When the event starts."""
    text: str
    """For people: the event, and both versions."""


class Rejoin(NamedTuple):
    """How soon a replica was back, in milliseconds since its `Start`; -1 while it is not."""

    state_ms: int = -1
    """It has the state that it begins with."""
    read_ms: int = -1
    """It has taken the first frame of a source."""
    caught_up_ms: int = -1
    """A merger has taken in its attach, with its whole tail."""


NOT_YET = Rejoin()
"""Of a life that has just begun."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Replica to supervisor, every heartbeat."""

    life: Life
    plan: str
    """Which plan it runs."""
    since: int
    """Its tail has every event with `ve` from here on."""
    stable: int
    """How far its output is."""
    assigned: int
    """The version of the last `Assign` that it obeys."""
    tail_rows: int
    is_joining: bool
    """Whether it still waits for the state that it starts from."""
    is_drained: bool
    """Whether it was ordered to drain, and has read and sent everything."""
    held_at: int
    """It promises no stable beyond this time; INF where nothing holds it."""
    hold: tuple[int, int] = (0, 0)
    """Term and version of the `Hold` that says so; an older one changes nothing any more."""
    forwarded: int = BEGIN
    """Feedback has it make no output that ends before this time; BEGIN where never."""
    jumped_ms: int = 0
    """Stream time that it has skipped, for feedback said that it was settled, in all."""
    origin: str = ""
    """What it began with: "live r0.1/1.2", "checkpoint NAME" or "replay"; while it is joining, what
    it is trying.
    """
    rejoin: Rejoin = NOT_YET
    """How soon it was back."""
    aside_rows: int = 0
    """Rows that its plan could not process, and set aside."""
    busy: str = ""
    """With what, where it says nothing else until that is done; else empty."""
    waits_for: str = ""
    """Why it has read nothing for longer than `hang_ms`: which bound it is at, and who has to move;
    empty where it reads.
    """
    parts_left: int = 0
    """Of the tails that its sessions began with, the parts that it has not sent."""


class InputStatus(NamedTuple):
    """One input of a merger, as the merger sees it."""

    life: Life
    stable: int
    """The last stable that it promised."""
    qualifies: bool
    """Whether it may act: the output has reached its join time."""
    diverged: int = 0
    """How often it has disagreed with the output. The leader never does."""
    outvoted: int = 0
    """How often it was alone with its version while two or more others agreed."""
    led: int = 0
    """How often it has advanced the output's stable: it was the acting input."""


@dataclass(frozen=True, slots=True)
class MergerStatus:
    """Merger to supervisor, every heartbeat."""

    life: Life
    epoch: int
    stable: int
    durable_stable: int
    inputs: tuple[InputStatus, ...]
    waiting_for: str | None
    """Why the output cannot advance; None where it can."""
    divergences: int
    is_drained: bool
    """Whether all that was merged is durable, and it has closed its output as ordered."""
    detached: int = 0
    """Inputs that it has detached for bad content."""
    fences: tuple[Life, ...] = ()
    """By slot of a replica the lowest life that may still attach: the fences that it obeys."""
    samples: tuple[DivergenceReport, ...] = ()
    """The newest divergences, the last one last: `SAMPLES_MAX` at most."""
    busy: str = ""
    """With what, where it says nothing else until that is done; else empty."""


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """Replica to supervisor: a checkpoint is there, or why not."""

    life: Life
    name: str
    plan: str
    join_at: int
    reason: str = ""
    """Why there is none; empty where there is."""
    nbytes: int = 0
    """How large it is."""
