"""The processes of a simulation: each pumps one machine, as an actor or a server does elsewhere.

    event --> machine.on(event, now) --> effects --> done here, over simulated network and disk

A process can be killed, frozen (it does nothing, and goes on later as if nothing had been) and
slowed down. No decision about the protocol is here. Here is what all of them share, and those that
have no interpreter of their own; replicas are in replica_process.py, mergers in merger_process.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gapless.chaos.judge.history import Emitted, Obeyed, Said
from gapless.chaos.sim.work_time import Gone
from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.io.supervisor_io import EFFECTS, JobEffect
from gapless.failover.job.directory import Job, RootStart
from gapless.failover.machines import Effect, Event
from gapless.failover.messages import (
    Assign,
    Drain,
    Fence,
    Hold,
    Life,
    Retire,
    TakeCheckpoint,
)
from gapless.failover.subscriber import effects as ask
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.supervisor.machine import Supervisor

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

TICK_MS = 50
"""A part of the silences after which machines speak again: they notice it soon."""
READ_MS_MAX, SYNC_MS_MAX, CHECKPOINT_MS_MAX, WORK_MS_MAX = 4, 20, 40, 200
"""How long a disk takes at most to read a frame, to sync an append, to write a checkpoint, a
machine to do what it does beside. A sync may take as long as a frame's pace, so that appends
gather."""
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
            Send: self._send,
            Exit: self._exit,
            Alarm: self._alarm,
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

    def _send(self, effect: Send) -> None:
        self.world.cluster.send(self, effect.to, effect.message)

    def _exit(self, effect: Exit) -> None:
        self.world.cluster.end(self, f"exits: {effect.reason}")

    def _alarm(self, effect: Alarm) -> None:
        self.world.note(f"{self.name} says: {effect.what}")
        self.world.say(Said(self.life, effect.what))

    def _obey(self, event: Any) -> None:
        if type(event) in _ORDERS and self.machine.obeys(event.term):
            about = getattr(event, "life", None)
            self.world.say(Obeyed(self.life, event.term, type(event).__name__, about))


TICK = Tick()


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
    """A supervisor: what its effects do says failover/io/supervisor_io.py."""

    machine: Supervisor

    def __init__(  # of a process, and what its effects are done to
        self,
        world: Simulation,
        life: Life,
        node: str,
        machine: Supervisor,
        job: Job,
        resumed: RootStart,
    ) -> None:
        super().__init__(world, life, node, machine)
        self._io = world.build.supervisor_io(
            job,
            resumed,
            world.cluster,
            lambda what: world.note(f"{self.name}: {what}"),
            is_over=lambda: job.is_over and not self.cannot_be_killed,
        )
        self._does |= dict.fromkeys(EFFECTS, self._has_done)

    def happens(self, event: Event) -> None:
        """Also tells whom it obeys; and whether its term is over, before it does anything more. A
        zombie does not see the job's directory, either.
        """
        if self.is_alive and not self.frozen:
            self._obey(event)
            event = self._io.look() or event
        super().happens(event)

    def _has_done(self, effect: JobEffect) -> None:
        before = self._io.desired
        done = self._io.do(effect)
        if self._io.desired is not before:  # else one whose term is over would take it back
            self.world.cluster.desired = self._io.desired
        if done is not None:
            self.happens(done)
