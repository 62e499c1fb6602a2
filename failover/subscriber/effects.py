"""The events of a subscriber, and its effects: what the shell hands to the program.

Delivery, Opened, Declined, Tick --> machine --> Emit(frame, tokens)     the program reads on
                                             --> Give(why, reason)       it cannot
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.messages import Declined, Delivery, Opened, Token, Why
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame

SubscriberEvent = Delivery | Tick | Opened | Declined | Start


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


SubscriberEffect = Send | Emit | Give
