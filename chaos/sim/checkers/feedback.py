"""Feedback skips nothing that matters to any merger.

A replica forgets events, or never makes them, only where every merger that it waits for has
settled them durably: else one that dies now comes back and lacks what no replica has any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import (
    Assigned,
    Broken,
    Durable,
    Forwarded,
    Joined,
    Recovered,
    TailTrimmed,
    Verdict,
)
from gapless.chaos.sim.checkers.world import World
from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN, format_time


class FeedbackSkipsNothing:
    """See the module."""

    name = "feedback"
    promise = (
        "A replica skips and forgets only what every merger that it waits for has settled durably."
    )

    def __init__(self) -> None:
        self._durable: dict[str, int] = {}
        self._assigned: dict[Life, tuple[str, ...]] = {}
        self._since: dict[Life, int] = {}
        self._skipped = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """What is durable, and what replicas make of it."""
        return {
            Durable: lambda _, fact: self._on_stable(fact.merger.slot, fact.frame.stable),
            Recovered: lambda _, fact: self._on_stable(fact.merger.slot, fact.live.stable),
            Assigned: self._on_assigned,
            Joined: self._on_joined,
            TailTrimmed: lambda _, fact: self._skips(fact.replica, fact.t, "forgets"),
            Forwarded: lambda _, fact: self._skips(fact.replica, fact.t, "skips"),
        }

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where nothing was skipped."""
        return Verdict.HOLDS if self._skipped else Verdict.UNKNOWN

    def _on_stable(self, slot: str, stable: int | None) -> None:
        if stable is not None and stable > self._durable.get(slot, BEGIN):
            self._durable[slot] = stable

    def _on_assigned(self, _: int, fact: Assigned) -> None:
        self._assigned[fact.replica] = fact.mergers

    def _on_joined(self, _: int, fact: Joined) -> None:
        self._since[fact.replica] = fact.since

    def _skips(self, replica: Life, t: int, how: str) -> None:
        """What lies before its begin it never had: that is no decision of its own."""
        if t <= self._since.get(replica, BEGIN):
            return
        for merger in self._assigned.get(replica, ()):
            durable = self._durable.get(merger, BEGIN)
            if t > durable:
                raise Broken(
                    self.name,
                    f"{replica} {how} what ends before {format_time(t)}, and {merger} is durable "
                    f"up to {format_time(durable)}",
                )
        self._skipped = True
