"""A producer: pushes one copy of a stream to one or more sidecars, whatever becomes of them.

    with Producer("127.0.0.1:7070", "talkers", "a", {"src": "string", "n": "int64"}) as p:
        for row in rows:
            p.insert(row.start, row.end, src=row.src, n=row.n)
        p.stable(now)

What to send, when, and what to resend is decided by a pure machine (output_sender.py). Here are its
threads: one a sidecar that connects, sends and hears, one for time, and those of the program, which
wait where the sidecars hold them back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import grpc
import pyarrow as pa

from gapless.failover.effects import Send
from gapless.failover.job.whole_file import check_name
from gapless.failover.messages import Ack, Attach, Data
from gapless.protocol.elements import BEGIN, INF, Adjust, Element, Insert
from gapless.protocol.errors import GaplessError, JobError, Misuse, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.connection import (
    AGAIN,
    NOBODY,
    RECONNECT_MS,
    RECONNECT_MS_MAX,
    Closed,
    Connection,
    Credentials,
    addresses,
    code_of,
    error_of,
)
from gapless.sidecar.client.output_sender import Pushing
from gapless.sidecar.definition import NAME_CHARS_MAX, schema_to_wire
from gapless.sidecar.frames import cut, to_wire
from gapless.sidecar.lives import incarnation_of, life_of

TICK_S = 0.05
"""Between two looks at the time."""
CONNECT_S = 1.0
"""How long a connection is waited for before somebody looks whether the producer was closed."""
GATHER_ROWS = 1_000
"""Rows that `insert` and `adjust` gather: as one frame they cost little more than one row does."""
CLOSE_S = 10.0
"""How long `close` waits for the sidecars to have all."""
ROW_BYTES_MAX = 12 << 20
"""Of one row: it travels in one message, of which a sidecar takes 16 MiB, in either encoding."""
_END = None


_log = logging.getLogger("gapless.client")


class Producer:
    """One copy of a stream. Its methods may be called by several threads."""

    def __init__(
        self,
        sidecars: str | Sequence[str],
        stream: str,
        name: str,
        schema: StreamSchema | pa.Schema | Mapping[str, Any],
        *,
        key: bool = False,
        insert_only: bool = False,
        join_at: int = BEGIN,
        incarnation: int | None = None,
        encoding: str = "arrow",
        credentials: Credentials = NOBODY,
        token: str | None = None,
        heard: Callable[[], None] = lambda: None,
    ) -> None:
        """`sidecars`: "HOST:PORT", several with commas between them. `name`: whose copy it is; two
        copies have two names, and of one name the later incarnation counts. `key`, `insert_only`:
        what all copies of the stream are known to be. `join_at`: it tells every event with `ve`
        from then on. `incarnation`: the time, by default. `token` is short for credentials of it.
        `heard` is called by another thread whenever there may be room again, or an end.
        """
        self.schema = schema if isinstance(schema, StreamSchema) else StreamSchema(schema)
        if encoding not in _ENCODINGS:
            raise Misuse(f"encoding {encoding!r}: {', '.join(_ENCODINGS)}")
        self._encoding = _ENCODINGS[encoding]
        self._stream = check_name("stream", stream, NAME_CHARS_MAX)
        self._properties = pb.Properties(key=key, insert_only=insert_only)
        self._insert_only = insert_only
        number = time.time_ns() // 1_000 if incarnation is None else incarnation
        names = addresses(sidecars)
        shown = Credentials(token=token) if token is not None else credentials
        self._machine = Pushing(life_of(name, number), names, self.schema, join_at)
        self._changed = threading.Condition()
        self._on_heard = heard
        self._error: GaplessError | None = None
        self._problems: dict[str, str] = {}
        self._is_closed = threading.Event()
        self._rows: list[Insert | Adjust] = []
        self._lines = {address: _Line(self, Connection(address, shown)) for address in names}
        for line in self._lines.values():
            line.start()
        threading.Thread(target=self._tick, name=f"producer {name}", daemon=True).start()

    # -- for the program ----------------------------------------------------------------------

    def push(self, frame: Frame | pa.RecordBatch, timeout_s: float | None = None) -> None:
        """Pushes a frame. Waits while the sidecars hold as much as they may; raises `JobError`
        after so long. Raises what has ended the producer: `Fenced`, `StreamViolation`, `Denied`.
        """
        frame = self._checked(frame)
        with self._changed:
            self._push_rows(timeout_s)
            self._push(frame, timeout_s)

    def try_push(self, frame: Frame | pa.RecordBatch) -> bool:
        """As `push`, where that would not wait; else False, and nothing of it is pushed."""
        frame = self._checked(frame)
        with self._changed:
            if not self._try_push_rows() or not self._has_room(0):
                return False
            self._say(frame)
            return True

    def _checked(self, frame: Frame | pa.RecordBatch) -> Frame:
        frame = frame if isinstance(frame, Frame) else Frame(frame, None, self.schema)
        if frame.schema != self.schema:
            raise Misuse(f"a frame of {frame.schema}: this producer's are of {self.schema}")
        return frame

    def insert(self, start: int, end: int | None = None, /, **payload: Any) -> None:
        """Says that there is an event from `start` up to `end`; None: it has no end yet. It is
        pushed with others, at the latest by `stable` or `flush`.
        """
        self._gather(Insert(self._values(payload), start, INF if end is None else end))

    def adjust(self, start: int, was: int | None, end: int | None, /, **payload: Any) -> None:
        """Says that an event ends at `end`, and not where it `was`; `end == start` removes it."""
        old, new = (INF if t is None else t for t in (was, end))
        self._gather(Adjust(self._values(payload), start, old, new))

    def stable(self, t: int, timeout_s: float | None = None) -> None:
        """Promises that nothing before `t` changes any more. INF ends the stream."""
        with self._changed:
            self._push_rows(timeout_s)
            self._push(Frame.empty(self.schema, t), timeout_s)

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Pushes what has gathered; whether the sidecars took in all of it within a time."""
        with self._changed:
            self._push_rows(timeout_s)
            return self._wait(lambda: self._machine.all_acked, timeout_s)

    def try_flush(self) -> bool:
        """As `flush`, where that would not wait; else False."""
        with self._changed:
            return self._try_push_rows() and self._wait(lambda: self._machine.all_acked, 0)

    def wait_durable(self, t: int, timeout_s: float = CLOSE_S) -> bool:
        """Whether the output is durable up to `t` within a time: a program that restarts need not
        tell what ends before it.
        """
        with self._changed:
            return self._wait(lambda: self._machine.settled.durable >= t, timeout_s)

    @property
    def durable_stable(self) -> int:
        """The output of all sidecars is durable up to here; see `resume_at` for a restart."""
        with self._changed:
            return self._machine.settled.durable

    @property
    def resume_at(self) -> int:
        """The smaller of `durable_stable` and the last stable that was pushed. A program that keeps
        it with its checkpoint, and restarts from there, gives it as `join_at` and tells every event
        with `ve` from then on: what ends before it is settled, and will not be adjusted either.
        """
        with self._changed:
            return self._machine.resume_at

    @property
    def feedback(self) -> int:
        """Events that end before it for good need not be made: the output has settled them."""
        with self._changed:
            return self._machine.settled.feedback

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Pushes what has gathered, waits until it was taken in, and leaves: what this copy has not
        said holds nothing up any more. Raises what has ended the producer.
        """
        if self.is_closed:
            return
        try:
            done = self.flush(timeout_s)
        finally:
            self.leave()
            for line in self._lines.values():
                line.join(CLOSE_S)
            self.abandon()
        if not done:
            raise self.not_taken(timeout_s)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is pushed."""
        return self._is_closed.is_set()

    def leave(self) -> None:
        """Begins to close, behind a `flush`: it does not wait. `has_left` says when it is done,
        and `abandon` ends what is not.
        """
        self._is_closed.set()
        for line in self._lines.values():
            line.leave()

    @property
    def has_left(self) -> bool:
        """Whether every sidecar knows that this copy has nothing more to say, or cannot know."""
        return all(line.is_over for line in self._lines.values())

    def not_taken(self, timeout_s: float) -> JobError:
        """What `close` raises where the sidecars have not taken in all of it within a time."""
        return JobError(
            f"not all that was pushed to {self._stream} was taken in within {timeout_s:g} s"
            f"{self._why()}"
        )

    @property
    def problem(self) -> str | None:
        """Why some sidecar does not take what is pushed, though it is tried again; None where all
        do, as far as is known.
        """
        with self._changed:
            return "; ".join(f"{at}: {why}" for at, why in self._problems.items()) or None

    def _why(self) -> str:
        problem = self.problem
        return "" if problem is None else f": {problem}"

    def abandon(self) -> None:
        """Ends at once, as a process that dies does."""
        self._is_closed.set()
        for line in self._lines.values():
            line.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        with self._changed:
            self._machine.validate()

    # -- pushing ------------------------------------------------------------------------------

    def _values(self, payload: dict[str, Any]) -> tuple[Any, ...]:
        if set(payload) != set(self.schema.names):
            raise Misuse(
                f"columns {sorted(payload)}: the stream has {', '.join(self.schema.names)}"
            )
        return tuple(payload[name] for name in self.schema.names)

    def _gather(self, row: Insert | Adjust) -> None:
        with self._changed:
            if len(self._rows) + 1 >= GATHER_ROWS:
                self._check_room(None)  # who is interrupted here has not said this row
            self._rows.append(row)
            if len(self._rows) >= GATHER_ROWS:
                self._say_rows()

    def _push_rows(self, timeout_s: float | None) -> None:
        if self._rows:
            self._check_room(timeout_s)  # what has gathered stays until there is room for it
            self._say_rows()

    def _try_push_rows(self) -> bool:
        """Whether what has gathered is pushed, without waiting for room."""
        if self._rows:
            if not self._has_room(0):
                return False
            self._say_rows()
        return True

    def _say_rows(self) -> None:
        rows: list[Element] = list(self._rows)
        if not rows:
            return
        try:
            pieces = self._pieces(Frame.from_elements(self.schema, rows))
        except GaplessError:
            self._rows = [row for row in self._rows if self._is_sound(row)]
            raise  # of those that cannot be said: the others are said next
        self._rows.clear()
        self._say_pieces(pieces)

    def _is_sound(self, row: Insert | Adjust) -> bool:
        try:
            self._pieces(Frame.from_elements(self.schema, [row]))
        except GaplessError:
            return False
        return True

    def _push(self, frame: Frame, timeout_s: float | None) -> None:
        self._check_room(timeout_s)
        self._say(frame)

    def _has_room(self, timeout_s: float | None) -> bool:
        return self._wait(lambda: self._machine.has_room, timeout_s)

    def _check_room(self, timeout_s: float | None) -> None:
        if not self._has_room(timeout_s):
            raise JobError(
                f"the sidecars of {self._stream} have had no room for {timeout_s:g} s{self._why()}"
            )

    def _say(self, frame: Frame) -> None:
        """Says it to all sidecars; there is room."""
        self._say_pieces(self._pieces(frame))

    def _pieces(self, frame: Frame) -> list[Frame]:
        """What is said of it, in frames that a message holds. Raises `Misuse`."""
        if self._insert_only and len(frame):
            settled = self._machine.settled.feedback
            if settled > BEGIN and int(frame.ve.min()) < settled:
                frame = frame.take(frame.ve >= settled, frame.stable)
        pieces = cut(frame)
        for piece in pieces:
            if len(piece) == 1 and piece.nbytes > ROW_BYTES_MAX:
                raise Misuse(f"a row of {piece.nbytes} bytes: {ROW_BYTES_MAX} are the most")
        return pieces

    def _say_pieces(self, pieces: list[Frame]) -> None:
        for piece in pieces:
            self._do(self._machine.push(piece, _now_ms()))

    def _wait(self, until: Any, timeout_s: float | None) -> bool:
        """Waits until something is so; raises where the producer has ended."""

        def over() -> bool:
            return self._error is not None or self._is_closed.is_set() or bool(until())

        self._changed.wait_for(over, timeout_s)
        if self._error is not None:
            raise self._error
        if self._is_closed.is_set():
            raise Misuse("the producer is closed")
        return bool(until())

    # -- for the lines, under the lock --------------------------------------------------------

    def _do(self, effects: list[Send]) -> None:
        for effect in effects:
            message = effect.message
            if isinstance(message, Attach | Data):
                self._lines[effect.to].send(message)

    def _attach(self, message: Attach) -> Iterator[pb.PushRequest]:
        """The attach and its tail, of which each frame is encoded when it is sent."""
        life = message.session.life
        tail = [piece for piece in cut(message.tail) if piece]
        attach = pb.Attach(
            stream=self._stream,
            producer=life.slot,
            incarnation=incarnation_of(life),
            schema=schema_to_wire(self.schema),
            properties=self._properties,
            join_at=None if message.join_at == BEGIN else message.join_at,
            tail_frames=len(tail),
        )
        yield pb.PushRequest(attach=attach)
        for piece in tail:
            yield pb.PushRequest(frame=to_wire(piece, self._encoding))

    def _fail(self, error: GaplessError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
        self._on_heard()

    def _trouble(self, address: str, why: str) -> None:
        """It is retried; waiting callers are told why, and the log, once for each reason."""
        with self._changed:
            is_new = self._problems.get(address) != why
            self._problems[address] = why
        if is_new:
            _log.warning("pushing to %s at %s, tried again: %s", self._stream, address, why)

    def _tick(self) -> None:
        while not self._is_closed.wait(TICK_S):
            with self._changed:
                self._do(self._machine.tick(_now_ms()))


class _Line:
    """The calls to one sidecar, one after the other, on a thread of their own."""

    def __init__(self, producer: Producer, connection: Connection) -> None:
        self.connection = connection
        self._producer = producer
        self._requests: SimpleQueue[Iterator[pb.PushRequest] | None] = SimpleQueue()
        self._session: Any = None
        self._epoch = 0
        self._backoff_ms = RECONNECT_MS
        self.is_over = False
        self._thread = threading.Thread(
            target=self._run, name=f"push {connection.address}", daemon=True
        )

    def start(self) -> None:
        """Begins to connect."""
        self._thread.start()

    def send(self, message: Attach | Data) -> None:
        """Sends over the present call."""
        if isinstance(message, Attach):
            self._session = message.session
            self._requests.put(self._producer._attach(message))
        else:
            wire = to_wire(message.frame, self._producer._encoding, message.sequence)
            self._requests.put(iter((pb.PushRequest(frame=wire),)))

    def leave(self) -> None:
        """Says that there is nothing more to say; it ends once all is durable there."""
        self._requests.put(iter((pb.PushRequest(detach=pb.Detach(reason="closed")),)))
        self._requests.put(_END)

    def join(self, timeout_s: float) -> None:
        """Waits for its end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._run_to_its_end()
        finally:
            self.is_over = True
            if self._producer.is_closed:
                self.connection.close()
            self._producer._on_heard()

    def _run_to_its_end(self) -> None:
        try:
            self._live()
        except Closed:
            return
        except GaplessError as e:
            self._producer._fail(e)
        except Exception as e:  # noqa: BLE001  # the program hears of it, and does not wait for ever
            self._producer._fail(JobError(f"pushing broke down: {type(e).__name__}: {e}"))

    def _live(self) -> None:
        producer = self._producer
        closed = producer._is_closed
        while not closed.is_set():
            if not self.connection.wait(CONNECT_S):
                continue
            if closed.is_set():
                return
            self._call()
            if producer._error is not None:
                return  # nothing that is asked again would be answered otherwise
            closed.wait(self._backoff_ms / 1000)
            self._backoff_ms = min(2 * self._backoff_ms, RECONNECT_MS_MAX)

    def _call(self) -> None:
        """One call, until it ends."""
        producer, address = self._producer, self.connection.address
        requests = self._requests = SimpleQueue()
        call = self.connection.stream_stream(
            "Push",
            chain.from_iterable(iter(requests.get, _END)),
            pb.PushRequest.SerializeToString,
            pb.PushReply.FromString,
        )
        with producer._changed:
            producer._do(producer._machine.reached(address, _now_ms()))
        why: pb.Detached | None = None
        try:
            for reply in call:
                if reply.WhichOneof("message") == "detached":
                    why = reply.detached
                else:
                    self._heard(reply)
        except grpc.RpcError as e:
            self._ended(e, why)
        finally:
            call.cancel()
            requests.put(_END)
            with producer._changed:
                producer._machine.lost(address, _now_ms())
                producer._changed.notify_all()
            producer._on_heard()

    def _heard(self, reply: pb.PushReply) -> None:
        producer = self._producer
        if reply.WhichOneof("message") == "attached":
            said = reply.attached
            self._epoch = said.epoch
            self._backoff_ms = RECONNECT_MS
            with producer._changed:
                producer._problems.pop(self.connection.address, None)
            ack = Ack(self._session, said.epoch, 0, said.durable_stable, said.feedback)
            credit = said.credits
        else:
            told = reply.ack
            credit = told.credits
            ack = Ack(
                self._session,
                self._epoch,
                told.sequence,
                told.durable_stable,
                told.feedback,
                told.throttled,
            )
        with producer._changed:
            producer._machine.give_credit(self.connection.address, credit)
            producer._do(producer._machine.heard(ack, _now_ms()))
            producer._changed.notify_all()
        producer._on_heard()

    def _ended(self, error: Any, why: pb.Detached | None) -> None:
        producer = self._producer
        if producer._is_closed.is_set():
            return
        code = code_of(error)
        if why is not None and why.why == pb.Detached.WHY_ABSENT:
            with producer._changed:
                producer._machine.be_born_again()
        elif why is not None and why.why == pb.Detached.WHY_BAD_CONTENT and code != "DATA_LOSS":
            producer._fail(StreamViolation(f"{self.connection.address}", why.reason))
        elif code not in AGAIN:
            producer._fail(error_of(error, self.connection.address))
        else:
            producer._trouble(self.connection.address, f"{code}: {error.details()}")


_ENCODINGS: dict[str, pb.Encoding] = {
    "arrow": pb.ENCODING_ARROW,
    "msgpack": pb.ENCODING_MSGPACK,
}


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
