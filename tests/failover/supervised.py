"""A scripted cluster that does what a supervisor asks for, and breaks: no engine, no journal.

    lives     report after a while, join, attach to mergers, qualify there; die, hang, turn zombie
    messages  come late, or not at all
    the root  dies, and a new term begins; the one before may not notice

What every supervisor owes is checked at each step from the outside, by the messages that it got: it
may act on old news, but not against what it has been told.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from gapless.failover.checkpointing import CheckpointInfo
from gapless.failover.desired import Change, Desired
from gapless.failover.effects import (
    Alarm,
    Command,
    Desire,
    Died,
    DropCheckpoint,
    Effect,
    Event,
    Exit,
    Kill,
    Nodes,
    Send,
    Spawn,
    Start,
    Tick,
)
from gapless.failover.messages import (
    SUPERVISOR,
    Assign,
    CheckpointTaken,
    Drain,
    Fence,
    Hold,
    InputStatus,
    Life,
    MergerStatus,
    Order,
    ReplicaStatus,
    Retire,
    TakeCheckpoint,
)
from gapless.failover.starting import MergerStart, Replay, ReplicaStart
from gapless.failover.supervisor import Supervisor
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF

TICK_MS = 50
ATTACH_MS = 100
"""From the moment on that both live, until a replica may act at a merger."""
TIMING = Timing(
    heartbeat_ms=100,
    hang_ms=350,
    lag_ms=700,
    absent_ms=600,
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
    held_at: int = INF
    hold: tuple[int, int] = (0, 0)
    stable: int = 0
    term: int = 0
    said_at: int = -1_000
    frozen_until: int = 0
    cut_until: int = 0
    zombie_until: int = 0
    is_stuck: bool = False
    drains: bool = False
    fences: dict[str, Life] = field(default_factory=dict)


class World:
    """The cluster, its network, and the supervisors of its job."""

    def __init__(
        self,
        seed: int,
        make: type[Supervisor] = Supervisor,
        desired: Desired | None = None,
        loss: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.make = make
        self.loss = loss
        self.now = 0
        self.desired = desired or Desired(3, ("p",), mergers=2)
        self.nodes: tuple[str, ...] = NODES
        self.lives: dict[Life, Machine] = {}
        self.doomed: set[str] = set()
        """Slots whose lives die as soon as they are up."""
        self.due: list[tuple[int, int, Life | None, Event]] = []
        self.number = 0
        self.seen: set[Life] = set()
        self.spawned: dict[tuple[int, str], list[int]] = {}
        self.alarms: list[str] = []
        self.kept: list[CheckpointInfo] = []
        self.durable: dict[str, int] = {}
        self.news: dict[Life, tuple[int, ReplicaStatus | MergerStatus]] = {}
        self.ordered: set[Life] = set()
        self.removed: set[str] = set()
        self.cut: tuple[str, int] | None = None
        """A changed plan, and from when on it may be answered with."""
        self.homes: dict[Life, str] = {}
        self.exited: list[str] = []
        self.old: list[tuple[Supervisor, int]] = []
        self.term = 0
        self.supervisor: Supervisor | None = None
        self.start_supervisor()

    # -- the root -----------------------------------------------------------------------------

    def start_supervisor(self) -> None:
        self.term += 1
        self.news = {}
        self.ordered = set()
        self.removed = set()
        self.supervisor = self.make(self.term, self.desired, self.kept, self.nodes, TIMING)
        self.tell(Start())

    def lose_supervisor(self, zombie_ms: int = 0) -> None:
        if self.supervisor is not None and zombie_ms:
            self.old.append((self.supervisor, self.now + zombie_ms))
        self.supervisor = None

    def tell(self, event: Event) -> None:
        """Gives an event to the supervisor, and does what it asks for."""
        if self.supervisor is None:
            return
        if isinstance(event, ReplicaStatus | MergerStatus):
            self.news[event.life] = (self.now, event)
        elif isinstance(event, Died):
            self.news.pop(event.life, None)
        elif isinstance(event, Nodes):
            ours = [life for life in self.news if life.incarnation.term == self.term]
            for life in [life for life in ours if self.homes[life] not in event.names]:
                del self.news[life]  # where an adopted life runs nobody has said
        self.do(self.supervisor, self.supervisor.on(event, self.now))
        if self.supervisor is not None:
            self.supervisor.validate()
            self.check_successors(self.supervisor)

    def command(self, change: Change) -> None:
        self.tell(Command(change))

    def do(self, supervisor: Supervisor, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Spawn():
                    self.spawn(supervisor.term, effect)
                case Kill(life):
                    self.check_ending(supervisor, life)
                    machine = self.lives.get(life)
                    if machine is not None and machine.zombie_until <= self.now:
                        self.end(machine, "killed")
                case Send(to, message):
                    self.check_order(supervisor, message)
                    self.send(to, message)
                case Desire(desired):
                    self.desired = desired
                case Alarm(what):
                    self.alarms.append(what)
                case DropCheckpoint(name):
                    self.kept = [info for info in self.kept if info.name != name]
                case Exit(reason):
                    self.exited.append(reason)
                    if supervisor is self.supervisor:
                        self.supervisor = None
                    self.old = [pair for pair in self.old if pair[0] is not supervisor]

    def spawn(self, term: int, effect: Spawn) -> None:
        life, start = effect.life, effect.start
        if life in self.seen:
            raise Broken(f"{life} is started twice")
        self.seen.add(life)
        self.removed.discard(life.slot)
        times = self.spawned.setdefault((term, life.slot), [])
        times.append(self.now)
        if len([t for t in times if t > self.now - 1_000]) > SPAWNS_A_SECOND:
            raise Broken(f"{life.slot} is started {SPAWNS_A_SECOND} times in a second")
        up_at = self.now + self.rng.randint(20, 60)
        machine = Machine(life, effect.node, up_at, up_at + self.rng.randint(20, 150))
        if isinstance(start, ReplicaStart):
            last = start.origins[-1]
            assert isinstance(last, Replay)
            if last.join_at > min(self.durable.get(name, BEGIN) for name in start.mergers):
                raise Broken(f"{life} joins at {last.join_at}: a merger lacks what is before")
            machine.plan, machine.held_at = start.plan, start.held_at
            machine.version, machine.mergers = start.version, start.mergers
        else:
            assert isinstance(start, MergerStart)
            machine.joins_at = up_at
            machine.fences = {fence.slot: fence for fence in start.fences}
        self.lives[life] = machine
        self.homes[life] = effect.node

    # -- the network --------------------------------------------------------------------------

    def later(self, to: Life | None, event: Event) -> None:
        if self.rng.random() >= self.loss:
            self.number += 1
            self.due.append((self.now + self.rng.randint(1, 30), self.number, to, event))

    def send(self, to: str, message: Event) -> None:
        for machine in self.lives.values():
            newest = machine is self.newest(machine.life.slot)
            if str(machine.life) == to or (newest and machine.life.slot == to):
                self.later(machine.life, message)
        for supervisor, _ in self.old:
            if str(supervisor.life) == to:
                self.do(supervisor, supervisor.on(message, self.now))

    def newest(self, slot: str) -> Machine | None:
        lives = [m for m in self.lives.values() if m.life.slot == slot]
        return max(lives, key=lambda m: m.life, default=None)

    def run(self, ms: int) -> None:
        """Lets time pass."""
        until = self.now + ms
        while self.now < until:
            self.now += 10
            ripe = sorted(d for d in self.due if d[0] <= self.now)
            self.due = [d for d in self.due if d[0] > self.now]
            for _, _, to, event in ripe:
                machine = self.lives.get(to) if to is not None else None
                if to is None:
                    self.tell(event)
                elif machine is not None and machine.frozen_until <= self.now:
                    self.obey(machine, event)
            for machine in list(self.lives.values()):
                self.step(machine)
            self.check_cut()
            if self.now % TICK_MS == 0:
                self.tell(Tick())
                for supervisor, end in list(self.old):
                    self.do(supervisor, supervisor.on(Tick(), self.now))
                    if self.now >= end:
                        self.old = [pair for pair in self.old if pair[0] is not supervisor]

    # -- lives --------------------------------------------------------------------------------

    def end(self, machine: Machine, reason: str) -> None:
        self.lives.pop(machine.life, None)
        self.later_surely(Died(machine.life, reason))

    def later_surely(self, event: Event) -> None:
        self.number += 1
        self.due.append((self.now + self.rng.randint(1, 40), self.number, None, event))

    def obey(self, machine: Machine, order: Event) -> None:
        assert isinstance(order, Order)
        if order.term < machine.term:
            return
        machine.term = order.term
        match order:
            case Retire(life=life) if life == machine.life:
                self.end(machine, "retired")
            case Assign() if order.version > machine.version:
                machine.version, machine.mergers = order.version, order.mergers
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
        if not is_merger and not machine.is_stuck and self.now >= machine.joins_at:
            machine.stable = max(machine.stable, min(self.now, machine.held_at))
            if self.is_fenced(machine):
                self.end(machine, "a merger has fenced it")
                return
        if self.now - machine.said_at >= TIMING.heartbeat_ms:
            machine.said_at = self.now
            if machine.cut_until <= self.now:
                self.later(None, self.merger(machine) if is_merger else self.replica(machine))

    def replica(self, machine: Machine) -> ReplicaStatus:
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
        )

    def merger(self, machine: Machine) -> MergerStatus:
        inputs = self.inputs(machine)
        best = max((i.stable for i in inputs), default=0)
        durable = max(self.durable.get(machine.life.slot, 0), best)
        self.durable[machine.life.slot] = durable
        fences = tuple(machine.fences.values())
        return MergerStatus(
            machine.life, 1, durable, durable, inputs, None, 0, machine.drains, fences=fences
        )

    def inputs(self, merger: Machine) -> tuple[InputStatus, ...]:
        return tuple(
            InputStatus(m.life, m.stable, True)
            for m in self.lives.values()
            if m.life.slot[0] == "r"
            and m.life.slot[1] == merger.life.slot[1]
            and merger.life.slot in m.mergers
            and self.now >= max(m.joins_at, merger.up_at) + ATTACH_MS
            and m.life >= merger.fences.get(m.life.slot, m.life)
        )

    def is_fenced(self, machine: Machine) -> bool:
        """Whether a merger that it sends to tells it that its life is over."""
        life = machine.life
        mergers = [self.newest(name) for name in machine.mergers]
        return any(
            m is not None and m.up_at <= self.now and life < m.fences.get(life.slot, life)
            for m in mergers
        )

    # -- faults -------------------------------------------------------------------------------

    def crash(self, machine: Machine) -> None:
        self.end(machine, "crashed")

    def become_zombie(self, machine: Machine, ms: int) -> None:
        machine.zombie_until = self.now + ms
        self.later_surely(Died(machine.life, "it seems"))

    def strike(self) -> None:
        """A fault, at random."""
        rng, lives = self.rng, list(self.lives.values())
        ms = rng.randint(50, 900)
        kind = rng.choice(
            ["crash", "crash", "freeze", "cut", "zombie", "root", "zombie root", "node", "all but"]
        )
        if kind == "root" or kind == "zombie root":
            self.lose_supervisor(ms if kind == "zombie root" else 0)
            self.start_supervisor()
        elif kind == "node":
            lost = rng.choice(NODES)
            self.nodes = tuple(n for n in NODES if n != lost)
            for machine in [m for m in lives if m.node == lost]:
                self.crash(machine)
            self.tell(Nodes(self.nodes))
        elif kind == "all but" and lives:
            for machine in rng.sample(lives, len(lives) - 1):
                self.crash(machine)
        elif lives:
            machine = rng.choice(lives)
            if kind == "crash":
                self.crash(machine)
            elif kind == "freeze":
                machine.frozen_until = self.now + ms
            elif kind == "cut":
                machine.cut_until = self.now + ms
            elif kind == "zombie":
                self.become_zombie(machine, ms)

    def heal(self) -> None:
        self.loss = 0.0
        self.nodes = NODES
        self.tell(Nodes(NODES))

    # -- what is owed -------------------------------------------------------------------------

    def is_fine(self, life: Life) -> bool:
        """Whether the supervisor was told lately that the output can go on with a replica."""
        at, status = self.news.get(life, (BEGIN, None))
        if not isinstance(status, ReplicaStatus) or status.is_joining or life in self.ordered:
            return False
        if self.now - at >= TIMING.hang_ms:
            return False
        mergers = self.heard_mergers(life.slot[1])
        return bool(mergers) and all(
            any(i.life == life and i.qualifies for i in m.inputs) for m in mergers
        )

    def heard_mergers(self, shard: str) -> list[MergerStatus]:
        newest: dict[str, MergerStatus] = {}
        for life in sorted(self.news):
            at, status = self.news[life]
            is_ours = isinstance(status, MergerStatus) and life.slot[1] == shard
            if is_ours and self.now - at < TIMING.hang_ms and life not in self.ordered:
                assert isinstance(status, MergerStatus)
                newest[life.slot] = status
        return list(newest.values())

    def plan_of(self, life: Life) -> str:
        _, status = self.news.get(life, (0, None))
        return status.plan if isinstance(status, ReplicaStatus) else ""

    def fine_slots(self, shard: str) -> set[str]:
        return {
            life.slot for life in self.news if life.slot[:2] == "r" + shard and self.is_fine(life)
        }

    def check_order(self, supervisor: Supervisor, message: Event) -> None:
        if supervisor is not self.supervisor:
            return
        if isinstance(message, Retire) and message.life.slot != SUPERVISOR:
            self.check_ending(supervisor, message.life)
        elif isinstance(message, Fence):
            for life in [life for life in self.news if life.slot == message.life.slot]:
                if life < message.life:
                    self.check_ending(supervisor, life)

    def check_ending(self, supervisor: Supervisor, life: Life) -> None:
        """Of a life that is told to go, or let in no more: its slot must not lose all by it."""
        if supervisor is not self.supervisor or life in self.ordered or life.slot in self.removed:
            return
        if life.slot not in supervisor.slots:
            self.removed.add(life.slot)  # that was decided with its first life that goes
        before = self.fine_slots(life.slot[1])
        self.ordered.add(life)
        after = self.fine_slots(life.slot[1])
        given_up = (
            self.cut is not None and self.cut[0] == self.plan_of(life) != self.desired.plans[0]
        )
        enough = given_up or len(after) >= self.desired.replicas or self.desired.state == "stopped"
        if life.slot[0] == "r" and len(after) < len(before) and not enough:
            raise Broken(f"{life} is ended, and {life.slot} has none like it: {after} are left")

    def check_cut(self) -> None:
        """Beyond the time of a cutover only one side is ever heard: the new one once it counts."""
        if self.cut is None:
            return
        plan, at = self.cut
        counts = self.desired.plans == (plan,)
        for merger in [m for m in self.lives.values() if m.life.slot[0] == "m"]:
            for status in self.inputs(merger) if merger.up_at <= self.now else ():
                machine = self.lives[status.life]
                if (machine.plan == plan) != counts and machine.stable > at:
                    raise Broken(f"{machine.life} of {machine.plan} is beyond {at}: {counts}")

    def check_successors(self, supervisor: Supervisor) -> None:
        state = supervisor.state()
        started = Counter(
            s.slot[:2]
            for s in state.slots
            if s.successor is not None and s.successor.incarnation.term == supervisor.term
        )
        if not state.cutover and any(count > 1 for count in started.values()):
            raise Broken(f"{started} successors at once")

    def is_whole(self) -> bool:
        """Whether exactly what is desired runs, and all of it is of use."""
        d = self.desired
        if self.supervisor is None:
            return False
        slots = {f"r{s}.{i}" for s in range(d.shards) for i in range(d.replicas)}
        slots |= {f"m{s}.{i}" for s in range(d.shards) for i in range(d.mergers)}
        state = self.supervisor.state()
        plans = all(
            m.plan == d.plan_of(int(m.life.slot.split(".")[1])) and m.held_at == INF
            for m in self.lives.values()
            if m.life.slot[0] == "r"
        )
        return (
            sorted(m.life.slot for m in self.lives.values()) == sorted(slots)
            and {s.slot for s in state.slots if s.state == "running"}
            == slots
            == {s.slot for s in state.slots}
            and plans
            and all(len(names) == d.mergers for names in state.assigned)
            and all(len(self.fine_slots(str(shard))) == d.replicas for shard in range(d.shards))
        )

    def run_until_whole(self, bound_ms: int) -> None:
        end = self.now + bound_ms
        while not self.is_whole():
            if self.now >= end:
                assert self.supervisor is not None
                raise Broken(f"not whole after {bound_ms} ms: {self.supervisor.state()}")
            self.run(TICK_MS)
