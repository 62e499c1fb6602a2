"""The startup of a job: whether it is up, is making progress, or will not come up.

    m0.0 running, r0.1 running, r0.0 starting      answered: subscribers get output
    every slot has a process, or has failed         up: `launch` returns

How long it takes depends on the machine, so there is no deadline while some slot makes progress. It
is given up where none does for `STALL_S`, and at once where all slots that could answer have failed
a few times: what keeps these lives from starting would keep others, too.
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.job.desired import Desired
from gapless.failover.job.state import JobState, SlotState
from gapless.failover.messages import Life
from gapless.protocol.errors import JobError

STALL_S = 120.0
"""Without any progress: twice as long as one process may take to start."""
FILL_S = 20.0
"""From when it answers until it is called up though a slot has no process yet, without progress: it
is one less to lose."""
FAILURES_MAX = 3
"""Successively, of each slot that could answer: the first may be a spare's that was cut off."""
RANKS = ("failed", "empty", "starting", "joining", "suspected", "running")
"""States of a slot on its way."""


class Startup:
    """Judges one look after the other."""

    def __init__(self, job: str, now_s: float) -> None:
        self._job = job
        self._moved_at = now_s
        self._ranks: dict[str, int] = {}
        self._filled: set[str] = set()

    def is_up(
        self, state: JobState, desired: Desired, hosts: Collection[Life], now_s: float
    ) -> bool:
        """Whether it is. Raises `JobError` once it will not be."""
        self._look(state, hosts, now_s)
        waits_s = now_s - self._moved_at
        missing = _unanswered(state, desired)
        if not missing:
            is_filled = all(slot.slot in self._filled or slot.failures for slot in state.slots)
            return is_filled or waits_s >= FILL_S
        hopeless = [slots for slots in missing if all(_fails(slot) for slot in slots)]
        if hopeless or waits_s >= STALL_S:
            told = hopeless[0] if hopeless else [slot for slots in missing for slot in slots]
            why = "; ".join(
                f"{s.slot} {s.state}: {s.reason or s.last_failure or 'nothing is heard'}"
                for s in told
            )
            raise JobError(f"job {self._job} does not come up: {why}")
        return False

    def _look(self, state: JobState, hosts: Collection[Life], now_s: float) -> None:
        """Notes how far each slot has ever been."""
        for slot in state.slots:
            rank = RANKS.index(slot.state)
            if rank > self._ranks.get(slot.slot, -1):
                self._ranks[slot.slot], self._moved_at = rank, now_s
        filled = {life.slot for life in hosts}
        if not filled <= self._filled:
            self._moved_at = now_s
        self._filled |= filled


def _unanswered(state: JobState, desired: Desired) -> list[list[SlotState]]:
    """The slots of each role and shard of which none runs."""
    groups: dict[str, list[SlotState]] = {
        f"{role}{shard}": [] for role in "mr" for shard in range(desired.shards)
    }
    for slot in state.slots:
        groups.setdefault(slot.slot.partition(".")[0], []).append(slot)
    return [
        slots for slots in groups.values() if not any(slot.state == "running" for slot in slots)
    ]


def _fails(slot: SlotState) -> bool:
    """Whether its lives end before they are of use, again and again."""
    return slot.state == "failed" or slot.failures >= FAILURES_MAX
