"""The lives of a scripted cluster: they report, join, attach, qualify, and obey."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gapless.failover.life_start import LivePeer, Origin
from gapless.failover.machines import Event
from gapless.failover.messages import (
    Assign,
    Drain,
    Fence,
    Hold,
    Life,
    Order,
    Retire,
    SnapshotReply,
    TakeCheckpoint,
)
from gapless.failover.statuses import (
    CheckpointTaken,
    DivergenceReport,
    InputStatus,
    MergerStatus,
    ReplicaStatus,
)
from gapless.failover.supervisor.checkpoint_policy import CheckpointInfo
from gapless.failover.supervisor.effects import Died
from gapless.failover.timing import Timing
from gapless.protocol.elements import INF

TICK_MS = 50
ATTACH_MS = 100
"""From the moment on that both live, until a replica may act at a merger."""
TIMING = Timing(
    heartbeat_ms=100,
    hang_ms=350,
    hang_max_ms=2_000,
    replace_ms=1_000,
    join_ms=700,
    lag_ms=700,
    absent_ms=600,
    snapshot_ms=400,
    adopt_ms=250,
    start_ms=1_000,
    backoff_ms=30,
    backoff_max_ms=400,
    steady_ms=1_000,
    checkpoint_ms=250,
    kill_ms=200,
    cutover_ms=4_000,
)
NODES = ("n1", "n2", "n3", "n4")
SPAWNS_A_SECOND = 24
"""In one slot, of one supervisor: what the back-off of its life and that of successors let through,
and one command that forgets failures.
"""


class Broken(AssertionError):
    """A promise of the supervisor is broken."""


@dataclass(eq=False)
class Machine:
    """One life in the cluster."""

    life: Life
    node: str
    up_at: int
    joins_at: int
    plan: str = ""
    version: int = 0
    mergers: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    held_at: int = INF
    hold: tuple[int, int] = (0, 0)
    stable: int = 0
    term: int = 0
    said_at: int = -1_000
    origins: list[Origin] = field(default_factory=list)
    """What it tries to begin with, the first one now."""
    asked_at: int = 0
    frozen_until: int = 0
    cut_until: int = 0
    zombie_until: int = 0
    is_stuck: bool = False
    """Of a replica: it does not advance. Of a merger: it lacks what nobody can say any more."""
    drains: bool = False
    fences: dict[str, Life] = field(default_factory=dict)
    outvoted: dict[Life, int] = field(default_factory=dict)
    """Of a merger: how often each life was the odd one."""


class Lives:
    """All lives, and what is on its way to them and to the supervisor."""

    def __init__(self, seed: int, loss: float, timing: Timing = TIMING) -> None:
        self.rng = random.Random(seed)
        self.loss = loss
        self.timing = timing
        self.is_quiet = False
        """Whether the sources pause."""
        self.now = 0
        self.lives: dict[Life, Machine] = {}
        self.doomed: set[str] = set()
        """Slots whose lives die as soon as they are up."""
        self.odd: set[str] = set()
        """Slots, or lives, that tell another table than all others."""
        self.due: list[tuple[int, int, Life | None, Event]] = []
        self.number = 0
        self.kept: list[CheckpointInfo] = []
        self.durable: dict[str, int] = {}

    def later(self, to: Life | None, event: Event) -> None:
        if self.rng.random() >= self.loss:
            self.number += 1
            self.due.append((self.now + self.rng.randint(1, 30), self.number, to, event))

    def newest(self, slot: str) -> Machine | None:
        lives = [m for m in self.lives.values() if m.life.slot == slot]
        return max(lives, key=lambda m: m.life, default=None)

    # -- what they do -------------------------------------------------------------------------

    def end(self, machine: Machine, reason: str) -> None:
        self.lives.pop(machine.life, None)
        self.later_surely(Died(machine.life, reason))

    def later_surely(self, event: Event) -> None:
        self.number += 1
        self.due.append((self.now + self.rng.randint(1, 40), self.number, None, event))

    def obey(self, machine: Machine, order: Event) -> None:
        if isinstance(order, SnapshotReply):
            if machine.origins and machine.origins[0] == LivePeer(order.life):
                self.goes_on(machine)
            return
        assert isinstance(order, Order)
        if order.term < machine.term:
            return
        machine.term = order.term
        match order:
            case Retire(life=life) if life == machine.life:
                self.end(machine, "retired")
            case Assign() if order.version > machine.version:
                machine.version, machine.mergers = order.version, order.mergers
                machine.awaited = order.awaited
            case Fence(life=life):
                machine.fences[life.slot] = max(machine.fences.get(life.slot, life), life)
            case Hold(at=at) if (order.term, order.version) >= machine.hold:
                machine.held_at, machine.hold = at, (order.term, order.version)
            case Drain():
                machine.drains = True
            case TakeCheckpoint(name=name):
                info = CheckpointInfo(name, int(machine.life.slot[1]), machine.plan, self.now)
                self.kept.append(info)
                self.later(None, CheckpointTaken(machine.life, name, machine.plan, self.now))

    def step(self, machine: Machine) -> None:
        if machine.up_at > self.now or machine.frozen_until > self.now:
            return
        if machine.life.slot in self.doomed:
            self.end(machine, "it cannot run")
            return
        is_merger = machine.life.slot[0] == "m"
        newer = self.newest(machine.life.slot)
        if is_merger and newer is not None and newer is not machine and newer.up_at <= self.now:
            self.end(machine, "its journal was taken over")
            return
        if not is_merger and machine.joins_at == INF:
            self.begins(machine)
        if not is_merger and not machine.is_stuck and self.now >= machine.joins_at:
            told = max((m.stable for m in self.lives.values()), default=0)
            reads = told if self.is_quiet else self.now
            machine.stable = max(machine.stable, min(reads, machine.held_at))
            if self.is_fenced(machine):
                self.end(machine, "a merger has fenced it")
                return
        if self.now - machine.said_at >= self.timing.heartbeat_ms:
            machine.said_at = self.now
            if machine.cut_until <= self.now:
                self.later(None, self.merger(machine) if is_merger else self.replica(machine))

    def begins(self, machine: Machine) -> None:
        """Tries what it was told to begin with; a peer that is dead or hung says nothing."""
        origin = machine.origins[0] if machine.origins else None
        if not isinstance(origin, LivePeer):
            machine.joins_at = self.now + self.rng.randint(20, 150)
            return
        if not machine.asked_at:
            machine.asked_at = self.now
        peer = self.lives.get(origin.life)
        if peer is not None and peer.frozen_until <= self.now and peer.joins_at <= self.now:
            machine.joins_at = self.now + self.rng.randint(20, 150)
        elif self.now - machine.asked_at >= self.timing.snapshot_ms:
            self.goes_on(machine)

    def goes_on(self, machine: Machine) -> None:
        """With the next origin."""
        machine.origins.pop(0)
        machine.asked_at = 0

    def replica(self, machine: Machine) -> ReplicaStatus:
        origin = machine.origins[0] if machine.origins else None
        return ReplicaStatus(
            machine.life,
            machine.plan,
            0,
            machine.stable,
            machine.version,
            0,
            self.now < machine.joins_at,
            machine.drains,
            machine.held_at,
            machine.hold,
            origin=f"live {origin.life}" if isinstance(origin, LivePeer) else "",
        )

    def merger(self, machine: Machine) -> MergerStatus:
        inputs = self.inputs(machine)
        best = max((i.stable for i in inputs), default=0)
        durable = max(self.durable.get(machine.life.slot, 0), 0 if machine.is_stuck else best)
        self.durable[machine.life.slot] = durable
        fences = tuple(machine.fences.values())
        count = sum(machine.outvoted.values())
        samples = tuple(
            DivergenceReport(life, life, self.now, f"{life} says this, all others that")
            for life in machine.outvoted
        )
        return MergerStatus(
            machine.life,
            1,
            durable,
            durable,
            inputs,
            None,
            count,
            machine.drains,
            fences=fences,
            samples=samples,
        )

    def inputs(self, merger: Machine) -> tuple[InputStatus, ...]:
        attached = [
            m
            for m in self.lives.values()
            if m.life.slot[0] == "r"
            and m.life.slot[1] == merger.life.slot[1]
            and merger.life.slot in m.mergers
            and self.now >= max(m.joins_at, merger.up_at) + ATTACH_MS
            and m.life >= merger.fences.get(m.life.slot, m.life)
        ]
        counts = merger.outvoted
        for m in attached:
            if m.life.slot in self.odd or str(m.life) in self.odd:
                counts[m.life] = counts.get(m.life, 0) + 1
        acts = not merger.is_stuck
        return tuple(
            InputStatus(m.life, m.stable, acts, outvoted=counts.get(m.life, 0)) for m in attached
        )

    def is_fenced(self, machine: Machine) -> bool:
        """Whether a merger that it sends to tells it that its life is over."""
        life = machine.life
        mergers = [self.newest(name) for name in machine.mergers]
        return any(
            m is not None and m.up_at <= self.now and life < m.fences.get(life.slot, life)
            for m in mergers
        )
