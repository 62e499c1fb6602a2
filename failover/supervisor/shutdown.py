"""Stopping: how a job ends.

    stop     Desire(stopped) --> Retire to all --> those that have not gone: Kill --> Exit
    drain    Drain to replicas: read what is there now, and no more
             Drain to a merger that has taken in all that a drained replica has sent
             all assigned mergers have closed --> as stop

A merger must not close before: one that has just restarted has nothing to wait for, and would close
an output that lacks the end. While it drains, the job is supervised as before: what dies then is
started again, and told to drain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from gapless.failover.effects import Send
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Drain
from gapless.failover.supervisor.effects import SupervisorEffect
from gapless.failover.supervisor.slots import Known, Shard
from gapless.failover.timing import Timing

EndingState = Literal["running", "draining", "stopping", "over"]
ENDING: Lifecycle[EndingState] = Lifecycle(
    "the end of a job",
    {
        "running": {"drain": "draining", "stop": "stopping"},
        "draining": {"all have closed": "stopping", "stop": "stopping"},
        "stopping": {"all have gone": "over"},
        "over": {},
    },
)


def drain_orders(shard: Shard, term: int, now: int, timing: Timing) -> Iterator[SupervisorEffect]:
    """Which lives are to drain now; repeated after a while to those that have not."""
    for known in shard.running():
        if known.replica is not None and not known.replica.is_drained:
            yield from _ask(known, term, now, timing)
    for merger in shard.live_mergers():
        if merger.merger is not None and not merger.merger.is_drained and has_all(merger, shard):
            yield from _ask(merger, term, now, timing)


def has_all(merger: Known, shard: Shard) -> bool:
    """Whether a merger has taken in all output of at least one drained replica."""
    if merger.merger is None:
        return False
    drained = {
        known.life: known.replica.stable
        for known in shard.running()
        if known.replica is not None and known.replica.is_drained
    }
    return any(
        input.qualifies and input.life in drained and input.stable >= drained[input.life]
        for input in merger.merger.inputs
    )


def has_closed(shard: Shard) -> bool:
    """Whether every merger that counts has closed its output."""
    mergers = [shard.mergers[name].current for name in shard.assigned]
    return all(
        known is not None and known.merger is not None and known.merger.is_drained
        for known in mergers
    )


def _ask(known: Known, term: int, now: int, timing: Timing) -> Iterator[SupervisorEffect]:
    asked_at = known.asked_to_drain_at
    if asked_at is None or now - asked_at >= timing.hang_ms:
        known.asked_to_drain_at = now
        yield Send(str(known.life), Drain(term))
