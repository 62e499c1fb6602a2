"""After the last fault everything converges, and redundancy is back.

All output has come to its end; in every slot that is desired, and in no other, one life runs; each
replica is attached to each merger of its shard; and the supervisor suspects nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import (
    Broken,
    Durable,
    Emitted,
    Healed,
    Recovered,
    Resumed,
    Struck,
    TookIn,
    Verdict,
)
from gapless.chaos.sim.checkers.programs import Programs
from gapless.chaos.sim.checkers.world import World
from gapless.failover.job.desired import slot
from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN, INF, format_time


class Converges:
    """See the module."""

    name = "converge"
    promise = (
        "After the last fault all output ends, and all that is desired runs, attached and "
        "unsuspected."
    )

    def __init__(self) -> None:
        self._durable: dict[str, int] = defaultdict(lambda: BEGIN)
        self._programs = Programs()
        self._attached: set[tuple[Life, Life]] = set()
        self._struck = False
        self._active = 0

    def hears(self) -> Mapping[type, Callable[[int, Any], object]]:
        """Where everybody stands."""
        return {
            Durable: lambda _, fact: self._on_stable(fact.merger.slot, fact.frame.stable),
            Recovered: lambda _, fact: self._on_stable(fact.merger.slot, fact.live.stable),
            Emitted: lambda _, fact: self._programs[fact.subscriber].log.append(fact),
            Resumed: lambda _, fact: self._programs[fact.subscriber].resume(fact),
            TookIn: lambda _, fact: self._attached.add((fact.session.life, fact.merger)),
            Struck: self._on_struck,
            Healed: self._on_healed,
        }

    def _on_stable(self, slot: str, stable: int | None) -> None:
        if stable is not None:
            self._durable[slot] = max(self._durable[slot], stable)

    def _on_struck(self, _: int, fact: Struck) -> None:  # noqa: ARG002  # which one is all the same
        self._struck = True
        self._active += 1

    def _on_healed(self, _: int, fact: Healed) -> None:  # noqa: ARG002  # which one is all the same
        self._active -= 1

    def verdict(self, world: World) -> Verdict:
        """Unknown where nothing struck, a fault is not over, or people have stopped the job."""
        if not self._struck or self._active or world.desired.state != "running":
            return Verdict.UNKNOWN
        problems = self.problems(world)
        if problems:
            raise Broken(self.name, f"at {world.now} ms: " + "; ".join(problems))
        return Verdict.HOLDS

    def problems(self, world: World) -> list[str]:
        """What has not converged yet. A simulation asks while it has patience: an attach that the
        network loses a few times is resent at ever longer intervals.
        """
        return [*self._output(world), *self._lives(world), *self._suspected(world)]

    def _output(self, world: World) -> list[str]:
        stables = [(f"the journal of {s}", self._durable[s]) for s in _slots("m", world)]
        stables += [(f"what {name} holds", p.stable) for name, p in self._programs.items()]
        return [f"{who} stands at {format_time(t)}" for who, t in stables if t < INF]

    def _lives(self, world: World) -> list[str]:
        by_slot: dict[str, list[Life]] = defaultdict(list)
        for life in world.machines:
            by_slot[life.slot].append(life)
        replicas, mergers = _slots("r", world), _slots("m", world)
        wanted = [*replicas, *mergers]
        problems = [f"{len(by_slot[s])} lives in {s}" for s in wanted if len(by_slot[s]) != 1]
        problems += [
            f"{life} runs and is not desired"
            for s, lives in by_slot.items()
            for life in lives
            if s[0] in "rm" and s[1:2].isdigit() and s not in wanted
        ]
        if problems:
            return problems
        return [
            f"{by_slot[r][0]} is not attached to {by_slot[m][0]}"
            for r in replicas
            for m in mergers
            if _same_shard(r, m) and (by_slot[r][0], by_slot[m][0]) not in self._attached
        ]

    @staticmethod
    def _suspected(world: World) -> list[str]:
        if world.supervisor is None:
            return ["there is no supervisor"]
        wanted = {*_slots("r", world), *_slots("m", world)}
        return [
            f"{view.slot} is {view.state}: {view.reason}"
            for view in world.supervisor.state().slots
            if view.slot in wanted and view.state != "running"
        ]


def _slots(role: Any, world: World) -> list[str]:
    desired = world.desired
    count = desired.replicas if role == "r" else desired.mergers
    return [slot(role, shard, i) for shard in range(desired.shards) for i in range(count)]


def _same_shard(replica: str, merger: str) -> bool:
    return replica[1:].partition(".")[0] == merger[1:].partition(".")[0]
