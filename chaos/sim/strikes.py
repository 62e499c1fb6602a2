"""What each kind of fault does to processes, nodes, links and disks, and how it ends.

    "crash node"     crash      the node with all that runs on it, and what was not synced there
    "zombie merger"  zombie     its death is told, and it goes on: it cannot be reached to be killed

A kind's first word says what is done (a method of that name), the rest to whom. Each returns what
ends the fault, or nothing where it is over at once. Targets are drawn when the fault strikes, by a
generator of the fault's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gapless.chaos.judge.history import Healed, Struck
from gapless.chaos.sim.drawn_faults import OPERATIONS, Fault, Moment
from gapless.chaos.sim.network import ANYBODY
from gapless.chaos.sim.processes import Process
from gapless.failover.job.desired import Scale, Switch
from gapless.failover.messages import SUPERVISOR
from gapless.failover.supervisor.effects import Command, Died
from gapless.protocol.errors import DiskFull, Misuse

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

End = Callable[[], None]

MOMENT_WAITS_MS = 300
"""How long a fault waits for its moment; then it strikes anyway."""
TRIES_MAX, TRY_AGAIN_MS = 12, 50
"""How often a fault looks for a target; then it makes the network a bad one instead, so that as
many faults strike as were drawn."""
AT_MOMENT_MS = 30
"""A fault strikes so long after its moment has begun, at most."""
SLOW_MS = 60
"""What a slow process takes for all that it does: longer than a heartbeat takes on its way."""
RESUME_MS = (60, 400)
"""How long nothing runs after everything has crashed."""
DROPPED_FACTOR = 3
"""So much longer than other faults mergers are away that people drop: longer than is waited for."""
LOST_CHECKPOINTS_SHARE = 0.3
"""How often all checkpoints are damaged when everything crashes: replicas begin with a replay."""
SWITCH_AHEAD = 60
"""How far behind the sources' time a cutover to another query begins, and then some."""
LETTERS = {"replica": "r", "merger": "m"}


class Strikes:
    """The faults of one run."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.struck = 0
        self.active = 0
        self.ends_at = 0
        """When the last fault so far was over."""
        self._waiting: dict[int, Fault] = {}
        self._to_come = 0
        self._tries: dict[int, int] = {}

    def plan(self, faults: Sequence[Fault]) -> None:
        """Puts the faults into the agenda."""
        self._to_come = len(faults)
        for fault in faults:
            if fault.moment is None:
                self.world.at(fault.at, self._strike, fault)
            else:
                self.world.at(fault.at, self._wait, fault)

    @property
    def is_over(self) -> bool:
        """Whether all faults have been, and are over."""
        return not self._to_come and not self.active

    def moment(self, moment: Moment) -> None:
        """Something is under way: what waits for it strikes soon."""
        for number, fault in list(self._waiting.items()):
            if fault.moment == moment:
                del self._waiting[number]
                delay = self.world.below(AT_MOMENT_MS)
                self.world.at(self.world.now + delay, self._strike, fault)

    def _wait(self, fault: Fault) -> None:
        self._waiting[fault.number] = fault
        self.world.at(self.world.now + MOMENT_WAITS_MS, self._wait_no_more, fault)

    def _wait_no_more(self, fault: Fault) -> None:
        if self._waiting.pop(fault.number, None) is not None:
            self._strike(fault)

    # -- a fault ------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        world = self.world
        world.by_time()
        self._to_come -= 1
        rng = random.Random(f"{world.seed} {fault}")
        if fault.kind in OPERATIONS:
            self._operate(fault, rng)
            return
        what, _, target = fault.kind.partition(" ")
        world.begin_step("", f"fault: {fault.kind} ({fault.lasts_ms} ms)")
        done = getattr(self, what)(target, rng)
        if done is None:  # nobody is there yet, or any more
            tries = self._tries[fault.number] = self._tries.get(fault.number, 0) + 1
            if tries < TRIES_MAX:
                self._to_come += 1
                world.at(world.now + TRY_AGAIN_MS, self._strike, fault)
                return
            done = self.lossy("", rng)
        name, end = done
        self.struck += 1
        self.active += 1
        world.begin_step("", f"it strikes {name}")
        world.say(Struck(fault.kind, name))
        world.at(
            world.now + (fault.lasts_ms if end is not None else 0), self._heal, fault, name, end
        )

    def _heal(self, fault: Fault, name: str, end: End | None) -> None:
        world = self.world
        world.by_time()
        if end is not None:
            world.begin_step("", f"over: {fault.kind} of {name}")
            end()
        self.active -= 1
        self.ends_at = world.now
        world.say(Healed(fault.kind, name))

    def _targets(self, role: str) -> list[Process]:
        """The processes of a role that are alive, in a fixed order."""
        cluster = self.world.cluster
        if role in LETTERS:
            letter = LETTERS[role]
            alive = [
                p
                for p in cluster.processes.values()
                if p.life.slot[0] == letter and p.life.slot[1].isdigit()
            ]
        elif role == "supervisor":
            alive = [p for p in cluster.processes.values() if p.life.slot == SUPERVISOR]
        else:
            alive = [p for p in cluster.processes.values() if p.life.slot in ("changes", "final")]
        return sorted(alive, key=lambda p: p.name)

    # -- kinds of faults ----------------------------------------------------------------------

    def crash(self, target: str, rng: random.Random) -> tuple[str, End | None] | None:
        """Ends processes."""
        cluster, world = self.world.cluster, self.world
        match target:
            case "node":
                if not (nodes := cluster.live_nodes):
                    return None
                node = rng.choice(nodes)
                cluster.lose_node(node)
                return node, lambda: cluster.node_is_back(node)
            case "everything":
                world.strikes.moment("resume")
                return self._crash_everything(rng)
            case "all but one":
                replicas = self._targets("replica")
                for shard in sorted({p.life.slot[1:].split(".")[0] for p in replicas}):
                    own = [p for p in replicas if p.life.slot[1:].split(".")[0] == shard]
                    for process in rng.sample(own, len(own) - 1):
                        cluster.end(process, "crashes")
                return "all replicas but one", None
        if not (alive := self._targets(target)):
            return None
        process = rng.choice(alive)
        if target == "merger" and rng.random() < 0.5:
            cluster.crash_disk(process)
        cluster.end(process, "crashes")
        return process.name, None

    def _crash_everything(self, rng: random.Random) -> tuple[str, End]:
        cluster, world = self.world.cluster, self.world
        with_machines = rng.random() < 0.5
        processes = list(cluster.processes.values())
        supervisors = [p for p in processes if p.life.slot == SUPERVISOR]
        for process in [*(p for p in processes if p not in supervisors), *supervisors]:
            if with_machines and process.life.slot[0] == "m":
                cluster.crash_disk(process)
            cluster.end(process, "crashes, as everything does")
        restore: list[End] = []
        if rng.random() < LOST_CHECKPOINTS_SHARE:
            files = [f for f in world.disk.files("job/checkpoints") if world.disk.size(f)]
            restore = [world.disk.flip_bit(name, rng) for name in files]

        def end() -> None:
            for undo in restore:
                undo()
            world.strikes.moment("resume")

        return "everything", end

    def freeze(self, target: str, rng: random.Random) -> tuple[str, End] | None:
        """Stops a process, which goes on later as if nothing had been."""
        if not (alive := self._targets(target)):
            return None
        process = rng.choice(alive)
        process.frozen += 1
        return process.name, process.thaw

    def slow(self, target: str, rng: random.Random) -> tuple[str, End] | None:
        """Lets a process take long for what it does."""
        if not (alive := self._targets(target)):
            return None
        process = rng.choice(alive)
        process.slow_ms += SLOW_MS

        def end() -> None:
            process.slow_ms -= SLOW_MS

        return process.name, end

    def zombie(self, target: str, rng: random.Random) -> tuple[str, End] | None:
        """Reports a death that did not happen; the process goes on, out of reach of its killers. A
        supervisor hears nothing meanwhile, so nobody tells it that its term is over.
        """
        if not (alive := self._targets(target)):
            return None
        cluster = self.world.cluster
        process = rng.choice(alive)
        process.cannot_be_killed += 1
        hears: End | None = None
        if target == "supervisor":
            network = self.world.network
            hears = network.trouble(network.cut, [(ANYBODY, process.name)])
            cluster.start_supervisor()
        else:
            cluster.to_supervisor(Died(process.life, "so it is said"))

        def end() -> None:
            process.cannot_be_killed -= 1
            if hears is not None:
                hears()

        return process.name, end

    def isolate(self, target: str, rng: random.Random) -> tuple[str, End] | None:
        """Cuts a process off, both ways."""
        if not (alive := self._targets(target)):
            return None
        name = rng.choice(alive).name
        network = self.world.network
        return name, network.trouble(network.cut, [(name, ANYBODY), (ANYBODY, name)])

    def one(self, target: str, rng: random.Random) -> tuple[str, End] | None:  # noqa: ARG002  # way
        """Cuts a process off one way: it speaks and does not hear, or hears and does not speak."""
        if not (alive := [*self._targets("replica"), *self._targets("merger")]):
            return None
        name = rng.choice(alive).name
        link = rng.choice([(name, ANYBODY), (ANYBODY, name)])
        return "->".join(link), self.world.network.trouble(self.world.network.cut, [link])

    def clog(self, target: str, rng: random.Random) -> tuple[str, End] | None:  # noqa: ARG002  # one form for all faults
        """Holds up what goes over one link."""
        ends = [*self._targets("replica"), *self._targets("merger"), *self._targets("supervisor")]
        if len(ends) < 2:
            return None
        link = tuple(process.name for process in rng.sample(ends, 2))
        network = self.world.network
        return "->".join(link), network.trouble(network.clogged, [(link[0], link[1])])

    def lossy(self, target: str, rng: random.Random) -> tuple[str, End]:  # noqa: ARG002  # one form for all faults
        """Makes the network a bad one."""
        network = self.world.network
        network.storms += 1

        def end() -> None:
            network.storms -= 1

        return "the network", end

    def disk(self, target: str, rng: random.Random) -> tuple[str, End] | None:  # noqa: ARG002  # full
        """Leaves the output of a merger no room, or everything."""
        mergers = self._targets("merger")
        if not mergers:
            return None
        cluster, disk = self.world.cluster, self.world.disk
        slot = rng.choice(mergers).life.slot
        folder = cluster.output_folder(slot) if rng.random() < 0.7 else "job"
        disk.fill(folder)
        return folder, lambda: disk.empty(folder)

    def flip(self, target: str, rng: random.Random) -> tuple[str, End] | None:
        """Flips a bit of a file, which is restored from a copy later."""
        cluster, disk = self.world.cluster, self.world.disk
        match target:
            case "checkpoint":
                files = disk.files("job/checkpoints")
            case "source":
                files = [
                    f
                    for name in self.world.workload.layouts
                    for f in disk.files(f"sources/{name}/segments")
                ]
            case _:
                outputs = [f for f in disk.files("job/out") if "/segments/" in f]
                files = [f for f in outputs if cluster.slot_of(f) not in cluster.torn]
        files = [name for name in files if disk.size(name)]
        if not files:
            return None
        name = rng.choice(files)
        mend = disk.flip_bit(name, rng)
        if target != "output":
            return name, mend
        cluster.flipped[cluster.slot_of(name)] += 1

        def end() -> None:
            cluster.flipped[cluster.slot_of(name)] -= 1
            mend()

        return name, end

    # -- what people do -----------------------------------------------------------------------

    def _operate(self, fault: Fault, rng: random.Random) -> None:
        world, cluster = self.world, self.world.cluster
        if not world.cluster.newest[SUPERVISOR].is_alive:
            self._to_come += 1
            world.at(world.now + MOMENT_WAITS_MS, self._strike, fault)
            return
        world.begin_step("", f"operation: {fault.kind}")
        if world.drain is not None and world.drain.is_ordered:
            world.note("refused: the job is being drained")
            return
        match fault.kind:
            case "scale up":
                cluster.to_supervisor(Command(Scale(4)))
            case "scale down":
                cluster.to_supervisor(Command(Scale(2)))
            case "drop merger":
                mergers = self._targets("merger")
                self._drop_mergers(fault, rng.sample(mergers, min(1, len(mergers))))
            case "drop mergers":
                self._drop_mergers(fault, self._targets("merger"))
            case "switch" if world.workload.spare is not None:
                self.moment("cutover")
                cluster.to_supervisor(Command(Switch((world.workload.spare,))))
            case "switch at" if world.workload.switched is not None:
                self._switch_at()

    def _drop_mergers(self, fault: Fault, mergers: Sequence[Process]) -> None:
        """Their slots stay empty for so long that replicas would go on without them."""
        world, cluster = self.world, self.world.cluster
        slots = [process.life.slot for process in mergers]
        cluster.paused.update(slots)
        self.active += 1

        def end() -> None:
            cluster.paused.difference_update(slots)
            self.active -= 1
            self.ends_at = world.now

        for process in mergers:
            cluster.end(process, "crashes, and its slot stays empty")
        world.at(world.now + DROPPED_FACTOR * fault.lasts_ms, end)

    def _switch_at(self) -> None:
        """Cutover to the changed query, at a time that no replica has reached."""
        world = self.world
        at = world.workload.next_switch(world.sources.time + SWITCH_AHEAD)
        self.moment("cutover")
        try:
            plan = world.queries.changed_plan(world.job, world.desired.plans[0], at)
            world.cluster.to_supervisor(Command(Switch((plan,), at)))
        except (Misuse, DiskFull) as e:
            world.note(f"refused: {e}")
