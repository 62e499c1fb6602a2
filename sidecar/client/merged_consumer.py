"""A merged consumer: several sidecars read as one stream, which goes on while one of them does.

    sidecar one    -- Delivery -->.
                                   subscriber (failover/subscriber/machine.py) --> Emit
    sidecar other  -- Delivery -->'

The machine is the one that reads two mergers of a job. It asks each sidecar one question at a time;
here a question is answered by the next delivery of a call that is open, or by a new call. Each has
a thread of its own; what comes of several is one frame after the other, under one lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import grpc
import pyarrow as pa

from gapless.failover.effects import Send, Start
from gapless.failover.machines import unhandled
from gapless.failover.messages import Declined, Delivery, Fetch, Message, Open, Opened, Token
from gapless.failover.subscriber import effects as ask
from gapless.failover.subscriber.machine import StartAt, Subscriber
from gapless.failover.subscriber.tokens import decode, encode
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JobError, Trimmed
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.assembly import Assembler, Delivered
from gapless.sidecar.client.connection import (
    AGAIN,
    CONNECT_S,
    RECONNECT_MS,
    Connection,
    ConnectionClosed,
    RetryPause,
    code_of,
    error_of,
)
from gapless.sidecar.client.subscription import Wish
from gapless.sidecar.definition import schema_from_wire

SHARD = "0"
TICK_S = 0.1
"""Between two looks at the time."""
ASK_MS = 86_400_000
"""Before a question is repeated: an answer comes, or its call breaks, and that is seen."""
TIMING = Timing(fetch_ms=ASK_MS // 8)

Take = Callable[[Delivered], None]
"""Called with each frame, while no lock is held; it may wait."""


class MergedConsumer:
    """Several sidecars' answers to one wish, as one."""

    def __init__(self, connections: list[Connection], wish: Wish, missing_s: float) -> None:
        self._wish = wish
        self._connections = connections
        self._missing_s = missing_s
        self._lock = threading.Lock()
        self._put_out = threading.Lock()  # frames are handed out in the order they were made
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._error: GaplessError | None = None
        self._machine: Subscriber
        self._sides: dict[str, _Side] = {}

    def run(self, take: Take) -> None:
        """Gives each frame to `take`, until the stream ends or this is closed. Raises what ends
        it.
        """
        try:
            about = self._about()
        except ConnectionClosed:
            return
        self._machine = self._made(about)
        self._sides = {
            connection.address: _Side(self, connection, take) for connection in self._connections
        }
        self._do(Start(), take)
        for side in self._sides.values():
            side.start()
        while not self._ended.wait(TICK_S) and not self._closed.is_set():
            continue
        self._closed.set()
        for side in self._sides.values():
            side.close()
        if self._error is not None:
            raise self._error

    def _about(self) -> pb.StreamStatus:
        """What the stream is, from whichever sidecar answers first."""
        until = time.monotonic() + self._missing_s
        last: GaplessError = JobError("no sidecar answers")
        while not self._closed.is_set():
            for connection in self._connections:
                if not connection.wait(CONNECT_S / len(self._connections)):
                    continue
                try:
                    reply = connection.unary(
                        "Status",
                        pb.StatusRequest(stream=self._wish.stream),
                        pb.StatusReply.FromString,
                    )
                except GaplessError as e:
                    last = e
                    continue
                about: pb.StreamStatus = reply.streams[0]
                return about
            if time.monotonic() >= until:
                break
            self._closed.wait(RECONNECT_MS / 1000)
        raise last

    def _made(self, about: pb.StreamStatus) -> Subscriber:
        schema = schema_from_wire(about.schema)
        if self._wish.columns:
            fields = [schema.payload.field(name) for name in self._wish.columns]
            schema = StreamSchema(pa.schema(fields), schema.time_unit)
        has_key = about.lmerge_case == "r3" and not self._wish.columns
        return Subscriber(
            f"s-{uuid4().hex}",
            {SHARD: tuple(connection.address for connection in self._connections)},
            schema,
            deliver="final" if self._wish.deliver == "final" else "changes",
            insert_only=about.properties.insert_only and has_key,
            start=_start(self._wish.start),
            case="r3" if has_key else "r4",
            timing=TIMING,
        )

    # -- the machine --------------------------------------------------------------------------

    def _do(self, event: ask.SubscriberEvent, take: Take) -> None:
        """Gives the machine an event; what it says is handed out in that order."""
        with self._put_out:
            emits = []
            with self._lock:
                for effect in self._machine.on(event, time.monotonic_ns() // 1_000_000):
                    match effect:
                        case Send():
                            self._sides[effect.to].ask(effect.message)
                        case ask.Emit():
                            emits.append(effect)
                        case ask.Give():
                            kind = Trimmed if effect.why == "trimmed" else JobError
                            self.fail(kind(effect.reason))
                        case _:
                            raise unhandled("a subscriber's consumer", effect)
                ended = self._machine.has_ended
            for emit in emits:
                if self._closed.is_set():
                    return
                take(Delivered(emit.frame, encode(emit.tokens), emit.reset, emit.since))
            if ended:
                self._ended.set()

    def answered(self, event: Delivery | Opened | Declined, take: Take) -> None:
        """A sidecar has answered."""
        self._do(event, take)

    def fail(self, error: GaplessError) -> None:
        """It cannot go on."""
        self._error = self._error or error
        self._ended.set()

    def is_closed(self) -> bool:
        """Whether nothing more is wanted."""
        return self._closed.is_set()

    def wait(self, seconds: float) -> None:
        """Waits, unless it is closed meanwhile."""
        self._closed.wait(seconds)

    @property
    def wish(self) -> Wish:
        """What is read."""
        return self._wish

    def close(self) -> None:
        """Reads no more."""
        self._closed.set()
        for side in self._sides.values():
            side.close()
        for connection in self._connections:
            connection.close()


class _Side:
    """One sidecar: its questions, and the call that answers them."""

    def __init__(self, merging: MergedConsumer, connection: Connection, take: Take) -> None:
        self._merging = merging
        self._connection = connection
        self._take = take
        self._changed = threading.Condition()
        self._question: Fetch | Open | None = None
        self._call: Any = None
        self._assembler = Assembler()
        self._at: Token | None = None  # where the call that is open stands
        self._token = ""  # the sidecar's own for that place
        self._pause = RetryPause()
        self._thread = threading.Thread(
            target=self._run, name=f"read {connection.address}", daemon=True
        )

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def ask(self, question: Message) -> None:
        """The next question; one that is not answered yet counts no more."""
        if isinstance(question, Fetch | Open):
            with self._changed:
                self._question = question
                self._changed.notify_all()

    def close(self) -> None:
        """Answers no more."""
        call = self._call
        if call is not None:
            call.cancel()
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            self._live()
        except GaplessError as e:
            self._merging.fail(e)
        except Exception as e:  # noqa: BLE001  # the program hears of it, and does not wait for ever
            self._merging.fail(JobError(f"merging broke down: {type(e).__name__}: {e}"))

    def _live(self) -> None:
        merging = self._merging
        while not merging.is_closed():
            question = self._next()
            if question is None:
                continue
            event: Delivery | Opened | Declined | None
            try:
                event = self._answer(question)
            except ConnectionClosed:
                return
            except _Unreached:
                self._again(question)
                continue
            except grpc.RpcError as e:
                self._drop()
                code = code_of(e)
                if merging.is_closed():
                    return
                if code == "OUT_OF_RANGE":
                    event = self._declined(question, "trimmed", e.details() or "")
                elif code in AGAIN or code == "NOT_FOUND":
                    self._again(question)
                    continue
                else:
                    merging.fail(error_of(e, self._connection.address))
                    return
            except GaplessError as e:
                self._drop()
                event = self._declined(question, "trimmed", str(e))
            if event is not None:
                self._pause.reset()
                merging.answered(event, self._take)

    def _next(self) -> Fetch | Open | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._question is not None or self._merging.is_closed(), CONNECT_S
            )
            question, self._question = self._question, None
            return question

    def _again(self, question: Fetch | Open) -> None:
        """Asks the same again after a while, unless something else was asked meanwhile."""
        self._pause.take(self._merging.wait)
        with self._changed:
            if self._question is None:
                self._question = question

    def _answer(self, question: Fetch | Open) -> Delivery | Opened | Declined | None:
        if isinstance(question, Open):
            self._open("now" if question.since is None else question.since)
            delivered = self._deliver()
            if delivered is None or not delivered.reset:
                return self._declined(question, "future", "it gives no table")
            self._stand_behind(delivered)
            since = delivered.since
            return Opened(question.attempt, since, delivered.frame, self._here())
        if self._call is None or self._at != question.token:
            is_begin = question.token.offset == 0 and question.token.stable == BEGIN
            if not self._token or (self._at is not None and self._at != question.token):
                if not is_begin:
                    return self._declined(question, "elsewhere", "no call stands at that place")
                self._at = Token(self._connection.address, 0, 0, BEGIN)
                self._open("earliest")
            else:
                self._open(self._token)
        before = self._here()
        delivered = self._deliver()
        if delivered is None:
            self._drop()
            return None
        if delivered.reset:
            self._token = ""
            return self._declined(question, "elsewhere", "the sidecar has another journal now")
        self._stand_behind(delivered)
        return Delivery(before.offset, delivered.frame, self._here())

    def _here(self) -> Token:
        if self._at is None:
            return Token(self._connection.address, 0, 0, BEGIN)
        return self._at

    def _stand_behind(self, delivered: Delivered) -> None:
        """What the sidecar calls its place, in words of ours: its address is the merger's slot."""
        at = decode(delivered.token)[SHARD]
        self._token = delivered.token
        self._at = at._replace(merger=self._connection.address)

    def _open(self, start: str | int) -> None:
        """A new call."""
        self._drop()
        if not self._connection.wait(CONNECT_S):
            raise _Unreached
        wish = replace(self._merging.wish, start=start, deliver="changes")
        self._assembler = Assembler()
        call = self._connection.unary_stream("Subscribe", wish.request(), pb.Delivery.FromString)
        self._call = call

    def _deliver(self) -> Delivered | None:
        """The next frame; None where the stream has ended."""
        call = self._call
        if call is None:
            raise _Unreached
        for delivery in call:
            delivered = self._assembler.take(delivery)
            if delivered is not None:
                return delivered
        return None

    def _drop(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _declined(self, question: Fetch | Open, why: str, reason: str) -> Declined:
        asked = question.token if isinstance(question, Fetch) else question.attempt
        return Declined(self._connection.address, asked, why, reason)  # type: ignore[arg-type]  # one of `Why`


class _Unreached(Exception):
    """The sidecar cannot be reached now."""


def _start(start: str | int) -> StartAt:
    if isinstance(start, int) or start in ("now", "earliest"):
        return start  # type: ignore[return-value]  # one of two words, or a time
    return decode(start)
