"""The process of a merger, in a simulation: what its effects do says failover/io/merger_io.py.

    append ..... sync        virtual time passes between the steps of an effect
              |  read        what is written meanwhile waits for the sync, what is read does not

It also tells what the merger takes in, and what it has called durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gapless.chaos.judge.history import Delivered, Durable, ToldLate, TookIn
from gapless.chaos.sim.processes import (
    READ_MS_MAX,
    SYNC_MS_MAX,
    WORK_MS_MAX,
    Process,
)
from gapless.failover.effects import Send, Tick
from gapless.failover.io.merger_io import EFFECTS, OutputEffect
from gapless.failover.io.steps import Place, Step
from gapless.failover.machines import Event
from gapless.failover.merger import effects as ask
from gapless.failover.merger.effects import MergerEvent
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import Attach, Data, Delivery, Life, Session
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

STEP_MS_MAX: Mapping[Place, int] = {
    "sync": SYNC_MS_MAX,
    "base": WORK_MS_MAX,
    "peer": READ_MS_MAX,
}
"""How long what is done at these places takes at most; what is done at others takes no time, unless
disks are slow."""


class MergerProcess(Process):
    """A merger and its output journal."""

    machine: Merger

    def __init__(
        self, world: Simulation, life: Life, node: str, machine: Merger, output: OutputJournal
    ) -> None:
        super().__init__(world, life, node, machine)
        self._output = output
        self._heard: dict[Session, dict[int, tuple[int, Frame]]] = {}  # not taken in so far
        self._is_unsynced = False  # an append waits for its sync, and nothing is written meanwhile
        self._waiting: deque[tuple[Step[MergerEvent], OutputEffect]] = deque()
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

    def _send(self, effect: Send) -> None:
        message = effect.message
        if isinstance(message, Delivery):
            self.world.frames += 1
            self.world.say(
                Delivered(self.life, effect.to, message.after, message.frame, message.token)
            )
        super()._send(effect)

    def _begins(self, step: Step[MergerEvent], effect: OutputEffect) -> None:
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

    def _run(self, step: Step[MergerEvent], effect: OutputEffect) -> None:
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
