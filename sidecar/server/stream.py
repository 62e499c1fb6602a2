"""A stream: one merger, turned by the event loop, with its output journal and all who use it.

    attachment (push_call.py)        --Attach, Data-->         --Append, Seal-->  hands: the journal
                                     <--Ack, Refused-- merger  <--Appended------
    subscription (subscribe_call.py) --Open, Fetch--->         --ReadOutput---->  memory, or hands
                                     <--Delivery------

The machine is the one that Ray jobs run (failover/merger/machine.py). It is called on the loop's
thread alone. What it sends stays in this process: to an attachment by its life's name, to a
subscription by its own. Rows that were written last are read at once, from memory; all that asks
the disk is done by other threads.

A stream ends when its journal is lost: another process has taken it over, or its disk has failed.
All who use it are told so, and come again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from itertools import count
from typing import Any

from gapless.failover import effects as ask
from gapless.failover.effects import MergerEvent
from gapless.failover.life_start import MergerStart
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal, OutputReader
from gapless.failover.merger.scan import Scans
from gapless.failover.messages import (
    SUPERVISOR,
    Drain,
    Life,
    MergerStatus,
    Retire,
    Token,
)
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.merge.lmerge import LMerge
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import DiskFull, Fenced, GaplessError, JournalError
from gapless.protocol.frame import Frame
from gapless.sidecar.definition import Definition
from gapless.sidecar.server.copies import ORDER_TERM, Copies, User
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.peer_reading import Peering
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.retention import Retaining
from gapless.sidecar.server.serial_worker import Hands
from gapless.sidecar.server.setup import Setup

TIMING = Timing(heartbeat_ms=250, drain_ms=200)
"""Of the machines here: between them there is no network."""
TICK_MS = 50
"""Between two ticks: a part of every wait of the machines."""
READERS_MAX = 64
"""Places in the output that are kept open: one a subscriber that lags; the oldest are let go."""
KEPT_READS_MAX = 16
"""Frames behind the same place that are kept for the next who asks: those of one append."""
ENCODED_MAX = 64
"""Encoded deliveries that are kept for the next subscriber at the same place."""

_log = logging.getLogger("gapless.sidecar")


class Stream:
    """One life of one stream's merger. Made by `opened`, on another thread."""

    def __init__(
        self,
        definition: Definition,
        setup: Setup,
        output: OutputJournal,
        machine: Merger,
        rows: int,
        retaining: Retaining,
    ) -> None:
        self.definition = definition
        self.machine = machine
        self.life = machine.life
        self.epoch = machine.epoch
        self.rows = rows
        """Durable rows of the output."""
        self.limits: Limits = setup.limits
        self.status: MergerStatus | None = None
        """What the merger has said of itself last."""
        self.lost: str | None = None
        """Why the stream is over; None while it is not."""
        self.encoded: OrderedDict[Any, bytes] = OrderedDict()
        """Deliveries as bytes, for subscribers at the same place."""
        self._setup = setup
        self._output = output
        self.retaining = retaining
        self.copies = Copies(definition.name, machine, setup.limits, self.happens)
        """Its producers."""
        self._subscribers: dict[str, User] = {}
        self._attempts = count(1)
        self._events: deque[MergerEvent] = deque()
        self._is_turning = False
        self._room: list[asyncio.Future[None]] = []
        self._readers: OrderedDict[str, OutputReader] = OrderedDict()
        self._nearest: OutputReader = output.reader()
        self._reads: OrderedDict[tuple[int, int], Frame | None] = OrderedDict()
        self._does: dict[type, Callable[[Any], None]] = {
            ask.Send: self._send,
            ask.Exit: lambda effect: self.end(effect.reason),
            ask.Alarm: lambda effect: self.alarm(effect.what),
            ask.Append: lambda effect: self._writing.do(lambda: self._append(effect), self.happens),
            ask.Seal: lambda effect: self._writing.do(lambda: self._seal(effect), self.happens),
            ask.WatchOutput: lambda _: self._writing.do(self._watch, self._watched),
            ask.ReadOutput: self._read_output,
            ask.ReadTable: self._read_table,
            ask.DropTable: lambda effect: self._scanning.do(
                lambda: self._scans.drop(effect), lambda _: None
            ),
        }
        self._peering: Peering | None = None
        if setup.peer is not None:
            peering = Peering(setup.peer, definition.name, self.happens, self.alarm)
            self._peering = peering
            self._does |= {ask.ReadPeer: peering.read, ask.ClosePeer: lambda _: peering.close()}
        self._pool: Executor
        self._writing: Hands
        self._reading: Hands
        self._scanning: Hands
        self._scans = Scans(output.reader().open_table)

    @staticmethod
    def opened(definition: Definition, setup: Setup, disk: LocalDisk) -> Stream:
        """Reads the journal back and takes it over. Takes as long as that; on any thread. Raises
        `GaplessError` and `OSError`.
        """
        life = Life(setup.slot, Incarnation(setup.term, setup.next_life()))
        output = OutputJournal(
            disk,
            definition.schema,
            life,
            setup.token,
            setup.wall_ms,
            base_bytes=setup.retention.base_bytes,
            segment_bytes=setup.retention.segment_bytes,
            on_alarm=lambda what: _log.warning("stream %s: %s", definition.name, what),
            guard=threading.Lock(),
        )
        live, rows = output.recover()
        merge = LMerge(definition.schema, definition.case)
        start = MergerStart(0, () if setup.peer is None else (setup.peer.address,))
        machine = Merger(life, start, output.epoch, merge, live, rows, TIMING, acks_each=True)
        return Stream(
            definition, setup, output, machine, rows, Retaining(disk, setup, definition.schema)
        )

    def start(self, pool: Executor) -> None:
        """Begins to live, on the loop's thread."""
        self._pool = pool
        self._writing = Hands(pool, self._broken)
        self._reading = Hands(pool, self._broken)
        self._scanning = Hands(pool, self._broken)
        self.happens(ask.Start())

    # -- events and effects -------------------------------------------------------------------

    def happens(self, event: MergerEvent | None) -> None:
        """Gives the machine an event, and does what follows, in order."""
        if event is None or self.lost is not None:
            return
        self._events.append(event)
        if self._is_turning:
            return
        self._is_turning = True
        try:
            while self._events and self.lost is None:
                self._turn(self._events.popleft())
        except Exception as e:  # noqa: BLE001  # it ends this life; the journal is read back anew
            _log.error("stream %s breaks down", self.definition.name, exc_info=e)
            self.end(f"it broke down: {type(e).__name__}: {e}")
        finally:
            self._is_turning = False

    def _turn(self, event: MergerEvent) -> None:
        if isinstance(event, ask.Appended):
            self.rows = event.offset
            self._reads.clear()
        for effect in self.machine.on(event, self._setup.now_ms()):
            if self.lost is None:
                self._does[type(effect)](effect)
        if isinstance(event, ask.Appended | ask.Tick):
            room, self._room = self._room, []
            for future in room:
                if not future.done():
                    future.set_result(None)

    def tick(self) -> None:
        """Some time has passed."""
        self.happens(ask.Tick())
        now_s = time.monotonic()
        for life in self.copies.let_absent_go(now_s):
            self.alarm(f"producer {life} was away for {self.limits.absent_s} s: let go")
        if self.retaining.is_due(now_s):
            self._writing.do(self.retaining.trim, self._trimmed)

    def _trimmed(self, problem: str | None) -> None:
        if problem is not None:  # what is wrong with the journal the next append says
            self.alarm(f"the output is not trimmed: {problem}")

    async def durable(self) -> None:
        """Waits until all that the merger has put out by now is durable."""
        wanted = self.rows + self.machine.sizes()["pending rows"]
        while self.rows < wanted and self.lost is None:
            await self.room()

    async def room(self) -> None:
        """Waits until the merger may have room for what it has not taken in, or is over."""
        if self.lost is not None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room.append(future)
        await future

    def _send(self, effect: ask.Send) -> None:
        if effect.to == SUPERVISOR:
            if isinstance(effect.message, MergerStatus):
                self.status = effect.message
            return
        user = self.copies.find(effect.to) or self._subscribers.get(effect.to)
        if user is not None:
            user.hear(effect.message)

    def now_ms(self) -> int:
        """The clock of all machines here."""
        return self._setup.now_ms()

    def alarm(self, what: str) -> None:
        """Says what a person should know."""
        _log.warning("stream %s: %s", self.definition.name, what)

    # -- who uses it --------------------------------------------------------------------------

    def next_attempt(self) -> int:
        """Which attachment it is, of all: each is a session of its own."""
        return next(self._attempts)

    def check_whole(self) -> None:
        """Raises `Refusal` where the stream is over: nobody who came now would hear of it."""
        if self.lost is not None:
            raise self._over(self.lost)

    def send_producers_away(self, refusal: Refusal) -> None:
        """Ends all attachments; subscribers read on."""
        for user in self.copies.everybody():
            user.lost(refusal)

    def subscribe(self, name: str, subscription: User) -> None:
        """A subscription hears the merger from now on."""
        self.check_whole()
        if len(self._subscribers) >= self.limits.subscribers_max:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"{self.limits.subscribers_max} subscribers read {self.definition.name}: read it "
                "from another sidecar, or raise subscribers_max",
            )
        self._subscribers[name] = subscription

    def unsubscribe(self, name: str) -> None:
        """It hears no more, and nothing of it is left."""
        self._subscribers.pop(name, None)
        self._readers.pop(name, None)

    @property
    def subscribers(self) -> int:
        """How many read now."""
        return len(self._subscribers)

    # -- its end ------------------------------------------------------------------------------

    def _over(self, reason: str) -> Refusal:
        return Refusal("UNAVAILABLE", f"stream {self.definition.name}: {reason}: try again")

    def end(self, reason: str, *, refusal: Refusal | None = None) -> None:
        """Ends for all who use it, who are told `refusal`, or to come again."""
        if self.lost is not None:
            return
        self.lost = reason
        _log.warning("stream %s ends: %s", self.definition.name, reason)
        for user in [*self.copies.everybody(), *self._subscribers.values()]:
            user.lost(refusal or self._over(reason))
        for future in self._room:
            if not future.done():
                future.set_result(None)
        if self._peering is not None:
            self._peering.close()
        self._writing.end()
        self._reading.end()
        self._scanning.end()
        self._setup.at_lost(self.definition.name, reason)

    def _broken(self, error: BaseException) -> None:
        self.end(f"{type(error).__name__}: {error}")

    async def drain(self) -> None:
        """Makes durable what was taken in, closes the journal with a base, and ends. Producers are
        gone by now: their calls are ended first.
        """
        if self.lost is None:
            self.happens(Drain(ORDER_TERM))
            until = time.monotonic() + self._setup.drain_s
            while time.monotonic() < until and not self._has_drained:
                await self.room()
            self.happens(Retire(ORDER_TERM, self.life, "drained"))
        await self.idle()

    async def idle(self) -> None:
        """Waits until no thread does anything for it any more."""
        await self._writing.idle()
        await self._reading.idle()
        await self._scanning.idle()

    @property
    def _has_drained(self) -> bool:
        return self.lost is not None or (self.status is not None and self.status.is_drained)

    # -- the output, on threads that write it -------------------------------------------------

    def _append(self, effect: ask.Append) -> MergerEvent:
        try:
            self._output.append(effect.frame)
            return self._output.sync()
        except DiskFull as e:
            return ask.AppendRefused(str(e))
        except (Fenced, JournalError, OSError) as e:
            return self._output_lost(e)

    def _seal(self, effect: ask.Seal) -> MergerEvent:
        try:
            self._output.seal(effect.base)
        except DiskFull as e:  # a base that did not fit is made another time
            self.alarm(f"no base of the output: {e}")
        except (Fenced, JournalError, OSError) as e:
            return self._output_lost(e)
        return ask.Sealed()

    def _watch(self) -> MergerEvent | None:
        try:
            self._output.watch()
        except (Fenced, OSError) as e:
            return self._output_lost(e)
        return None

    def _watched(self, event: MergerEvent | None) -> None:
        self.happens(event)

    def _output_lost(self, error: Exception) -> ask.OutputLost:
        if isinstance(error, Fenced):
            self._setup.fenced = str(error)
        return ask.OutputLost(str(error))

    # -- reading ------------------------------------------------------------------------------

    def _read_output(self, effect: ask.ReadOutput) -> None:
        subscriber, wanted = effect.subscriber, effect.token
        if not self._nearest.is_recent(wanted):
            self._reading.do(lambda: self._read_far(subscriber, wanted), self.happens)
            return
        key = wanted.offset, wanted.stable
        if key in self._reads:
            frame = self._reads[key]
        else:
            frame = self._reads[key] = self._nearest.read(wanted)
            if len(self._reads) > KEPT_READS_MAX:
                self._reads.popitem(last=False)
        self._readers.pop(subscriber, None)
        self.happens(ask.OutputRead(subscriber, wanted.offset, frame))

    def _read_far(self, subscriber: str, wanted: Token) -> MergerEvent:
        try:
            frame = self._reader(subscriber).read(wanted)
        except GaplessError as e:
            self._readers.pop(subscriber, None)
            return self._refused(subscriber, wanted, e)
        return ask.OutputRead(subscriber, wanted.offset, frame)

    def _read_table(self, effect: ask.ReadTable) -> None:
        self._scanning.do(lambda: self._scans.begin(effect), lambda _: self._step(effect))

    def _step(self, effect: ask.ReadTable) -> None:
        """Has a slice of a table read; the next one waits for those of others."""

        def then(done: MergerEvent | None) -> None:
            if done is not None:
                self.happens(done)
            elif self._scans.wants(effect.subscriber, effect.attempt):
                self._step(effect)

        self._scanning.do(lambda: self._scan(effect), then)

    def _scan(self, effect: ask.ReadTable) -> MergerEvent | None:
        if not self._scans.wants(effect.subscriber, effect.attempt):
            return None
        try:
            return self._scans.step(effect)
        except GaplessError as e:
            return self._refused(effect.subscriber, effect.attempt, e)

    def _reader(self, subscriber: str) -> OutputReader:
        reader = self._readers.pop(subscriber, None) or self._output.reader()
        self._readers[subscriber] = reader
        if len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)
        return reader

    async def last_events(self) -> Frame:
        """The events of the output that end last. Raises `GaplessError`."""
        reader = self._output.reader()
        return await asyncio.get_running_loop().run_in_executor(self._pool, reader.last_events)

    def _refused(self, subscriber: str, asked: Token | int, error: GaplessError) -> MergerEvent:
        return ask.ReadRefused(subscriber, asked, OutputReader.why(error), str(error))
