"""What a simulated job runs on: nodes and the processes on them, started, ended and found.

The supervisor decides what runs; the cluster does it, as Ray does elsewhere: it takes a while to
start a process, and to see that one has died, and it may be wrong about that. It restarts the
supervisor itself. Messages to a slot go to its newest life, also if that is dead already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gapless.chaos.judge.history import Ended, Recovered, Resumed, Started
from gapless.chaos.sim.disk import View
from gapless.chaos.sim.merger_process import MergerProcess
from gapless.chaos.sim.processes import Process, SubscriberProcess, SupervisorProcess
from gapless.chaos.sim.replica_process import ReplicaProcess
from gapless.chaos.sim.source_ends import SourceEnds
from gapless.failover.io.supervisor_io import drop_unreadable
from gapless.failover.job.directory import Job
from gapless.failover.life_start import MergerStart, ReplicaStart
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import SUPERVISOR, Life, Message, Token
from gapless.failover.replica.sources import Sources
from gapless.failover.subscriber.effects import Give
from gapless.failover.subscriber.tokens import decode, encode
from gapless.failover.supervisor.effects import Died, Nodes
from gapless.journal import segment
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import DiskFull, Fenced, JobError, JournalError

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

NODES = ("n1", "n2", "n3", "n4")
"""One more than there are replicas: one can be lost, and each replica still has its own."""
REPLICAS, MERGERS = 3, 2
"""Of a shard."""
BASE_BYTES = 12 << 10
"""From one base of an output to the next: a run makes a few, so that takeovers begin there."""
SEGMENT_BYTES = segment.SEGMENT_BYTES
"""Of a segment of an output."""
SPAWN_MS = (10, 80)
DETECT_MS = (5, 40)
"""How long it takes to start a process, and to see that one has died."""
HEADROOM_BYTES = 8 << 10
"""That an output is written ahead at once: some appends."""
RESTART_MS = (30, 250)
"""How long a supervisor or a subscriber stays away."""


class Cluster:
    """The processes of a simulation."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.desired = world.job.desired()
        """What should run, as the job's directory has it."""
        self.processes: dict[str, Process] = {}
        """Those that are alive, by name."""
        self.newest: dict[str, Process] = {}
        """By slot, the one of the highest incarnation; it may be dead."""
        self.lost_nodes: set[str] = set()
        self.kept: dict[str, str] = {}
        """What the programs of subscribers keep: their tokens, as text."""
        self.paused: set[str] = set()
        """Slots in which nothing can be started for now."""
        self.flipped: Counter[str] = Counter()
        """By slot of a merger, how many faults have flipped a bit of its output."""
        self.torn: set[str] = set()
        """Those whose output has lost what was not synced, until the next life has it."""
        self._writes: dict[str, Life] = {}  # by slot, whose journal its output is
        self._subscribers: dict[str, Callable[[], dict[str, Any]]] = {}
        self._lives = 0  # of subscribers
        self._writers = 0  # of journals

    # -- the job ------------------------------------------------------------------------------

    def start_supervisor(self) -> None:
        """A new one, with the next term: what it knows is what the job's directory says."""
        world = self.world
        if not self.live_nodes:
            world.at(world.now + RESTART_MS[1], self.start_supervisor)
            return
        try:
            job = Job(world.disk_reach.job, self._token())
            resumed = job.resume(world.workload.functions)
        except (DiskFull, JobError, JournalError, OSError) as e:
            world.note(f"the supervisor cannot be started: {e}")
            world.at(world.now + RESTART_MS[1], self.start_supervisor)
            return
        drop_unreadable(job, resumed, world.note)
        self.desired = resumed.desired
        machine = world.build.supervisor(
            resumed.term, resumed.desired, resumed.checkpoints, self.live_nodes, world.timing
        )
        life = Life(SUPERVISOR, Incarnation(resumed.term, 0))
        node = world.choose(self.live_nodes)
        self._run(SupervisorProcess(world, life, node, machine, job, resumed))

    @property
    def live_nodes(self) -> tuple[str, ...]:
        """Those that can be used."""
        return tuple(node for node in NODES if node not in self.lost_nodes)

    def spawn(self, life: Life, node: str, start: ReplicaStart | MergerStart) -> None:
        """Starts a process, after a while; if that fails the supervisor hears of it."""
        delay = self.world.between(SPAWN_MS)
        self.world.at(self.world.now + delay, self._spawn, life, node, start)

    def _spawn(self, life: Life, node: str, start: ReplicaStart | MergerStart) -> None:
        world = self.world
        if node in self.lost_nodes or life.slot in self.paused:
            world.note(f"{life} cannot be started on {node}")
            self._tell_died(life, "it could not be started")
            return
        try:
            make = self._replica if isinstance(start, ReplicaStart) else self._merger
            process = make(life, node, start)
        except (JournalError, DiskFull, Fenced, OSError) as e:
            world.note(f"{life} cannot be started: {e}")
            self._tell_died(life, str(e))
            return
        self._run(process)

    def _replica(self, life: Life, node: str, start: Any) -> Process:
        world = self.world
        executor = world.workload.executor(start.plan, world.plans[start.plan].compile)
        machine = world.build.replica(life, start, executor, world.timing)
        partitions = world.workload.partitions_of(start.shard)
        sources = Sources(
            {name: View(world.disk_reach.files, f"sources/{name}") for name in executor.sources},
            executor.sources,
            partitions,
        )
        ends = SourceEnds(executor.sources, world.sources.disk, partitions)
        return ReplicaProcess(world, life, node, machine, sources, ends)

    def _merger(self, life: Life, node: str, start: Any) -> Process:
        world = self.world
        world.strikes.moment("takeover")
        output = world.build.output(
            world.disk_reach.clients[node].view(self.output_folder(life.slot)),
            world.schema,
            life,
            self._token(),
            lambda: world.now,
            base_bytes=BASE_BYTES,
            segment_bytes=SEGMENT_BYTES,
            headroom_bytes=HEADROOM_BYTES,
        )
        self.torn.discard(life.slot)
        self._writes[life.slot] = life
        live, offset = output.recover()
        world.say(Recovered(life, output.epoch, offset, live))
        merge = world.build.merge(world.schema, world.workload.case)
        machine = world.build.merger(life, start, output.epoch, merge, live, offset, world.timing)
        return MergerProcess(world, life, node, machine, output)

    def is_taken_over(self, merger: Process) -> bool:
        """Whether a later life has the journal of a merger."""
        return self._writes[merger.life.slot] != merger.life

    def _token(self) -> str:
        self._writers += 1
        return f"w{self._writers}"

    def output_disk(self, slot: str) -> View:
        """Where a merger's output lies."""
        return View(self.world.disk, self.output_folder(slot))

    @staticmethod
    def output_folder(slot: str) -> str:
        """The same, as a folder of the disk."""
        return f"job/{Job.out(int(slot[1:].partition('.')[0]), slot)}"

    @staticmethod
    def slot_of(file: str) -> str:
        """Whose output a file of the disk is of."""
        return file.split("/")[3]

    def output_reader(self, slot: str, node: str) -> OutputReader:
        """A reader of a merger's output, on a machine. Raises what its disk does, in some runs."""
        errors = self.world.disk_reach.peer_errors
        if (error := errors.next("read", self.output_folder(slot))) is not None:
            raise error
        disk = self.world.disk_reach.clients[node].view(self.output_folder(slot))
        return OutputReader(disk, self.world.schema)

    # -- subscribers --------------------------------------------------------------------------

    def subscribe(self, name: str, how: Callable[[], dict[str, Any]]) -> None:
        """Starts a subscriber, and the program that keeps its tokens; `how` says for each of its
        lives which output it reads.
        """
        self._subscribers[name] = how
        self._start_subscriber(name)

    def _start_subscriber(self, name: str) -> None:
        world = self.world
        kept = self.kept.get(name)
        tokens = None if kept is None else decode(kept)
        how = self._subscribers[name]()
        if tokens is not None:
            how["start"] = tokens
        world.say(Resumed(name, tokens, how["deliver"], BEGIN))
        self._lives += 1
        machine = world.build.subscriber(name, schema=world.schema, timing=world.timing, **how)
        life = Life(name, Incarnation(0, self._lives))
        self._run(SubscriberProcess(world, life, world.choose(NODES), machine))

    def keep(self, name: str, tokens: Mapping[str, Token]) -> None:
        """A program keeps tokens."""
        self.kept[name] = encode(tokens)

    @property
    def left(self) -> list[str]:
        """All of the job that runs: subscribers are no part of it."""
        return [p.name for p in self.processes.values() if p.life.slot not in self._subscribers]

    # -- running ------------------------------------------------------------------------------

    def _run(self, process: Process) -> None:
        self.processes[process.name] = process
        newest = self.newest.get(process.life.slot)
        if newest is None or newest.life < process.life:
            self.newest[process.life.slot] = process
        self.world.say(Started(process.life, process.node))
        process.start()

    def end(self, process: Process, how: str) -> None:
        """A life is over."""
        if not process.is_alive:
            return
        process.is_alive = False
        del self.processes[process.name]
        self.world.note(f"{process.name} {how}")
        self.world.say(Ended(process.life, how))
        slot, at = process.life.slot, self.world.now + self.world.between(RESTART_MS)
        if isinstance(process, SubscriberProcess):
            self.world.at(at, self._start_subscriber, slot)
        elif isinstance(process, SupervisorProcess):
            is_done = self.desired.state == "stopped" and how.startswith("exits")
            if self.newest[slot] is process and not is_done:
                self.world.at(at, self._supervise_again, process)
        else:
            self._tell_died(process.life, how)

    def _supervise_again(self, after: Process) -> None:
        if self.newest[SUPERVISOR] is after:
            self.start_supervisor()

    def _tell_died(self, life: Life, reason: str) -> None:
        delay = self.world.between(DETECT_MS)
        self.world.at(self.world.now + delay, self.to_supervisor, Died(life, reason))

    def to_supervisor(self, event: Any) -> None:
        """What people tell a job's supervisor."""
        supervisor = self.newest[SUPERVISOR]
        if supervisor.is_alive:
            supervisor.happens(event)

    def kill(self, life: Life) -> None:
        """The supervisor wants a life dead; a zombie is out of reach."""
        process = self.processes.get(str(life))
        if process is None:
            return
        if process.cannot_be_killed:
            self.world.note(f"{process.name} cannot be reached to be killed")
            return
        self.end(process, "is killed by the supervisor")

    def lose_node(self, node: str) -> None:
        """A machine dies, with all that runs on it and all that was not synced there."""
        self.lost_nodes.add(node)
        for process in [p for p in self.processes.values() if p.node == node]:
            if isinstance(process, MergerProcess):
                self.crash_disk(process)
            self.end(process, f"dies with {node}")
        self.to_supervisor(Nodes(self.live_nodes))

    def node_is_back(self, node: str) -> None:
        """The machine runs again, with nothing on it."""
        self.lost_nodes.discard(node)
        self.world.disk_reach.clients[node].forget()
        self.to_supervisor(Nodes(self.live_nodes))

    def crash_disk(self, merger: Process) -> None:
        """What a dying merger's machine had not synced is lost, or torn.

        Not where a later life writes on another machine. Nor where a bit of that output is flipped:
        that one file suffers two faults at once is more than is promised.
        """
        slot = merger.life.slot
        if self.newest[slot] is not merger or self.flipped[slot]:
            return
        self.torn.add(slot)
        lost = self.world.disk.crash(self.output_folder(slot), self.world.rng)
        if lost:
            self.world.note(f"{lost} bytes of the output of {slot} are lost")

    def given_up(self, process: Process, effect: Give) -> None:
        """A subscriber's program got an error: it begins again, from the tokens that it kept."""
        self.end(process, f"is told that it cannot go on ({effect.why}): {effect.reason}")

    # -- messages -----------------------------------------------------------------------------

    def send(self, sender: Process, to: str, message: Message) -> None:
        """Puts a message on the network."""
        receiver = self.newest.get(to) or self.processes.get(to)
        if receiver is None:
            self.world.note(("is not there:", sender.name, to, message))
            return
        lost = self.world.network.send(
            (sender.name, receiver.name),
            lambda delay: self.world.at(self.world.now + delay, receiver.happens, message),
        )
        if lost is not None:
            self.world.note((f"{lost}:", sender.name, to, message))
