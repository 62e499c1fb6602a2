"""How long the machines wait: all that depends on a deployment, in one place, in milliseconds.

    a message and its answer      resend_ms > a round trip, else everything is said twice
    a life                        start_ms, heartbeat_ms << hang_ms < join_ms, hang_max_ms, busy_ms
    a merger                      absent_ms
    trying again                  backoff_ms, doubled up to backoff_max_ms; replace_ms

The defaults suit a small network and the simulator. No promise of the output depends on them: wrong
ones make a job slow, or make it replace what was alive, but never make it say something wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gapless.protocol.errors import Misuse

MS_MAX = 7 * 24 * 3600 * 1000
"""Of any wait: a week. More is a slip of the pen."""
NOT_SHORTER = (
    ("hang_max_ms", "hang_ms"),
    ("join_ms", "hang_ms"),
    ("busy_ms", "hang_ms"),
    ("lag_ms", "hang_ms"),
    ("absent_ms", "hang_ms"),
    ("start_ms", "join_ms"),
    ("cutover_ms", "start_ms"),
    ("backoff_max_ms", "backoff_ms"),
)
"""Waits of which the first includes the second: shorter than that it would end what it waits for.
"""
HEARTBEATS_MIN = 3
"""Within `hang_ms`: one that is lost, and one that is late, are no death."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Every wait of every machine."""

    heartbeat_ms: int = 250
    """Replica and merger say how they are: a few times within `hang_ms`, as some get lost."""
    resend_ms: int = 200
    """Without progress for that long what was sent is sent again: a few round trips."""
    reattach_ms: int = 100
    """A replica that was refused attaches again, no earlier: it may be refused for good."""
    snapshot_ms: int = 1000
    """A joining replica waits that long for a peer's snapshot, then tries its next origin."""
    fetch_ms: int = 200
    """A subscriber that has heard nothing for that long asks again."""
    backfill_ms: int = 500
    """A merger that cannot go on waits that long for its replicas, then reads its peer's journal.
    """
    disk_retry_ms: int = 500
    """After a disk was full it is tried again: room is made by people and by retention, slowly."""
    drain_ms: int = 500
    """A merger that is to close does so after that long without data: longer than a resend."""
    hang_ms: int = 2000
    """A life without a heartbeat for that long is suspected: several were lost, not one. Where they
    come irregularly it is longer, as long as they have lately taken.
    """
    hang_max_ms: int = 15_000
    """A life without a heartbeat for that long is suspected however slow the machines are."""
    busy_ms: int = 30_000
    """A life that says that it is busy, again and again, may say nothing else for that long; one
    that falls silent over it is taken for stopped after `hang_max_ms`. So long
    a joining replica waits for a snapshot that is coming, and for a file to be read.
    """
    replace_ms: int = 20_000
    """After each such wait one more life of a shard may be replaced for being slow or silent,
    beyond those that may be replaced at once: replacing what is slow makes everything slower.
    """
    join_ms: int = 5000
    """A replica that takes in what it begins with, and does not run yet, may be silent for longer,
    as may a merger until it lets a replica act: it is busy with that, the more so where all of them
    begin at once, and nobody waits for it alone. Ended too early it would have the next one begin
    as slowly.
    """
    lag_ms: int = 5000
    """A replica that is behind and has not advanced for that long is suspected."""
    absent_ms: int = 30_000
    """A merger that is away for longer is no more waited for: until then the tails grow."""
    adopt_ms: int = 2000
    """A new supervisor listens for that long for lives that it did not start: some heartbeats."""
    start_ms: int = 30_000
    """A life that has not reported within that time of its start counts as dead: the import of the
    libraries, and the state that it starts from, included.
    """
    backoff_ms: int = 200
    """Before the first restart of a life that died; doubled with each that follows."""
    backoff_max_ms: int = 30_000
    """Where the doubling ends: soon enough for those who repair what makes it die."""
    steady_ms: int = 10_000
    """A life that has run for that long was no failure: the back-off begins anew."""
    checkpoint_ms: int = 10_000
    """Between two checkpoints of a shard: what a replay from the newest has to make up for."""
    cutover_ms: int = 60_000
    """A cutover to another answer that is not done after that long is given up: as long as starts,
    with what they begin from, may take, twice. The output may wait that long at its time.
    """
    kill_ms: int = 2000
    """A life that was asked to go, and has not gone after that long, is ended by force."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise Misuse(f"{field.name} {value!r}: a number of milliseconds, 1 or more")


def changed(timing: Timing, changes: Mapping[str, Any]) -> Timing:
    """These waits with some changed, by name. Raises `Misuse` for unknown names."""
    names = [field.name for field in fields(Timing)]
    if unknown := sorted(str(name) for name in changes.keys() - set(names)):
        raise Misuse(f"timing: there is no {unknown[0]}; there are {', '.join(names)}")
    return checked(replace(timing, **changes))


def checked(timing: Timing) -> Timing:
    """The same. Raises `Misuse` where one wait would end what another waits for."""
    for field in fields(timing):
        if getattr(timing, field.name) > MS_MAX:
            raise Misuse(f"timing: {field.name} {getattr(timing, field.name)}: at most {MS_MAX}")
    for longer, shorter in NOT_SHORTER:
        if getattr(timing, longer) < getattr(timing, shorter):
            raise Misuse(
                f"timing: {longer} {getattr(timing, longer)} is shorter than {shorter} "
                f"{getattr(timing, shorter)}: make it as long, at least"
            )
    if timing.hang_ms < HEARTBEATS_MIN * timing.heartbeat_ms:
        raise Misuse(
            f"timing: hang_ms {timing.hang_ms} is less than {HEARTBEATS_MIN} times heartbeat_ms "
            f"{timing.heartbeat_ms}: one that is lost would be a death"
        )
    return timing
