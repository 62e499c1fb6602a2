"""A feed: the subscriber's machine in this process, which asks the mergers while there is room.

    machine --Send--> the newest question of each merger --> RunningMergers, while the job runs
            --Emit--> delivery.py                         --> StoredMergers, from its directory

Back-pressure: a merger is asked only while there is room for its answer. What waits for a program
that does not read is bounded in bytes; beyond that nothing is asked, so nothing is read or sent for
it either. A repeated question takes the place of the one before.

When the job is over its output is still there: a reader continues in the job's directory, if this
process can see it, with the same machine, the same offsets and so the same tokens.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.actors.delivery import EmitQueue
from gapless.actors.pump import Pump, now_ms
from gapless.actors.stored import StoredMergers
from gapless.failover.effects import Send, Tick
from gapless.failover.messages import Message
from gapless.failover.subscriber import effects as ask
from gapless.failover.subscriber.machine import Subscriber
from gapless.protocol.errors import GaplessError, JobError, Misuse
from gapless.protocol.errors import Trimmed as TrimmedError
from gapless.protocol.schema import StreamSchema

if TYPE_CHECKING:  # Ray takes a second to import, and a reader of a directory needs none
    from gapless.actors.running_mergers import RunningMergers

POLL_MS = 100
"""Between two looks into the journals of a job that is not stopped, where nobody is asked."""
FLOWING_MS = 3_000
"""For so long after an answer a merger that has nothing to say yet is asked again at once. The
machine repeats a question less and less often, which is for mergers that do not answer: an output
that stands still for half a second would reach the program after one and a half. Of an output that
has nothing for longer, an empty answer each fifth of a second would cost too much."""
LATER_MS = 86_400_000
"""Past every wait of a machine: what it would ask again some time it asks now."""

_log = logging.getLogger("gapless.actors")


class Feed:
    """Turns a subscriber until its output has ended, or it is closed."""

    def __init__(
        self,
        machine: Subscriber,
        slots: tuple[str, ...],
        schema: StreamSchema,
        job_dir: Path,
        mergers: RunningMergers | None = None,
    ) -> None:
        """Without `mergers` it reads the directory from the start."""
        self._machine = machine
        self._slots = slots
        self._schema = schema
        self._job_dir = job_dir
        self._running = mergers
        self._stored: StoredMergers | None = None
        self._newest: dict[str, Message] = {}  # questions, by merger
        self._unasked: set[str] = set()
        self._told_at: dict[str, int] = {}  # when a merger had something to say, by slot
        self._in_vain: set[str] = set()  # mergers whose last answer was to an older question
        self._is_scheduled = False  # a look into the directory
        self._was_stopped = False  # before the last look
        self._emits = 0
        self._emits_at_rest = -1
        self._is_read = False  # all that a stopped job has left
        self._is_closed = False
        self.delivery = EmitQueue(self._has_room)
        self.pump = Pump(
            f"subscriber {machine.name}",
            machine,
            {Send: self._send, ask.Emit: self._emit, ask.Give: self._give},
            flush=self._look_at_end,
            at_end=self._end,
        )
        if mergers is None:
            self._go_on_alone()
        else:
            mergers.begin(self.pump, self._answered, self._ask_all, self._left)

    def __str__(self) -> str:
        return f"{self._job_dir}, of {', '.join(self._slots)}"

    def start(self) -> None:
        """Begins to ask."""
        self.pump.start()

    def close(self) -> None:
        """Asks no more, and lets go of what waits; from any thread."""
        self._is_closed = True
        self.delivery.close()
        self.pump.end("closed")

    @property
    def under_way(self) -> list[Future[Any]]:
        """Questions that mergers have not answered yet."""
        return [] if self._running is None else self._running.under_way

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.pump.call(self._machine.validate)
        self.delivery.validate()

    # -- effects ------------------------------------------------------------------------------

    def _send(self, effect: Send) -> None:
        self._newest[effect.to] = effect.message
        self._unasked.add(effect.to)
        self._ask(effect.to)

    def _emit(self, effect: ask.Emit) -> None:
        self._emits += 1
        self.delivery.put(effect)

    def _give(self, effect: ask.Give) -> None:
        kind = {"trimmed": TrimmedError, "broken": JobError}.get(effect.why, Misuse)
        self.delivery.end(kind(effect.reason))
        self.pump.stop(effect.reason)

    def _look_at_end(self) -> None:
        if self._machine.has_ended:
            self.pump.stop("the output has ended")

    def _end(self, reason: str) -> None:
        if self._running is not None:
            self._running.end()
        broken = not (self._is_closed or self._machine.has_ended or self._is_read)
        error = JobError(f"the subscription broke down: {reason}") if broken else None
        self.delivery.end(error)

    # -- asking -------------------------------------------------------------------------------

    def _has_room(self) -> None:
        """The program has taken something; from its thread."""
        self.pump.do(self._ask_all)

    def _ask_all(self) -> None:
        for slot in sorted(self._unasked):
            self._ask(slot)

    def _ask(self, slot: str) -> None:
        if slot not in self._unasked or self.pump.ended is not None:
            return
        if not self.delivery.has_room:
            return
        if self._running is None:
            self._schedule(0)
        elif self._running.ask(slot, self._newest[slot]):
            self._unasked.discard(slot)

    def _answered(self, slot: str, messages: list[Message]) -> None:
        now, question = now_ms(), self._newest.get(slot)
        if messages:
            self._told_at[slot] = now
        elif slot in self._told_at and now - self._told_at[slot] < FLOWING_MS:
            self._unasked.add(slot)  # what comes next is there at once, and lies in its mailbox
        for message in messages:
            if self.pump.ended is None:
                self.pump.happens(message)
        if messages:
            self._follow(slot, led_on=self._newest.get(slot) is not question)
        self._ask(slot)

    def _follow(self, slot: str, *, led_on: bool) -> None:
        """An answer to an older question leads to no new one. That to the newest is there or on its
        way, so it is asked for at once; unless the last answer was to an older one, too.
        """
        if not led_on and slot not in self._in_vain:
            self._in_vain.add(slot)
            self._unasked.add(slot)
        elif led_on:
            self._in_vain.discard(slot)

    # -- from the directory -------------------------------------------------------------------

    def _left(self) -> None:
        """The root or the cluster is gone. If the job has ended its output is still there."""
        try:
            is_over = StoredMergers(self._job_dir, (), self._schema).is_stopped()
        except (GaplessError, OSError):
            return  # this process does not see the directory: nobody is left to be asked
        if is_over:
            self._go_on_alone()

    def _go_on_alone(self) -> None:
        if self._stored is not None:
            return
        self._stored = StoredMergers(self._job_dir, self._slots, self._schema)
        if self._running is not None:
            self._running.end()
            self._running = None
        self._unasked = set(self._newest)  # what was under way is asked again
        self._schedule(0)

    def _schedule(self, delay_ms: int) -> None:
        if self._is_scheduled:
            return
        self._is_scheduled = True
        if delay_ms:
            self.pump.later(delay_ms, self._ask_stored)
        else:
            self.pump.do(self._ask_stored)

    def _ask_stored(self) -> None:
        """Asks each journal once; what follows from the answers is asked the next time."""
        self._is_scheduled = False
        stored = self._stored
        if stored is None or self.pump.ended is not None:
            return
        was_stopped, self._was_stopped = self._was_stopped, stored.is_stopped()
        for slot in sorted(self._unasked):
            if not self.delivery.has_room:
                return  # `_has_room` comes once there is
            self._unasked.discard(slot)
            for answer in stored.answer(slot, self._newest[slot], now_ms()):
                if self.pump.ended is None:
                    self.pump.happens(answer)
        if not self._unasked and self.pump.ended is None:
            self._rest(was_stopped)

    def _rest(self, was_stopped: bool) -> None:
        """No answer has led to another question. Of a job that was stopped before its journals were
        asked that is the end, once what a cursor would ask some time later brings nothing, either.
        """
        if was_stopped and self._emits == self._emits_at_rest:
            self._is_read = True
            self.pump.stop("the job is stopped, and all of its output was delivered")
            return
        if was_stopped:
            self._emits_at_rest = self._emits
            for effect in self._machine.on(Tick(), now_ms() + LATER_MS):
                if isinstance(effect, Send):
                    self._send(effect)
        self._unasked |= set(self._newest)
        self._schedule(0 if self._was_stopped else POLL_MS)
