"""Orders for checkpoints: which replica takes the next one, and which files are then dropped.

    a tick            one is due --> TakeCheckpoint to a replica that does not lead
    CheckpointTaken   remembered --> DropCheckpoint of those that are no longer needed

Which one is due, kept and used is the policy's decision (checkpoint_policy.py). This module applies
it to the fleet: which replicas run, which are starting, and what a life may be reading now.
"""

from __future__ import annotations

from gapless.failover.effects import Alarm, Send
from gapless.failover.life_start import Stored
from gapless.failover.messages import TakeCheckpoint
from gapless.failover.replica import snapshots
from gapless.failover.replica.effects import DropCheckpoint
from gapless.failover.statuses import CheckpointTaken
from gapless.failover.supervisor.checkpoint_policy import Checkpoints, taker
from gapless.failover.supervisor.effects import SupervisorEffect
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.slots import Shard


class CheckpointOrders:
    """The checkpoints of a fleet."""

    def __init__(self, fleet: Fleet, checkpoints: Checkpoints) -> None:
        self._fleet = fleet
        self._checkpoints = checkpoints

    def take(self, shard: Shard, now: int) -> list[SupervisorEffect]:
        """Asks for those of a shard that are due."""
        effects: list[SupervisorEffect] = []
        for plan in self._fleet.desired.plans:
            kind = (shard.number, plan)
            if not self._checkpoints.is_due(kind, now):
                continue
            running = {k.life: k.stable for k in shard.running() if k.plan == plan}
            leads = shard.leader()
            leader = leads.life if leads is not None else None
            life = taker(running, leader)
            is_large = self._checkpoints.nbytes(kind) > snapshots.MESSAGE_BYTES_MAX
            spares = shard.awaits(plan) if not is_large else shard.has_newcomer(plan)
            is_spared = spares and (is_large or life == leader)
            if is_spared and self._checkpoints.may_wait(kind, now):
                continue
            if life is not None:
                order = TakeCheckpoint(self._fleet.term, self._checkpoints.ask(kind, now))
                effects.append(Send(str(life), order))
        return effects

    def on_taken(self, answer: CheckpointTaken) -> list[SupervisorEffect]:
        """One is there, or could not be written."""
        fleet = self._fleet
        slot = fleet.slots.get(answer.life.slot)
        if slot is None:
            return [DropCheckpoint(answer.name)]
        effects: list[SupervisorEffect] = []
        if answer.reason:
            effects.append(Alarm(f"no checkpoint by {answer.life}: {answer.reason}"))
        lost = self._checkpoints.taken(slot.shard, answer)
        plans = set(fleet.desired.plans)
        if fleet.cutover is not None:
            plans.update(fleet.cutover.desired.plans)
        lives = [(s, known) for s in fleet.slots.values() for known in s.lives()]
        kinds = {(s.shard, known.plan) for s, known in lives}
        kinds |= {(shard.number, plan) for shard in fleet.shards for plan in plans}
        used = {o.name for _, known in lives for o in known.origins if isinstance(o, Stored)}
        join_by = {shard.number: fleet.join_at(shard) for shard in fleet.shards}
        unneeded = self._checkpoints.drop(kinds, join_by, used)
        return [*effects, *(DropCheckpoint(name) for name in (*lost, *unneeded))]
