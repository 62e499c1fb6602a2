"""A jumpstart: how a life gets what it begins with. It tries its origins in the order that it is
given them, the best first (origins.py); a large checkpoint comes before live peers.

    live peer     its snapshot, over the network; a large   asked once, waited for snapshot_ms, or
                  one by the disk that they share           while one is coming: busy_ms at most
    stored        a checkpoint from the disk                None where it does not verify
    replay        nothing: the plan begins as new           always works

A disk that hangs answers nothing: neither a peer that writes on it nor a reader of it is waited
for longer than busy_ms.
What does not fit (another plan's checkpoint, an answer of a life that was not asked) is not used,
and people are told which checkpoint, and why: a replay may take long.
Nor is a state whose sources cannot be opened where it left them, as trimming may have been faster.
"""

from __future__ import annotations

from typing import Literal

from gapless.failover.effects import Alarm, Send
from gapless.failover.life_start import LivePeer, Origin, ReplicaStart, Stored, shown_origin
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Life, SnapshotReply, SnapshotRequest
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    DropCheckpoint,
    LoadCheckpoint,
    ReplicaEffect,
)
from gapless.failover.timing import Timing

JumpstartState = Literal["choosing", "asking", "loading", "begun"]
JUMPSTART: Lifecycle[JumpstartState] = Lifecycle(
    "a replica's start",
    {
        "choosing": {"a live peer": "asking", "a checkpoint": "loading", "a replay": "begun"},
        "asking": {
            "a snapshot": "begun",
            "it is on the disk": "loading",
            "none": "choosing",
            "silence": "choosing",
        },
        "loading": {"a checkpoint": "begun", "none": "choosing", "silence": "choosing"},
        "begun": {"does not fit": "choosing"},
    },
)


class Jumpstart:
    """Goes through the origins of one life until there is one to begin with."""

    def __init__(self, life: Life, start: ReplicaStart, timing: Timing) -> None:
        self.state = JUMPSTART.first
        self.found: Checkpoint | None = None
        """What to begin with, once it has begun; None for a replay, and once it was taken over."""
        self._life = life
        self._plan = start.plan
        self._left = list(start.origins)
        self._timing = timing
        self._origin: Origin | None = None
        self._asked_at = 0  # or told that it is coming
        self._since = 0  # when it began to ask, or to load
        self._loading = ""  # the checkpoint that is being read

    @property
    def has_begun(self) -> bool:
        """Whether it is known what to begin with."""
        return self.state == "begun"

    @property
    def origin(self) -> Origin | None:
        """The one that it is at."""
        return self._origin

    @property
    def words(self) -> str:
        """The origin that it is at, for people."""
        return shown_origin(self._origin)

    @property
    def has_another(self) -> bool:
        """Whether there is an origin that was not tried."""
        return bool(self._left)

    def choose(self, now: int) -> list[ReplicaEffect]:
        """Tries the next origin."""
        origin = self._origin = self._left.pop(0)
        self._asked_at = self._since = now
        self.found = None
        match origin:
            case LivePeer(life):
                self.state = JUMPSTART.after(self.state, "a live peer")
                return [Send(str(life), SnapshotRequest(self._life, self._plan))]
            case Stored(name):
                self.state = JUMPSTART.after(self.state, "a checkpoint")
                self._loading = name
                return [LoadCheckpoint(name)]
        self.state = JUMPSTART.after(self.state, "a replay")
        return []

    def on_reply(self, reply: SnapshotReply, now: int) -> list[ReplicaEffect]:
        """A peer has answered."""
        if self.state != "asking" or not self._is_of(reply.life):
            is_used = reply.stored == self._loading  # said twice
            return [] if is_used or not reply.stored else [DropCheckpoint(reply.stored)]
        if reply.is_coming:
            self._asked_at = now
            return []
        if reply.stored:
            self.state = JUMPSTART.after(self.state, "it is on the disk")
            self._loading, self._since = reply.stored, now
            return [LoadCheckpoint(reply.stored)]
        return self._got(reply.checkpoint, "a snapshot", now)

    def on_loaded(self, loaded: CheckpointLoaded, now: int) -> list[ReplicaEffect]:
        """A checkpoint was read, or could not be."""
        if self.state != "loading" or self._loading != loaded.name:
            return []
        was_given = isinstance(self._origin, LivePeer)
        drops: list[ReplicaEffect] = [DropCheckpoint(loaded.name)] if was_given else []
        if loaded.checkpoint is None and loaded.reason:
            drops.append(self._passes_over(loaded.reason))
        return drops + self._got(loaded.checkpoint, "a checkpoint", now)

    def on_tick(self, now: int) -> list[ReplicaEffect]:
        """Gives a peer up that says nothing, and what takes longer than anything may."""
        is_silent = self.state == "asking" and now - self._asked_at >= self._timing.snapshot_ms
        is_waited_for = self.state in ("asking", "loading")
        if not is_silent and not (is_waited_for and now - self._since >= self._timing.busy_ms):
            return []
        self.state = JUMPSTART.after(self.state, "silence")
        return self.choose(now)

    def forget(self) -> None:
        """What was found has been taken over, or is none."""
        self.found = None

    def give_up(self, why: str, now: int) -> list[ReplicaEffect]:
        """What was found does not fit after all: on with the next."""
        said = self._passes_over(why)
        self.state = JUMPSTART.after(self.state, "does not fit")
        return [said, *self.choose(now)]

    def _is_of(self, life: Life) -> bool:
        """Whether it is this life that was asked."""
        return self._origin == LivePeer(life)

    def _got(self, checkpoint: Checkpoint | None, cause: str, now: int) -> list[ReplicaEffect]:
        if checkpoint is None or checkpoint.plan != self._plan:
            other = checkpoint is not None and self._passes_over(f"is of plan {checkpoint.plan}")
            self.state = JUMPSTART.after(self.state, "none")
            return ([other] if other else []) + self.choose(now)
        self.state = JUMPSTART.after(self.state, cause)
        self.found = checkpoint
        return []

    def _passes_over(self, why: str) -> ReplicaEffect:
        """Says that its origin is of no use, before the next one is chosen."""
        then = shown_origin(self._left[0]) if self._left else "nothing"
        return Alarm(f"{self._life} does not begin with {self.words}: {why}; it tries {then} next")
