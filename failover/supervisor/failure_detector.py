"""The failure detector: when a life that is not known to be dead is suspected of being useless.

    silent        no heartbeat for hang_ms, or as long as this life's have taken lately: hung, cut
                  off, or dead and unreported; a life that takes its state in has join_ms, one
                  that repeats that it is busy busy_ms: its heart beats beside its work, and
                  where that is silent for hang_max_ms the process is stopped
    behind        the best of its shard moves on, and it has not advanced for lag_ms, or as long as
                  its steps have taken lately; while parts of its tail go out it need not advance
    unattached    no merger has it as an input for lag_ms, though they have others
    diverges      it is alone against a majority (divergence.py); nothing makes up for that

While the machines are strained (overload.py) only lives silent for hang_max_ms are suspected.

A suspicion may be wrong, and costs no more than a second life beside the first: see replacement.py.
While the supervisor itself slept, no life counts as silent: `forgive`.
"""

from __future__ import annotations

from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.failover.supervisor.divergence import DIVERGES
from gapless.failover.supervisor.slots import Known, Shard
from gapless.failover.timing import Timing
from gapless.protocol.elements import INF

SILENT, BEHIND, UNATTACHED = "silent", "behind", "unattached"
LAG_FACTOR = 4
"""How many times `lag_ms` a life whose steps are long may take for one: a plan with a slow step is
no hung one, but it is behind for good."""


def patience_ms(known: Known, timing: Timing, *, strained: bool) -> int:
    """How long it may be silent."""
    if known.state == "starting":
        return timing.start_ms
    if known.busy:
        return timing.busy_ms
    takes_in = known.state == "joining" or (known.merger is not None and known.qualified_ms < 0)
    least_ms = timing.join_ms if takes_in else timing.hang_ms
    most_ms = max(least_ms, timing.hang_max_ms)
    return most_ms if strained else known.beats.wait_ms(least_ms, most_ms)


def is_silent(known: Known, now: int, timing: Timing, *, strained: bool = False) -> bool:
    """Whether it has sent nothing for so long that it should be replaced."""
    if known.busy and now - known.heard_at >= max(timing.join_ms, timing.hang_max_ms):
        return True
    since = known.busy_at if known.busy else known.heard_at
    if known.state == "starting":
        since = known.began_at
    return now - since >= patience_ms(known, timing, strained=strained)


def suspicion(
    known: Known, shard: Shard, now: int, timing: Timing, *, strained: bool = False
) -> str:
    """Why a running replica should be suspected; empty where it should not."""
    if is_silent(known, now, timing, strained=strained):
        return SILENT
    if strained or known.busy:
        return ""
    lag_ms = known.steps.wait_ms(timing.lag_ms, LAG_FACTOR * timing.lag_ms)
    if now - known.mark_at > lag_ms and _is_behind(known, shard, timing):
        return BEHIND
    if now - known.attached_at > timing.lag_ms and _others_are_attached(shard, now, timing):
        return UNATTACHED
    return ""


def has_recovered(known: Known, now: int, timing: Timing) -> bool:
    """Whether the reason for which a replica was suspected is over."""
    if known.suspicion == DIVERGES or is_silent(known, now, timing):
        return False
    if known.suspicion == BEHIND:
        return known.stable >= known.mark
    if known.suspicion == UNATTACHED:
        return now - known.attached_at < timing.hang_ms
    return True


def heard(known: Known, busy: str, now: int) -> None:
    """It has reported. `busy`: with what, where it announces that it will be silent meanwhile."""
    if known.state != "starting" and not known.busy and not busy:
        known.beats.heard(now - known.heard_at)
    known.heard_at = now
    if busy and not known.busy:
        known.busy_at = now
    known.busy = busy


def progress(known: Known, status: ReplicaStatus, shard: Shard, now: int) -> None:
    """Notes how far a replica is, and how far the best is: there it should be after `lag_ms`.

    While it is suspected of being behind the mark stays: slow steps alone are no recovery.
    """
    if status.stable > shard.best:
        shard.best, shard.best_at = status.stable, now
    advances = status.stable > known.stable
    if advances:
        if known.advanced_at:
            known.steps.heard(now - known.advanced_at)
        known.stable, known.advanced_at = status.stable, now
    sends, known.parts_left = status.parts_left < known.parts_left, status.parts_left
    if known.suspicion == BEHIND:
        return
    if sends:
        known.mark_at = now  # a large tail takes long, and its pending rows have a bound
    if advances or known.stable >= min(known.mark, status.held_at):
        known.mark, known.mark_at = shard.best, now


def output_progress(
    known: Known, before: MergerStatus | None, status: MergerStatus, now: int
) -> None:
    """Notes how far a merger's output is durable, and when it first let a replica act."""
    if before is None or status.durable_stable > before.durable_stable:
        known.advanced_at = now
    if known.acting and known.qualified_ms < 0:
        known.qualified_ms = now - known.began_at


def forgive(shard: Shard, slept_ms: int, now: int) -> None:
    """The supervisor itself was asleep: that time counts as no life's silence."""
    shard.best_at = min(now, shard.best_at + slept_ms)
    for slot in shard.slots():
        slot.heard_at = min(now, slot.heard_at + slept_ms)
        slot.progress.moved_at = min(now, slot.progress.moved_at + slept_ms)
        for known in slot.lives():
            known.began_at = min(now, known.began_at + slept_ms)
            known.heard_at = min(now, known.heard_at + slept_ms)
            known.busy_at = min(now, known.busy_at + slept_ms)
            known.mark_at = min(now, known.mark_at + slept_ms)
            known.attached_at = min(now, known.attached_at + slept_ms)


def _is_behind(known: Known, shard: Shard, timing: Timing) -> bool:
    """Whether others have advanced and it has not. While the sources pause, one may be a few rows
    ahead for long: only one that advances, or is at the end, shows that there is more to read.
    """
    if known.stable >= known.mark:
        return False
    return shard.best == INF or shard.best_at - known.mark_at > timing.lag_ms // 2


def _others_are_attached(shard: Shard, now: int, timing: Timing) -> bool:
    """Whether mergers that have run for long enough have other inputs."""
    return any(
        merger.acting and now - merger.began_at > timing.lag_ms for merger in shard.live_mergers()
    )
