"""A stream: one merger, turned by the event loop, with its output journal and its users.

    attachment (push_call.py)        --Attach, Data-->         --Append, Seal-->  a worker: journal
                                     <--Ack, Refused-- merger  <--Appended------
    subscription (subscribe_call.py) --Open, Fetch--->         --ReadOutput---->  memory or a worker
                                     <--Delivery------

The machine is the one that Ray jobs run (failover/merger/machine.py). It is called on the loop's
thread alone. What it sends stays in this process: to an attachment by its life's name, to a
subscription by its own. What its effects do says failover/io/merger_io.py. Rows that were written
last are read at once, from memory; all that asks the disk is done by other threads.

A stream ends when its journal is lost: another process has taken it over, or its disk has failed.
Its users are told so, and try again. What led to a breakdown or an alarm is in a flight record
(flight_records.py).
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

from gapless.failover.effects import Alarm, Exit, Send, Start, Tick
from gapless.failover.io.merger_io import EFFECTS, MergerIO
from gapless.failover.io.steps import Outcome, Place, Step
from gapless.failover.life_start import MergerStart
from gapless.failover.merger import effects as ask
from gapless.failover.merger.effects import MergerEvent
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.merger.output_reader import OutputReader
from gapless.failover.messages import SUPERVISOR, Drain, Life, Retire
from gapless.failover.statuses import MergerStatus
from gapless.failover.timing import Timing
from gapless.journal.disk import LocalDisk
from gapless.merge.lmerge import LMerge
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.sidecar.definition import Definition
from gapless.sidecar.server.alarms import Alarms
from gapless.sidecar.server.copies import ORDER_TERM, Copies, User
from gapless.sidecar.server.flight_records import StreamRecord
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.peer_outputs import PeerOutputs
from gapless.sidecar.server.refusals import Refusal
from gapless.sidecar.server.retention import OutputTrimmer
from gapless.sidecar.server.serial_worker import SerialWorker
from gapless.sidecar.server.setup import Setup

TIMING = Timing(heartbeat_ms=250, drain_ms=200)
"""Of the machines here: between them there is no network."""
TICK_MS = 50
"""Between two ticks: a part of every wait of the machines."""
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
        retention: OutputTrimmer,
        base_disk: LocalDisk,
        alarms: Alarms,
    ) -> None:
        """`base_disk`: the output's, for the thread that makes a base."""
        self.definition = definition
        self.machine = machine
        self.life = machine.life
        self.epoch = machine.epoch
        self.rows = rows
        """Durable rows of the output."""
        self.limits: Limits = setup.limits
        self.status: MergerStatus | None = None
        """The merger's last status."""
        self.lost: str | None = None
        """Why the stream is over; None while it is not."""
        self.encoded: OrderedDict[Any, bytes] = OrderedDict()
        """Deliveries as bytes, for subscribers at the same place."""
        self._setup = setup
        self._output = output
        self._alarms = alarms
        self.retention = retention
        self.copies = Copies(definition.name, machine, setup.limits, self.happens, self._forget)
        """Its producers."""
        self._subscribers: dict[str, User] = {}
        self._attempts = count(1)
        self._events: deque[MergerEvent] = deque()
        self._is_turning = False
        self._room: list[asyncio.Future[None]] = []
        self._io = MergerIO(output, _no_journal, self.alarm, base_disk=lambda: base_disk)
        self._does: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Exit: lambda effect: self.end(effect.reason),
            Alarm: lambda effect: self.alarm(effect.what),
        }
        self._does |= dict.fromkeys(EFFECTS, lambda effect: self._has_done(self._io.step(effect)))
        self._does[ask.ReadOutput] = self._read_output
        self._peers: PeerOutputs | None = None
        if setup.peer is not None:
            peers = PeerOutputs(setup.peer, definition.name, self.happens, self.alarm)
            self._peers = peers
            self._does |= {ask.ReadPeer: peers.read, ask.ClosePeer: lambda _: peers.close()}
        self._pool: Executor
        self._record: StreamRecord
        self._writing: SerialWorker
        self._workers: dict[Place, SerialWorker] = {}  # of each place of a step

    @staticmethod
    def opened(definition: Definition, setup: Setup, open_disk: Callable[[], LocalDisk]) -> Stream:
        """Reads the journal back and takes it over. Takes as long as that; on any thread.
        `open_disk`: the output's, one for each thread that writes there. Raises `GaplessError` and
        `OSError`.
        """
        disk = open_disk()
        life = Life(setup.slot, Incarnation(setup.term, setup.next_life()))
        alarms = Alarms(definition.name)
        output = OutputJournal(
            disk,
            definition.schema,
            life,
            setup.token,
            setup.wall_ms,
            base_bytes=setup.retention.base_bytes,
            segment_bytes=setup.retention.segment_bytes,
            on_alarm=alarms.say,
            guard=threading.Lock(),
        )
        live, rows = output.recover()
        merge = LMerge(definition.schema, definition.case)
        start = MergerStart(0, () if setup.peer is None else (setup.peer.address,))
        machine = Merger(life, start, output.epoch, merge, live, rows, TIMING, acks_each=True)
        retention = OutputTrimmer(disk, setup, definition.schema)
        base_disk = open_disk()
        return Stream(definition, setup, output, machine, rows, retention, base_disk, alarms)

    def start(self, pool: Executor, record: StreamRecord) -> None:
        """Begins to live, on the loop's thread."""
        self._pool = pool
        self._record = record
        self._alarms.begin(lambda what: record.alarm(what, self._setup.now_ms()))
        self._writing = SerialWorker(pool, self._broken)
        self._workers = {
            "write": self._writing,
            "base": SerialWorker(pool, self._broken),
            "read": SerialWorker(pool, self._broken),
            "scan": SerialWorker(pool, self._broken),
        }
        self.happens(Start())

    # -- events and effects -------------------------------------------------------------------

    def happens(self, event: MergerEvent | None) -> None:
        """Gives the machine an event, and carries out its effects, in order."""
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
            self._break_down(f"it broke down: {type(e).__name__}: {e}")
        finally:
            self._is_turning = False

    def _turn(self, event: MergerEvent) -> None:
        if isinstance(event, ask.Appended):
            self.rows = event.offset
        if isinstance(event, ask.OutputLost) and event.is_taken_over:
            self._setup.fenced = event.reason
        now = self._setup.now_ms()
        self._record.note(event, now)
        for effect in self.machine.on(event, now):
            if self.lost is None:
                self._does[type(effect)](effect)
        if isinstance(event, ask.Appended | Tick):
            room, self._room = self._room, []
            for future in room:
                if not future.done():
                    future.set_result(None)

    def tick(self) -> None:
        """Some time has passed."""
        self.happens(Tick())
        now_s = time.monotonic()
        for life in self.copies.let_absent_go(now_s):
            self.alarm(f"producer {life} was away for {self.limits.absent_s} s: let go")
        if self.retention.is_due(now_s):
            self._writing.do(self.retention.trim, self._trimmed)

    def _trimmed(self, problem: str | None) -> None:
        if problem is not None:  # what is wrong with the journal the next append says
            self.alarm(f"the output is not trimmed: {problem}")

    def _forget(self, producer: str) -> None:
        """The machine is changed beside its events, so its record begins anew."""
        self.machine.forget(producer)
        self._record.begin_anew()

    async def durable(self) -> None:
        """Waits until all that the merger has put out by now is durable."""
        wanted = self.rows + self.machine.sizes()["pending rows"]
        while self.rows < wanted and self.lost is None:
            await self.room()

    async def room(self) -> None:
        """Waits until the merger may have room again, or the stream is over."""
        if self.lost is not None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room.append(future)
        await future

    def _send(self, effect: Send) -> None:
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
        """Raises an alarm, from any thread: it is logged, and a flight record is written."""
        self._alarms.say(what)

    # -- its users ----------------------------------------------------------------------------

    def next_attempt(self) -> int:
        """The number of the next attachment: each is a session of its own."""
        return next(self._attempts)

    def check_whole(self) -> None:
        """Raises `Refusal` if the stream is over: a newcomer would never hear of that."""
        if self.lost is not None:
            raise self._over(self.lost)

    def send_producers_away(self, refusal: Refusal) -> None:
        """Ends all attachments; subscriptions continue."""
        for user in self.copies.everybody():
            user.lost(refusal)

    def subscribe(self, name: str, subscription: User) -> None:
        """Adds a subscription, which gets the merger's messages from now on."""
        self.check_whole()
        if len(self._subscribers) >= self.limits.subscribers_max:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"{self.limits.subscribers_max} subscribers read {self.definition.name}: read it "
                "from another sidecar, or raise subscribers_max",
            )
        self._subscribers[name] = subscription

    def unsubscribe(self, name: str) -> None:
        """Removes a subscription, and all that is kept for it."""
        self._subscribers.pop(name, None)
        self._io.forget(name)

    @property
    def subscribers(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscribers)

    # -- its end ------------------------------------------------------------------------------

    def _over(self, reason: str) -> Refusal:
        return Refusal("UNAVAILABLE", f"stream {self.definition.name}: {reason}: try again")

    def end(self, reason: str, *, refusal: Refusal | None = None) -> None:
        """Ends the stream. Its users get `refusal`, or are asked to try again."""
        if self.lost is not None:
            return
        self.lost = reason
        _log.warning("stream %s ends: %s", self.definition.name, reason)
        for user in [*self.copies.everybody(), *self._subscribers.values()]:
            user.lost(refusal or self._over(reason))
        for future in self._room:
            if not future.done():
                future.set_result(None)
        if self._peers is not None:
            self._peers.close()
        for worker in self._workers.values():
            worker.end()
        self._setup.at_lost(self.definition.name, reason)

    def _broken(self, error: BaseException) -> None:
        self._break_down(f"{type(error).__name__}: {error}")

    def _break_down(self, reason: str) -> None:
        """Ends after an unforeseen error, and has the flight record written."""
        if self.lost is None:
            self._record.write_beside(f"breakdown: {reason}")
        self.end(reason)

    async def drain(self) -> None:
        """Makes durable what was taken in, closes the journal with a base, and ends. The calls of
        producers have ended before.
        """
        if self.lost is None:
            self.happens(Drain(ORDER_TERM))
            until = time.monotonic() + self._setup.drain_s
            while time.monotonic() < until and not self._has_drained:
                await self.room()
            self.happens(Retire(ORDER_TERM, self.life, "drained"))
        await self.idle()

    async def idle(self) -> None:
        """Waits until no thread works for it any more."""
        for worker in self._workers.values():
            await worker.idle()

    @property
    def _has_drained(self) -> bool:
        return self.lost is not None or (self.status is not None and self.status.is_drained)

    # -- the output ---------------------------------------------------------------------------

    def _has_done(self, step: Step[MergerEvent]) -> None:
        """Has another thread do a step, and continues with its outcome."""
        self._workers[step.place].do(step.run, self._follows)

    def _follows(self, done: Outcome[MergerEvent]) -> None:
        if isinstance(done, Step):
            self._has_done(done)
        else:
            self.happens(done)

    def _read_output(self, effect: ask.ReadOutput) -> None:
        if (read := self._io.recent(effect)) is not None:
            self.happens(read)
        else:
            self._has_done(self._io.step(effect))

    async def last_events(self) -> Frame:
        """The events of the output that end last. Raises `GaplessError`."""
        reader = self._output.reader()
        return await asyncio.get_running_loop().run_in_executor(self._pool, reader.last_events)


def _no_journal(peer: str) -> OutputReader:
    raise Bug(f"the output of {peer} is another sidecar's: peer_outputs.py asks for it")
