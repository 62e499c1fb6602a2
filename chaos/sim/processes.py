"""The processes of a simulation: each pumps one machine, as an actor or a server does elsewhere.

    event --> machine.on(event, now) --> effects --> done here, over simulated network and disk

A process can be killed, frozen (it does nothing, and goes on later as if nothing had been) and
slowed down. No decision about the protocol is here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from gapless.chaos.judge.history import (
    Assigned,
    Delivered,
    Durable,
    Emitted,
    Forwarded,
    Joined,
    Obeyed,
    Said,
    ToldLate,
    TookIn,
    Trimmed,
)
from gapless.chaos.sim.work_time import Gone
from gapless.failover import effects as ask
from gapless.failover.effects import Effect, Event, Start, Tick
from gapless.failover.io.merger_io import EFFECTS, OutputEffect
from gapless.failover.io.steps import Place, Step
from gapless.failover.job.directory import Job
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import (
    Assign,
    Attach,
    Data,
    Delivery,
    Drain,
    Fence,
    Hold,
    Life,
    Retire,
    Session,
    TakeCheckpoint,
)
from gapless.failover.replica import checkpoint as checkpoints
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.sources import Sources
from gapless.failover.replica.tail import Tail
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.supervisor.machine import Supervisor
from gapless.journal import reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DiskFull, Fenced, GaplessError, JournalError
from gapless.protocol.frame import Frame

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

TICK_MS = 50
"""A part of the silences after which machines speak again: they notice it soon."""
READ_MS_MAX, SYNC_MS_MAX, CHECKPOINT_MS_MAX, WORK_MS_MAX = 4, 20, 40, 200
"""How long a disk takes at most to read a frame, to sync an append, to write a checkpoint, a
machine to do what it does beside. A sync
may take as long as a frame's pace, so that appends gather."""
FRAME_ROWS = reader.FRAME_ROWS
"""That a replica reads at once from a source."""
MORE_ONE_IN = 3
"""Every so manieth read says that there is more to be read at once, so that output gathers. It may
not be so: a hint that is wrong costs a wait, and nothing else."""
FOLLOW_MS = 150
"""How long a read waits for a source to grow before it says that there is nothing new."""
BACKLOG_MAX = 100_000
"""What waits for a frozen process: more than any run makes."""
_ORDERS = frozenset((Assign, Fence, Retire, TakeCheckpoint, Drain, Hold))


class Process:
    """One life: its machine, and the effects that all machines have."""

    def __init__(self, world: Simulation, life: Life, node: str, machine: Any) -> None:
        self.world = world
        self.life = life
        self.name = str(life)
        self.node = node
        self.machine = machine
        self.is_alive = True
        self.frozen = 0
        """How many faults hold it."""
        self.slow_ms = 0
        self.cannot_be_killed = 0
        """How many faults keep the cluster from reaching it: it is a zombie then."""
        self._backlog: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque(
            maxlen=BACKLOG_MAX
        )
        self._does: dict[type, Callable[[Any], None]] = {
            ask.Send: self._send,
            ask.Exit: self._exit,
            ask.Alarm: self._alarm,
        }

    @property
    def has_ended(self) -> bool:
        """Whether it is dead: an effect of its own may have ended it."""
        return not self.is_alive

    # -- running ------------------------------------------------------------------------------

    def start(self) -> None:
        """The first event, and time from now on."""
        self.happens(Start())
        self.world.at(self.world.now + TICK_MS, self._tick)

    def _tick(self) -> None:
        if self.is_alive:
            if not self.frozen:
                self.happens(TICK)
            self.world.at(self.world.now + TICK_MS, self._tick)

    def happens(self, event: Event) -> None:
        """Gives an event to the machine, and does what follows."""
        if not self.is_alive:
            return
        if self.frozen:
            self._backlog.append((self.happens, (event,)))
            return
        self.world.begin_step(self.name, event)
        self._do(self.machine.on(event, self.world.now))

    def _do(self, effects: Sequence[Effect]) -> None:
        """Does what follows from an event, in its order; it may stop in the middle of it."""
        toil = self.world.toil
        if toil is None:
            for effect in effects:
                self._does[type(effect)](effect)
                if self.has_ended:
                    return
            return
        for number, effect in enumerate(effects):
            if number and toil.stops_between(self, partial(self._do, effects[number:])):
                return
            self._in_effect(self._does[type(effect)], effect)
            if self.has_ended:
                return
        toil.after(self)

    def _in_effect(self, do: Callable[..., None], *args: Any) -> None:
        """Does a part of an effect, unless it is ended in the middle of that."""
        toil = self.world.toil
        if toil is None:
            do(*args)
            return
        try:
            toil.within(self, do, *args)
        except Gone:
            self.world.note(f"{self.name} was in the middle of it")

    def put_off(self, rest: Callable[[], None]) -> None:
        """Before anything else it does this, once it goes on."""
        self._backlog.appendleft((rest, ()))

    def disk_ms(self, quick_ms: int) -> int:
        """How long a disk takes for something."""
        toil = self.world.toil
        return quick_ms if toil is None else toil.disk_ms(self, quick_ms)

    def later(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        """Something that this process itself does after a while: not if it is dead by then, and
        later still if it is frozen.
        """
        self.world.at(self.world.now + delay_ms + self.slow_ms, self._later, call, args)

    def _later(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self.is_alive:
            return
        if self.frozen:
            self._backlog.append((call, args))
        else:
            self._in_effect(call, *args)

    def thaw(self) -> None:
        """Continues with what has come meanwhile."""
        self.frozen -= 1
        while self._backlog and not self.frozen and self.is_alive:
            call, args = self._backlog.popleft()
            self._in_effect(call, *args)

    # -- effects ------------------------------------------------------------------------------

    def _send(self, effect: ask.Send) -> None:
        self.world.cluster.send(self, effect.to, effect.message)

    def _exit(self, effect: ask.Exit) -> None:
        self.world.cluster.end(self, f"exits: {effect.reason}")

    def _alarm(self, effect: ask.Alarm) -> None:
        self.world.note(f"{self.name} says: {effect.what}")
        self.world.say(Said(self.life, effect.what))

    def _obey(self, event: Any) -> None:
        if type(event) in _ORDERS and self.machine.obeys(event.term):
            about = getattr(event, "life", None)
            self.world.say(Obeyed(self.life, event.term, type(event).__name__, about))


TICK = Tick()


class ReplicaProcess(Process):
    """A replica and its sources."""

    machine: Replica

    def __init__(
        self, world: Simulation, life: Life, node: str, machine: Replica, sources: Sources
    ) -> None:
        super().__init__(world, life, node, machine)
        self._sources = sources
        self._reads = 0  # asked for; each is answered once
        self._dry: dict[str, int] = {}  # how far a source had grown when it had nothing for us
        self._tail: Tail | None = None  # what it holds since it has joined
        self._since, self._wanted = BEGIN, BEGIN
        self._mergers: tuple[str, ...] = ()
        self._does |= {
            ask.OpenSources: self._open,
            ask.ReadSource: self._read,
            ask.SkipSource: lambda e: self._sources.skip(e.source, e.t),
            ask.WriteCheckpoint: self._write_checkpoint,
            ask.LoadCheckpoint: self._load_checkpoint,
            ask.DropCheckpoint: self._drop_checkpoint,
            ask.Work: self._work,
        }

    def start(self) -> None:
        """Also reports the hold that it begins with, if any."""
        if self.machine.held_at < INF:
            self.world.say(Obeyed(self.life, self.life.incarnation.term, "Hold"))
        super().start()

    def happens(self, event: Event) -> None:
        """Also tells what the replica forgets, and by whom it goes."""
        if self.is_alive and not self.frozen:
            self._obey(event)
        super().happens(event)
        machine, say = self.machine, self.world.say
        if machine.awaited != self._mergers:
            self._mergers = machine.awaited
            say(Assigned(self.life, self._mergers))
        if machine.is_joining:
            return
        if self._tail is not machine.tail:  # it may begin again, from another origin
            self._tail = machine.tail
            self._since = machine.tail.since
            self._wanted = machine.forwarded
            say(Joined(self.life, self._since))
        if machine.tail.since > self._since:
            self._since = machine.tail.since
            say(Trimmed(self.life, self._since))
        if machine.forwarded > self._wanted:
            self._wanted = machine.forwarded
            say(Forwarded(self.life, self._wanted))

    def _open(self, effect: ask.OpenSources) -> None:
        self._reads += 1  # a read that is under way is of sources that are closed now
        try:
            self._dry.clear()
            self._sources.open(effect.positions, effect.since)
        except JournalError as e:
            self.later(1, self.happens, ask.SourceFailed("", str(e)))

    def _read(self, effect: ask.ReadSource) -> None:
        self._reads += 1
        self.later(
            self.disk_ms(1 + self.world.below(READ_MS_MAX)),
            self._have_read,
            effect.source,
            self._reads,
        )

    def _have_read(self, source: str, number: int, *, is_last: bool = False) -> None:
        """Answers; where there is nothing new it waits for it a while, as a follower does."""
        if number != self._reads:
            return
        grown = self.world.growth[source]
        found = None  # it had nothing for us, and has not grown
        if is_last or self._dry.get(source) != grown:
            try:
                found = self._sources.read(source, FRAME_ROWS)
            except JournalError as e:
                self._reads += 1
                self.happens(ask.SourceFailed(source, str(e)))
                return
        if found is None or (found[0] is None and not is_last):
            self._dry[source] = grown
            wake = partial(
                self.later, self.world.below(READ_MS_MAX), self._have_read, source, number
            )
            self.world.waiting_for[source].append(wake)
            self.later(FOLLOW_MS, partial(self._have_read, is_last=True), source, number)
            return
        self._reads += 1
        frame, position = found
        self.world.frames += frame is not None
        more = frame is not None and self.world.below(MORE_ONE_IN) == 0
        self.happens(ask.SourceRead(source, frame, position, more))

    def _write_checkpoint(self, effect: ask.WriteCheckpoint) -> None:
        self.later(
            self.disk_ms(1 + self.world.below(CHECKPOINT_MS_MAX)), self._have_written, effect
        )

    def _have_written(self, effect: ask.WriteCheckpoint) -> None:
        reason = ""
        try:
            checkpoints.write(self.world.job_disk, effect.name, effect.checkpoint)
        except (GaplessError, OSError) as e:
            reason = str(e)
        self.happens(ask.CheckpointWritten(effect.name, reason))

    def _drop_checkpoint(self, effect: ask.DropCheckpoint) -> None:
        with suppress(OSError):
            checkpoints.drop(self.world.job_disk, effect.name)

    def _work(self, effect: ask.Work) -> None:
        self.later(self.disk_ms(1 + self.world.below(WORK_MS_MAX)), self._have_worked, effect)

    def _have_worked(self, effect: ask.Work) -> None:
        self.happens(ask.Done(effect.number, effect.do()))

    def _load_checkpoint(self, effect: ask.LoadCheckpoint) -> None:
        self.later(
            self.disk_ms(1 + self.world.below(CHECKPOINT_MS_MAX)), self._have_loaded, effect.name
        )

    def _have_loaded(self, name: str) -> None:
        try:
            found, reason = checkpoints.read(self.world.job_disk, name, self.machine.schema), ""
        except GaplessError as e:
            found, reason = None, str(e)
        self.happens(ask.CheckpointLoaded(name, found, reason))


STEP_MS_MAX: Mapping[Place, int] = {
    "sync": SYNC_MS_MAX,
    "base": WORK_MS_MAX,
    "peer": READ_MS_MAX,
}
"""How long what is done at these places takes at most; what is done at others takes no time, unless
disks are slow."""


class MergerProcess(Process):
    """A merger and its output journal: what effects do says failover/io/merger_io.py."""

    machine: Merger

    def __init__(
        self, world: Simulation, life: Life, node: str, machine: Merger, output: OutputJournal
    ) -> None:
        super().__init__(world, life, node, machine)
        self._output = output
        self._heard: dict[Session, dict[int, tuple[int, Frame]]] = {}  # not taken in so far
        self._is_unsynced = False  # an append waits for its sync, and nothing is written meanwhile
        self._waiting: deque[tuple[Step, OutputEffect]] = deque()
        self._io = world.build.merger_io(
            output,
            lambda peer: world.cluster.output_reader(peer, node),
            lambda what: world.note(f"{self.name}: {what}"),
        )
        self._does |= dict.fromkeys(
            EFFECTS, lambda effect: self._begins(self._io.step(effect), effect)
        )

    def happens(self, event: Event) -> None:
        """Also tells what the merger takes in."""
        if not self.is_alive or self.frozen or type(event) is Tick:
            super().happens(event)
            return
        self._obey(event)
        if not isinstance(event, Attach | Data):
            super().happens(event)
            return
        session = event.session
        before = self.machine.taken_in(session)
        heard = self._heard.setdefault(session, {})
        if isinstance(event, Attach):
            heard[0] = (event.join_at, event.tail)
        elif event.sequence > before:
            heard[event.sequence] = (BEGIN, event.frame)
        super().happens(event)
        for number in range(before + 1, self.machine.taken_in(session) + 1):
            if (said := heard.pop(number, None)) is not None:  # else a broken one has skipped it
                self.world.frames += 1
                self.world.say(TookIn(self.life, session, number, *said))

    def _send(self, effect: ask.Send) -> None:
        message = effect.message
        if isinstance(message, Delivery):
            self.world.frames += 1
            self.world.say(
                Delivered(self.life, effect.to, message.after, message.frame, message.token)
            )
        super()._send(effect)

    def _begins(self, step: Step, effect: OutputEffect) -> None:
        """Does a step, now or after as long as it takes; a write after a sync that is under way."""
        if step.place == "write" and self._is_unsynced:
            self._waiting.append((step, effect))
            return
        most = STEP_MS_MAX.get(step.place)
        if most is not None:
            ms = self.disk_ms(1 + self.world.below(most))
        else:
            ms = self.disk_ms(0) if step.place == "scan" else 0
        if ms:
            self.later(ms, self._run, step, effect)
        else:
            self._run(step, effect)

    def _run(self, step: Step, effect: OutputEffect) -> None:
        done = step.do()
        if isinstance(done, Step):
            self._is_unsynced |= done.place == "sync"
            self._begins(done, effect)
        elif done is None:
            return
        elif step.place == "write":  # elsewhere another thread does it
            self.later(1, self.happens, done)
        else:
            if isinstance(effect, ask.Append) and isinstance(done, ask.Appended):
                self._say_durable(effect.frame, done)
            self.happens(done)
            if step.place == "sync":
                self._go_on_writing()

    def _go_on_writing(self) -> None:
        """Does the writes that waited for a sync, up to the next append."""
        self._is_unsynced = False
        while self._waiting and not self._is_unsynced:
            self._begins(*self._waiting.popleft())

    def _say_durable(self, frame: Frame, done: ask.Appended) -> None:
        is_late = self.world.toil is not None and self.world.cluster.is_taken_over(self)
        kind = ToldLate if is_late else Durable
        self.world.say(kind(self.life, self._output.epoch, done.offset - len(frame), frame))


class SubscriberProcess(Process):
    """A subscriber and its program, which keeps the tokens."""

    machine: Subscriber

    def __init__(self, world: Simulation, life: Life, node: str, machine: Subscriber) -> None:
        super().__init__(world, life, node, machine)
        self._does |= {ask.Emit: self._emit, ask.Give: self._give}

    def _emit(self, effect: ask.Emit) -> None:
        self.world.cluster.keep(self.life.slot, effect.tokens)
        self.world.say(
            Emitted(self.life.slot, effect.frame, effect.tokens, effect.reset, effect.since)
        )

    def _give(self, effect: ask.Give) -> None:
        self.world.cluster.given_up(self, effect)


class SupervisorProcess(Process):
    """A supervisor, what starts and ends lives for it, and the job's directory."""

    machine: Supervisor

    def __init__(
        self, world: Simulation, life: Life, node: str, machine: Supervisor, job: Job
    ) -> None:
        super().__init__(world, life, node, machine)
        self._job = job
        self._does |= {
            ask.Spawn: lambda e: world.cluster.spawn(e.life, e.node, e.start),
            ask.Kill: lambda e: world.cluster.kill(e.life),
            ask.Desire: self._desire,
            ask.DropCheckpoint: lambda e: self._job.drop_checkpoint(e.name),
        }

    def happens(self, event: Event) -> None:
        """Also tells whom it obeys; and whether its term is over, before it does anything more. A
        zombie does not see the job's directory, either.
        """
        if self.is_alive and not self.frozen:
            self._obey(event)
            if self._job.is_over and not self.cannot_be_killed:
                event = Retire(self.life.incarnation.term, self.life, "another root has the job")
        super().happens(event)

    def _desire(self, effect: ask.Desire) -> None:
        try:
            self._job.write_desired(effect.desired)
        except (Fenced, DiskFull, OSError) as e:
            self.world.cluster.end(self, f"cannot write what is desired: {e}")
            return
        self.world.cluster.desired = effect.desired
