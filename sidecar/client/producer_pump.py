"""The pump of a producer's machine: any thread gives it an event, and its effects are sent.

    the program  --Push-->  .---------.              .--> a line: the calls to one sidecar
    the clock    --Tick-->  | machine | --Send(to)-->'
    each line    --Ack-->   '---------'                    changed: waiting threads look again

One thread at a time turns the machine: it holds `changed`. An error that ends the producer is
raised wherever the program waits. If there is a flight record, it notes each event, and is written
when the machine breaks down.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from gapless.failover.effects import Tick
from gapless.failover.messages import Attach, Data
from gapless.protocol.errors import Bug, GaplessError, JobError, Misuse
from gapless.sidecar.client.producer_machine import (
    ProducerEffect,
    ProducerEvent,
    ProducerMachine,
)
from gapless.sidecar.client.producer_record import ProducerRecord

TICK_S = 0.05
"""Between two looks at the time."""

_log = logging.getLogger("gapless.client")


class ProducerLine(Protocol):
    """The calls to one sidecar (push_line.py)."""

    def send(self, message: Attach | Data) -> None:
        """Sends over the present call."""


class ProducerPump:
    """Turns one machine."""

    def __init__(
        self,
        stream: str,
        machine: ProducerMachine,
        on_heard: Callable[[], None],
        record: ProducerRecord | None = None,
    ) -> None:
        """`on_heard` is called by another thread whenever there may be room again, or an end.
        `record` keeps the last events, and is written when the machine breaks down.
        """
        self.machine = machine
        self.changed = threading.Condition()
        """Held while a thread uses the machine; notified when a sidecar has answered."""
        self.closing = threading.Event()
        """Set once nothing more is pushed."""
        self.on_heard = on_heard
        self.error: GaplessError | None = None
        """What has ended the producer."""
        self._stream = stream
        self._record = record
        self._problems: dict[str, str] = {}
        self._lines: Mapping[str, ProducerLine] = {}

    def start(self, lines: Mapping[str, ProducerLine]) -> None:
        """Begins to turn; the lines are by sidecar."""
        self._lines = lines
        name = f"producer {self.machine.life.slot}"
        threading.Thread(target=self._watch_the_clock, name=name, daemon=True).start()

    # -- events -------------------------------------------------------------------------------

    def happens(self, event: ProducerEvent) -> None:
        """Gives the machine an event, and sends its effects."""
        with self.changed:
            for effect in self._turn(event, _now_ms()):
                self._do(effect)

    def hears(self, *events: ProducerEvent) -> None:
        """The same for events from outside: threads that wait look again."""
        with self.changed:
            for event in events:
                self.happens(event)
            self.changed.notify_all()
        self.on_heard()

    def _turn(self, event: ProducerEvent, now: int) -> list[ProducerEffect]:
        record = self._record
        if record is None:
            return self.machine.on(event, now)
        record.note(event, now)
        try:
            return self.machine.on(event, now)
        except Exception as e:
            record.write(f"breakdown: {type(e).__name__}: {e}")
            raise

    def _do(self, effect: ProducerEffect) -> None:
        match effect.message:
            case Attach() | Data() as message:
                self._lines[effect.to].send(message)
            case _:
                raise Bug(f"a producer sends no {effect.message!r:.200}")

    def _watch_the_clock(self) -> None:
        try:
            while not self.closing.wait(TICK_S):
                self.happens(Tick())
        except Exception as e:  # noqa: BLE001  # the program hears of it, and does not wait for ever
            self.break_down(e)

    # -- for the program, which holds `changed` -----------------------------------------------

    def wait(self, until: Callable[[], bool], timeout_s: float | None) -> bool:
        """Waits for a condition; raises the error that has ended the producer."""

        def over() -> bool:
            return self.error is not None or self.closing.is_set() or until()

        self.changed.wait_for(over, timeout_s)
        if self.error is not None:
            raise self.error
        if self.closing.is_set():
            raise Misuse("the producer is closed")
        return until()

    @property
    def problem(self) -> str | None:
        """Why some sidecar does not accept frames at the moment, while retries go on; None where
        all do, as far as is known.
        """
        with self.changed:
            return "; ".join(f"{at}: {why}" for at, why in self._problems.items()) or None

    # -- how the lines are --------------------------------------------------------------------

    def fail(self, error: GaplessError) -> None:
        """Ends the producer."""
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()
        self.on_heard()

    def break_down(self, error: Exception) -> None:
        """Ends the producer after an unforeseen error."""
        self.fail(JobError(f"pushing broke down: {type(error).__name__}: {error}"))

    def has_trouble(self, address: str, why: str) -> None:
        """A call failed and is retried; waiting callers and the log are told each reason once."""
        with self.changed:
            is_new = self._problems.get(address) != why
            self._problems[address] = why
        if is_new:
            _log.warning("pushing to %s at %s, tried again: %s", self._stream, address, why)

    def is_well(self, address: str) -> None:
        """A sidecar accepts frames again."""
        with self.changed:
            self._problems.pop(address, None)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
