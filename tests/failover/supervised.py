"""A scripted cluster that does what a supervisor asks for, and breaks: no engine, no journal.

    lives     report after a while, join, attach to mergers, qualify there; die, hang, turn zombie
    messages  come late, or not at all
    the root  dies, and a new term begins; the one before may not notice

What every supervisor owes is checked at each step from the outside, by the messages that it got: it
may act on old news, but not against what it has been told.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.job.desired import Change, Desired
from gapless.failover.job.settings import OnDivergence
from gapless.failover.life_start import MergerStart, Replay, ReplicaStart
from gapless.failover.messages import SUPERVISOR, Fence, Life, Message, Retire
from gapless.failover.replica.effects import DropCheckpoint
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.failover.supervisor.effects import (
    Command,
    Desire,
    Died,
    Kill,
    Nodes,
    Spawn,
    SupervisorEffect,
)
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF
from tests.failover.supervised_lives import (
    NODES,
    SPAWNS_A_SECOND,
    TICK_MS,
    TIMING,
    Broken,
    Lives,
    Machine,
)


class World(Lives):
    """The cluster, its network, and the supervisors of its job."""

    def __init__(
        self,
        seed: int,
        make: type[Supervisor] = Supervisor,
        desired: Desired | None = None,
        loss: float = 0.0,
        on_divergence: OnDivergence = "report",
        timing: Timing = TIMING,
    ) -> None:
        super().__init__(seed, loss, timing)
        self.on_divergence = on_divergence
        self.make = make
        self.desired = desired or Desired(3, ("p",), mergers=2)
        self.nodes: tuple[str, ...] = NODES
        self.seen: set[Life] = set()
        self.spawned: dict[tuple[int, str], list[int]] = {}
        self.alarms: list[str] = []
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
        self.supervisor = self.make(
            self.term,
            self.desired,
            self.kept,
            self.nodes,
            self.timing,
            on_divergence=self.on_divergence,
        )
        self.tell(Start())

    def lose_supervisor(self, zombie_ms: int = 0) -> None:
        if self.supervisor is not None and zombie_ms:
            self.old.append((self.supervisor, self.now + zombie_ms))
        self.supervisor = None

    def tell(self, event: Any) -> None:
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
        slots = set(self.supervisor.slots)
        self.do(self.supervisor, self.supervisor.on(event, self.now))
        if self.supervisor is not None:
            self.removed |= slots - set(self.supervisor.slots)
            self.supervisor.validate()
            self.check_successors(self.supervisor)

    def command(self, change: Change) -> None:
        self.tell(Command(change))

    def do(self, supervisor: Supervisor, effects: list[SupervisorEffect]) -> None:
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
        machine = Machine(life, effect.node, up_at, INF)
        if isinstance(start, ReplicaStart):
            last = start.origins[-1]
            assert isinstance(last, Replay)
            if last.join_at > min(self.durable.get(name, BEGIN) for name in start.awaited):
                raise Broken(f"{life} joins at {last.join_at}: a merger lacks what is before")
            machine.plan, machine.held_at = start.plan, start.held_at
            machine.version, machine.mergers = start.version, start.mergers
            machine.awaited = start.awaited
            machine.origins = list(start.origins)
        else:
            assert isinstance(start, MergerStart)
            machine.joins_at = up_at
            machine.fences = {fence.slot: fence for fence in start.fences}
        self.lives[life] = machine
        self.homes[life] = effect.node

    # -- the network --------------------------------------------------------------------------

    def send(self, to: str, message: Any) -> None:
        for machine in self.lives.values():
            newest = machine is self.newest(machine.life.slot)
            if str(machine.life) == to or (newest and machine.life.slot == to):
                self.later(machine.life, message)
        for supervisor, _ in self.old:
            if str(supervisor.life) == to:
                self.do(supervisor, supervisor.on(message, self.now))

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
        """Whether the supervisor was told lately that a replica can carry the output."""
        at, status = self.news.get(life, (BEGIN, None))
        if not isinstance(status, ReplicaStatus) or status.is_joining or life in self.ordered:
            return False
        if self.now - at >= self.timing.hang_ms:
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
            if is_ours and self.now - at < self.timing.hang_ms and life not in self.ordered:
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

    def check_order(self, supervisor: Supervisor, message: Message) -> None:
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
        if life.slot in supervisor.slots and supervisor.slots[life.slot].state == "failed":
            return  # given up, as all its lives were the odd one
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
            and all(len(names) == d.mergers for names in (*state.assigned, *state.awaited))
            and all(len(self.fine_slots(str(shard))) == d.replicas for shard in range(d.shards))
        )

    def run_until_whole(self, bound_ms: int) -> None:
        end = self.now + bound_ms
        while not self.is_whole():
            if self.now >= end:
                assert self.supervisor is not None
                raise Broken(f"not whole after {bound_ms} ms: {self.supervisor.state()}")
            self.run(TICK_MS)


def whole(
    desired: Desired | None = None,
    make: type[Supervisor] = Supervisor,
    on_divergence: OnDivergence = "report",
    timing: Timing = TIMING,
) -> World:
    """A job that runs as desired."""
    world = World(1, make, desired, on_divergence=on_divergence, timing=timing)
    world.run_until_whole(3_000)
    world.run(300)
    return world


def machine(world: World, slot: str) -> Machine:
    """The newest life in a slot."""
    found = world.newest(slot)
    assert found is not None
    return found


def shown(world: World, slot: str) -> str:
    assert world.supervisor is not None
    return {s.slot: s.state for s in world.supervisor.state().slots}[slot]


def spawned(world: World, slot: str) -> int:
    return sum(life.slot == slot for life in world.seen)
