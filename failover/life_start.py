"""What a life is told when it is started: which part of the job it is, and where it begins.

A replica gets several origins, the best first; it tries one after the other (replica/jumpstart.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse


@dataclass(frozen=True, slots=True)
class LivePeer:
    """Begin with the state of a live replica that runs the same plan."""

    life: Life


@dataclass(frozen=True, slots=True)
class Stored:
    """Begin with a checkpoint."""

    name: str


@dataclass(frozen=True, slots=True)
class Replay:
    """Begin with nothing, and read the sources from as long before `join_at` as the plan needs."""

    join_at: int = BEGIN


Origin = LivePeer | Stored | Replay


def shown_origin(origin: Origin | None) -> str:
    """An origin, for people; empty where there is none."""
    match origin:
        case LivePeer(life):
            return f"live {life}"
        case Stored(name):
            return f"checkpoint {name}"
        case Replay():
            return "replay"
    return ""


@dataclass(frozen=True, slots=True)
class ReplicaStart:
    """How a replica begins."""

    shard: int
    plan: str
    """The name of its plan, as in the job's directory."""
    mergers: tuple[str, ...]
    """The slots of its shard's mergers."""
    version: int
    """Of that list."""
    origins: tuple[Origin, ...]
    """To be tried in this order; the last is a `Replay`, which always works."""
    held_at: int = INF
    """It promises no stable beyond this time until a `Hold` says otherwise."""
    awaited: tuple[str, ...] = ()
    """The mergers whose durable output its tail waits for; none: all of them."""

    def __post_init__(self) -> None:
        if not self.mergers or not self.origins or not isinstance(self.origins[-1], Replay):
            raise Misuse("a replica starts with one merger at least, and a replay as its last hope")


@dataclass(frozen=True, slots=True)
class MergerStart:
    """How a merger begins."""

    shard: int
    peers: tuple[str, ...]
    """The slots of the other mergers of its shard."""
    fences: tuple[Life, ...] = ()
    """What it obeys from its first moment: a zombie must not be let in by a merger that is new."""


Start = ReplicaStart | MergerStart
