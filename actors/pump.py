"""The pump: one thread that gives a machine its events and does what it asks for.

    post(event) --.                          .--> a doer by type of effect: Send, Append, ...
                  inbox --> machine.on(event, now)
    ticks, timers-'                          '--> when all that waited is done: flush

What is large waits until nothing small does: of what is told in a megabyte (the tail of a replica
that joins, what one makes up for) nothing is as urgent as a row that has just come.

A machine is called by this thread alone, so it needs no lock. Whatever takes long (a sync, a call
that waits) is done by another thread, which posts the answer as an event. What the machine does
wrong ends the pump, with the traceback: the process's watcher hears why.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

from gapless.actors.lull import NAP_MS_MAX, lull_ms
from gapless.failover.effects import Start, Tick
from gapless.failover.machines import Event, Machine
from gapless.failover.recorder.recorder import (
    HEARD_BYTES_MAX,
    NOTHING_HEARD,
    Heard,
    Recorder,
)
from gapless.protocol.errors import JobError

TICK_MS = 50
"""Between two ticks: a part of every wait of the machines (failover/timing.py)."""
BURST_MAX = 64
"""Events until what they made is sent: several answers to one process go as one call."""
LARGE_BYTES = 1 << 17
"""A call of so many takes milliseconds; one of the rows of a moment has a few thousand."""
LATE_OF = 16
"""Of so many waits, about, `Pump.late_ms` is the mean: those of less than a second."""
CALL_S_MAX = 30.0
"""How long `call` waits for the pump: one that does not turn for that long is stuck."""

_TICK = Tick()
"""One for all: a flight record holds thousands of them."""

_log = logging.getLogger("gapless.actors")
_R = TypeVar("_R")


_NEVER = threading.Event()


def rest(seconds: float) -> None:
    """Waits, as nothing ends it."""
    _NEVER.wait(seconds)


def now_ms() -> int:
    """The clock of all machines: it never goes back."""
    return time.monotonic_ns() // 1_000_000


class FlightRecord(Protocol):
    """Where a pump notes what its machine is given (flight_record.py)."""

    @property
    def recorder(self) -> Recorder:
        """Holds them."""

    def write(self, reason: str) -> None:
        """Writes what it holds."""


class _Large(NamedTuple):
    """Work that waits for all that is small."""

    work: Callable[[], None]


class Pump:
    """Turns one machine."""

    def __init__(
        self,
        name: str,
        machine: Machine[Any],
        does: Mapping[type, Callable[[Any], None]],
        *,
        flush: Callable[[], None] | None = None,
        at_end: Callable[[str], None] | None = None,
        record: FlightRecord | None = None,
        naps: bool = False,
    ) -> None:
        """`flush` is called when the inbox is empty, `at_end` once with the reason, at the end.
        `record` holds the last events, and is written where the machine breaks down. `naps`:
        whether it lets messages gather where it wakes late (lull.py).
        """
        self.name = name
        self.machine = machine
        self._does = dict(does)
        self._flush = flush
        self._at_end = at_end
        self._record = record
        self._naps = naps
        self._recorder = None if record is None else record.recorder
        self.heard: Heard = NOTHING_HEARD
        """What the message came with that the machine is given next (`each_heard`)."""
        self.late_ms = 0.0
        """By how much it has lately woken after the end of a wait: on a machine whose cores are
        all taken it waits for its turn.
        """
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._large: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._ended: str | None = None
        self._busy: tuple[str, int] | None = None
        self._thread = threading.Thread(target=self._turn, name=f"pump {name}", daemon=True)

    # -- for any thread -----------------------------------------------------------------------

    def start(self) -> None:
        """Begins to turn, with `Start`."""
        self._thread.start()

    def post(self, event: Event) -> None:
        """Gives the machine an event, soon."""
        self._inbox.put(event)

    def do(self, work: Callable[[], None]) -> None:
        """Has the pump's own thread do something, soon."""
        self._inbox.put(work)

    def do_large(self, work: Callable[[], None]) -> None:
        """The same, once nothing else waits, or `BURST_MAX` things were done since."""
        self._inbox.put(_Large(work))

    def call(self, work: Callable[[], _R]) -> _R:
        """Has the pump's own thread compute something, and waits for it."""
        answer: Future[_R] = Future()

        def compute() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # the caller has been told that it is not done
            try:
                answer.set_result(work())
            except Exception as e:  # noqa: BLE001  # raised again where it was asked for
                answer.set_exception(e)

        self._inbox.put(compute)
        if self._ended is not None:
            raise JobError(f"{self.name} has ended: {self._ended}")
        try:
            return answer.result(CALL_S_MAX)
        except TimeoutError:
            if answer.done():
                raise  # of the work itself
            if self._ended is not None:
                raise JobError(f"{self.name} has ended: {self._ended}") from None
            raise JobError(
                f"{self.name} has been busy with something else for {CALL_S_MAX:g} s, and nothing "
                "was done: try again"
                if answer.cancel()
                else f"{self.name} has begun and is not done after {CALL_S_MAX:g} s: look at "
                "what has become of it before you try again"
            ) from None

    def end(self, reason: str) -> None:
        """Turns no more, from any thread: what waits in the inbox is dropped."""
        self.do(lambda: self.stop(reason))

    @property
    def ended(self) -> str | None:
        """Why it has ended; None while it turns."""
        return self._ended

    @property
    def busy(self) -> tuple[str, int] | None:
        """What it is inside of, and since when; None while it waits."""
        return self._busy

    def join(self, timeout_s: float) -> None:
        """Waits for the end."""
        self._thread.join(timeout_s)

    # -- for the pump's own thread ------------------------------------------------------------

    def later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Does something after a while."""
        heapq.heappush(self._timers, (now_ms() + delay_ms, next(self._order), work))

    def happens(self, event: Event) -> None:
        """Gives the machine an event now, and does what follows."""
        now = now_ms()
        kind, recorder = type(event), self._recorder
        self._busy = kind.__name__, now
        if recorder is not None and (kind not in recorder.large or recorder.has_room(event)):
            message, call, place = self.heard  # what follows is `Recorder.note`, without a call
            recorder.recent.append((call, now, place) if message is event else (event, now))
        for effect in self.machine.on(event, now):
            if self._ended is not None:
                return
            self._does[type(effect)](effect)

    def stop(self, reason: str) -> None:
        """Turns no more."""
        if self._ended is None:
            self._ended = reason

    def _turn(self) -> None:
        reason, recorder = "", self._recorder
        try:
            if recorder is not None:
                recorder.begin_block()
            self.happens(Start())
            self.later(TICK_MS, self._tick)
            while self._ended is None:
                self._wait()
                self._run_timers()
                if self._flush is not None:
                    self._busy = "sending", now_ms()
                    self._flush()
                if recorder is not None and len(recorder.recent) >= recorder.full:
                    recorder.begin_block()
                if self._naps:
                    self._nap()
            reason = self._ended
            if self._flush is not None:
                self._flush()
        except Exception as e:  # noqa: BLE001  # it ends this life, and its supervisor reads why
            reason = f"{type(e).__name__}: {e}"
            _log.error("%s breaks down:\n%s", self.name, traceback.format_exc())
            if self._record is not None:
                self._record.write(f"breakdown: {reason}")
        self._ended = reason
        if self._at_end is not None:
            self._at_end(reason)

    def _wait(self) -> None:
        """Takes what has come; waits for it no longer than until the next timer."""
        may_wait = self._timers and not self._large
        wait_s = max(0.0, (self._timers[0][0] - now_ms()) / 1000) if may_wait else None
        self._busy = None
        try:
            self._take(self._next(wait_s) if wait_s else self._inbox.get_nowait())
            for _ in range(BURST_MAX - 1):
                if self._ended is not None or self._is_due:
                    return
                self._take(self._inbox.get_nowait())
        except Empty:
            pass
        if self._large and self._ended is None:
            self._take(self._large.popleft())

    def _next(self, wait_s: float) -> Any:
        """What comes next. Raises `Empty` where nothing does meanwhile, and notes how late it is by
        then.
        """
        until = time.monotonic() + wait_s
        try:
            return self._inbox.get(timeout=wait_s)
        except Empty:
            self.woke(1000 * (time.monotonic() - until))
            raise

    def _nap(self) -> None:
        """Lets gather what comes in the next moment: none of it wakes this thread."""
        nap_ms = lull_ms(self.late_ms, NAP_MS_MAX)
        if self._timers:
            nap_ms = min(nap_ms, self._timers[0][0] - now_ms())
        if nap_ms > 0 and self._inbox.empty() and not self._large:
            self._busy = None
            until = time.monotonic() + nap_ms / 1000
            rest(nap_ms / 1000)
            self.woke(1000 * (time.monotonic() - until))

    def woke(self, late_ms: float) -> None:
        """A wait has ended so much later than it was to."""
        self.late_ms += (max(0.0, late_ms) - self.late_ms) / LATE_OF

    @property
    def _is_due(self) -> bool:
        """Whether a timer waits: events that take long each must not keep a tick from coming, with
        the heartbeat, what has to be sent, and what feedback would leave out.
        """
        return bool(self._timers) and self._timers[0][0] <= now_ms()

    def _take(self, event: Any) -> None:
        if type(event) is _Large:
            self._large.append(event.work)
        elif callable(event):
            self._busy = "work of its shell", now_ms()
            event()
        else:
            self.happens(event)

    def _run_timers(self) -> None:
        now = now_ms()
        while self._timers and self._timers[0][0] <= now and self._ended is None:
            self._busy = "work of its shell", now_ms()
            heapq.heappop(self._timers)[2]()

    def _tick(self) -> None:
        self.happens(_TICK)
        self.later(TICK_MS, self._tick)


def each_heard(pump: Pump, call: bytes, messages: Sequence[_R]) -> Iterator[_R]:
    """The messages of a call, each for the pump to be given before the next: its flight record then
    holds the call in their place.
    """
    is_small = len(call) <= HEARD_BYTES_MAX
    for place, message in enumerate(messages):
        if is_small:
            pump.heard = message, call, place
        yield message
    pump.heard = NOTHING_HEARD
