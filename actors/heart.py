"""The heart: a thread that sends heartbeats for a life whose pump is busy with one thing for long.

    pump    |-Tick-|-------------- SnapshotRequest: 3 s ---------------|-Tick-|
    heart      .       .   busy    .   busy    .   busy    .   busy       .
                           "SnapshotRequest, for 0.3 s"

A pump sends the status of its life between two events. During one that takes long (a snapshot, a
large fold, the encoding of a gigabyte) the supervisor would hear nothing, and would take the life
for one that hangs, at each checkpoint. Then this thread repeats the last status, with what the pump
is busy with; the supervisor accepts that for a while (`busy_ms`). In a process that is stopped this
thread is stopped, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray

from gapless.actors.post import Post
from gapless.actors.pump import Pump, now_ms
from gapless.actors.wire import Wire
from gapless.failover.messages import SUPERVISOR
from gapless.failover.statuses import MergerStatus, ReplicaStatus

LATE_HEARTBEATS = 2
"""A pump that is inside one thing for so many heartbeats has missed one."""


class Heart:
    """Of one life."""

    def __init__(
        self, pump: Pump, say: Callable[[ReplicaStatus | MergerStatus], None], heartbeat_ms: int
    ) -> None:
        """`say` sends a status, from any thread."""
        self.last: ReplicaStatus | MergerStatus | None = None
        """The life's last status; None before the first."""
        self._pump = pump
        self._say = say
        self._heartbeat_ms = heartbeat_ms
        self._ended = threading.Event()

    def start(self) -> None:
        """Begins to beat."""
        threading.Thread(target=self._beat_on, name="heart", daemon=True).start()

    def end(self) -> None:
        """Beats no more."""
        self._ended.set()

    def beat(self, now: int) -> None:
        """Says that the life is busy, if it is."""
        busy, last = self._pump.busy, self.last
        if busy is None or last is None:
            return
        what, since = busy
        if now - since >= LATE_HEARTBEATS * self._heartbeat_ms:
            self._say(replace(last, busy=f"{what}, for {(now - since) / 1000:.1f} s"))

    def _beat_on(self) -> None:
        while not self._ended.wait(self._heartbeat_ms / 1000) and self._pump.ended is None:
            self.beat(now_ms())


class RootLine:
    """A way to the root beside the post, which is the pump's: for the heart's thread alone."""

    def __init__(self, post: Post, wire: Wire) -> None:
        self._post = post
        self._wire = wire
        self._call: Any = None

    def say(self, status: ReplicaStatus | MergerStatus) -> None:
        """Tells the root, unless it has not taken the last one yet."""
        if self._call is not None and not ray.wait([self._call], timeout=0)[0]:
            return
        root = self._post.book.newest(SUPERVISOR)
        if root is not None:
            self._call = root[1].handle.hear.remote(self._wire.encode([status]))
