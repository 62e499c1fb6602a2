"""Events that are no messages, and effects, of all machines: what a shell tells and does for any.

A machine is a pure function of what happened to it: `on(event, now) -> list[Effect]`, `now` in
milliseconds of any clock that never goes back. Each machine has a closed union of events and one of
effects, in the `effects.py` of its own folder; the type checker finds a case that a handler forgets
(machines.py). An effect that asks for something has its answer among the events, named in its doc
line; answers come in any order and, where the machine dies, not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.failover.messages import Message

# -- events ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of every life."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Comes at intervals as long as the machine runs."""


# -- effects -----------------------------------------------------------------------------------


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
