"""The part of a shell that replicas and mergers share: a pump, the post, and how a life ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gapless.actors.book import Book
from gapless.actors.flight_record import JobFlightRecord, flight_record
from gapless.actors.heart import Heart, RootLine
from gapless.actors.post import Post
from gapless.actors.pump import LARGE_BYTES, Pump, each_heard, now_ms
from gapless.actors.setup import JobDir, Setup, token
from gapless.actors.wire import MessageDecoder, Wire
from gapless.failover import effects as ask
from gapless.failover.machines import Machine
from gapless.failover.messages import SUPERVISOR, Life, Message
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.protocol.documents import Document
from gapless.protocol.errors import JobError

RECORD_MS = 3000
"""How often a life looks whether the job's record says that the job is stopped: it may be that
nobody is left to tell it."""

_log = logging.getLogger("gapless.actors")


@dataclass(frozen=True, slots=True)
class Alarmed:
    """A life to the root: something that a person should know."""

    life: Life
    what: str


class Shell:
    """One life, being pumped."""

    NAPS: ClassVar[bool] = False
    """Whether its pump lets messages gather on a machine whose cores are taken."""

    def __init__(self, setup: Setup, job_dir: JobDir, at_end: Callable[[str], None]) -> None:
        self.setup = setup
        self.life = setup.life
        self.dir = job_dir
        self.wire = Wire(setup.schema)
        self._intake = MessageDecoder(self.wire, self._alarm)
        self._at_end = at_end
        self._does: dict[type, Callable[[Any], None]] = {
            ask.Send: self._send,
            ask.Exit: lambda effect: self.pump.stop(effect.reason),
            ask.Alarm: lambda effect: self._alarm(effect.what),
        }
        self._early: list[str] | None = []  # alarms of before there is anybody to send them
        self.record: JobFlightRecord
        self.pump: Pump
        self.post: Post
        self.heart: Heart

    def _pump(self, machine: Machine[Any]) -> None:
        """Makes the pump, once there is a machine."""
        self.record = flight_record(
            self.life, machine, self.dir.disk, token(), self.wire, self._plans
        )
        self.pump = Pump(
            str(self.life),
            machine,
            self._does,
            flush=self._flush,
            at_end=self._end,
            record=self.record,
            naps=self.NAPS,
        )
        self.post = Post(self.wire, self.pump.do)
        line = RootLine(self.post, self.wire)
        self.heart = Heart(self.pump, line.say, self.setup.timing.heartbeat_ms)

    def _plans(self) -> Mapping[str, Document]:
        """Those that the machine runs, for its flight record."""
        return {}

    def recorded(self, reason: str) -> bytes:
        """Its flight record, as of now. From any thread."""
        return self.record.encoded(self.pump.call(self.record.take), reason)

    def start(self, book: Book) -> None:
        """Begins to live."""
        self.post.take_book(book)
        early, self._early = self._early, None
        for what in early or ():
            self._tell(what)
        self.pump.do(lambda: self.pump.later(RECORD_MS, self._look_at_record))
        self.pump.start()
        self.heart.start()

    def hear(self, data: bytes) -> None:
        """Takes messages, from any thread."""
        do = self.pump.do if len(data) < LARGE_BYTES else self.pump.do_large
        do(lambda: self._hear(data))

    def meet(self, book: Book) -> None:
        """Takes a version of the address book, from any thread."""
        self.pump.do(lambda: self.post.take_book(book))

    def _hear(self, data: bytes) -> None:
        for message in each_heard(self.pump, data, self._intake.take(data)):
            self._take(message)

    def _take(self, message: Message) -> None:
        if self.pump.ended is None:
            self.pump.happens(message)

    def _send(self, effect: ask.Send) -> None:
        message = effect.message
        if isinstance(message, ReplicaStatus | MergerStatus):
            self.heart.last = message
        self.post.send(effect.to, message)

    def _alarm(self, what: str) -> None:
        _log.warning("%s on %s: %s", self.life, self.setup.node, what)
        self.record.alarm(what, now_ms())
        self.post.send(SUPERVISOR, Alarmed(self.life, what))  # type: ignore[arg-type]  # of the shells alone

    def _tell(self, what: str) -> None:
        """An alarm, from any thread; from one that makes the life it waits until that begins."""
        if self._early is not None:
            self._early.append(what)
            return
        self.pump.do(lambda: self._alarm(what))

    def _broken(self, error: Exception) -> None:
        """What is done beside the pump has failed in a way that nobody foresaw."""
        self.pump.end(f"{type(error).__name__}: {error}")

    def _flush(self) -> None:
        self.post.flush()

    def _end(self, reason: str) -> None:
        self.heart.end()
        self._let_go()
        self._at_end(reason)

    def _let_go(self) -> None:
        """Ends what the life has beside its pump."""

    def _look_at_record(self) -> None:
        try:
            is_stopped = self.dir.job.desired().state == "stopped"
        except (JobError, OSError) as e:
            self._alarm(f"cannot read whether the job is stopped: {e}")
            is_stopped = False
        if is_stopped:
            self.pump.stop("the job's record says that it is stopped")
        self.pump.later(RECORD_MS, self._look_at_record)
