"""A producer: pushes one copy of a stream to one or more sidecars, whatever becomes of them.

    with Producer("127.0.0.1:7070", "talkers", "a", {"src": "string", "n": "int64"}) as p:
        for row in rows:
            p.insert(row.start, row.end, src=row.src, n=row.n)
        p.stable(now)

    rows --gathered_rows.py--> frames --> producer_machine.py, turned by producer_pump.py
                                              what to send, when, and what to send again
    each sidecar <--Push-- push_line.py <---- push_requests.py

Threads of the program wait where the sidecars hold them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from gapless.failover.job.whole_file import check_name
from gapless.protocol.elements import BEGIN, INF, Adjust, Insert
from gapless.protocol.errors import JobError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.connection import NOBODY, Connection, Credentials, addresses
from gapless.sidecar.client.gathered_rows import FrameCutter, GatheredRows
from gapless.sidecar.client.producer_machine import ProducerMachine, Push
from gapless.sidecar.client.producer_pump import ProducerPump
from gapless.sidecar.client.producer_record import producer_record
from gapless.sidecar.client.push_line import PushLine
from gapless.sidecar.client.push_requests import PushRequests, encoding_of
from gapless.sidecar.definition import NAME_CHARS_MAX
from gapless.sidecar.lives import life_of

CLOSE_S = 10.0
"""How long `close` waits for the sidecars to have all."""


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
        records: str | Path | None = None,
    ) -> None:
        """`sidecars`: "HOST:PORT", several with commas between them. `name`: whose copy it is; two
        copies have two names, and of one name the later incarnation counts. `key`, `insert_only`:
        what all copies of the stream are known to be. `join_at`: it tells every event with `ve`
        from then on. `incarnation`: the time, by default. `token` is short for credentials of it.
        `heard` is called by another thread whenever there may be room again, or an end. `records`:
        a directory; it gets a flight record, `records/...`, where the producer itself breaks down.
        """
        self.schema = schema if isinstance(schema, StreamSchema) else StreamSchema(schema)
        wire = encoding_of(encoding)
        self._stream = check_name("stream", stream, NAME_CHARS_MAX)
        number = time.time_ns() // 1_000 if incarnation is None else incarnation
        names = addresses(sidecars)
        shown = Credentials(token=token) if token is not None else credentials
        self._machine = ProducerMachine(life_of(name, number), names, self.schema, join_at)
        self._cutter = FrameCutter(
            insert_only=insert_only, settled=lambda: self._machine.settled.feedback
        )
        self._rows = GatheredRows(self.schema, self._cutter)
        record = None if records is None else producer_record(stream, self._machine, Path(records))
        self._pump = ProducerPump(stream, self._machine, heard, record)
        properties = pb.Properties(key=key, insert_only=insert_only)
        requests = PushRequests(stream, self.schema, properties, wire)
        self._lines = {
            address: PushLine(self._pump, requests, Connection(address, shown)) for address in names
        }
        self._pump.start(self._lines)
        for line in self._lines.values():
            line.start()

    # -- for the program ----------------------------------------------------------------------

    def push(self, frame: Frame | pa.RecordBatch, timeout_s: float | None = None) -> None:
        """Pushes a frame. Waits while the sidecars hold as much as they may; raises `JobError`
        after so long. Raises what has ended the producer: `Fenced`, `StreamViolation`, `Denied`.
        """
        frame = self._checked(frame)
        with self._pump.changed:
            self._push_rows(timeout_s)
            self._push(frame, timeout_s)

    def try_push(self, frame: Frame | pa.RecordBatch) -> bool:
        """As `push`, where that would not wait; else False, and nothing of it is pushed."""
        frame = self._checked(frame)
        with self._pump.changed:
            if not self._try_push_rows() or not self._has_room(0):
                return False
            self._push_pieces(self._cutter.pieces(frame))
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
        self._gather(Insert(self._rows.values(payload), start, INF if end is None else end))

    def adjust(self, start: int, was: int | None, end: int | None, /, **payload: Any) -> None:
        """Says that an event ends at `end`, and not where it `was`; `end == start` removes it."""
        old, new = (INF if t is None else t for t in (was, end))
        self._gather(Adjust(self._rows.values(payload), start, old, new))

    def stable(self, t: int, timeout_s: float | None = None) -> None:
        """Promises that nothing before `t` changes any more. INF ends the stream."""
        with self._pump.changed:
            self._push_rows(timeout_s)
            self._push(Frame.empty(self.schema, t), timeout_s)

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Pushes what has gathered; whether the sidecars took in all of it within a time."""
        with self._pump.changed:
            self._push_rows(timeout_s)
            return self._pump.wait(lambda: self._machine.all_acked, timeout_s)

    def try_flush(self) -> bool:
        """As `flush`, where that would not wait; else False."""
        with self._pump.changed:
            return self._try_push_rows() and self._pump.wait(lambda: self._machine.all_acked, 0)

    def wait_durable(self, t: int, timeout_s: float = CLOSE_S) -> bool:
        """Whether the output is durable up to `t` within a time: a program that restarts need not
        tell what ends before it.
        """
        with self._pump.changed:
            return self._pump.wait(lambda: self._machine.settled.durable >= t, timeout_s)

    @property
    def durable_stable(self) -> int:
        """The output of all sidecars is durable up to here; see `resume_at` for a restart."""
        with self._pump.changed:
            return self._machine.settled.durable

    @property
    def resume_at(self) -> int:
        """The smaller of `durable_stable` and the last stable that was pushed. A program that keeps
        it with its checkpoint, and restarts from there, gives it as `join_at` and tells every event
        with `ve` from then on: what ends before it is settled, and will not be adjusted either.
        """
        with self._pump.changed:
            return self._machine.resume_at

    @property
    def feedback(self) -> int:
        """Events that end before it for good need not be made: the output has settled them."""
        with self._pump.changed:
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
        return self._pump.closing.is_set()

    def leave(self) -> None:
        """Begins to close, behind a `flush`: it does not wait. `has_left` says when it is done,
        and `abandon` ends what is not.
        """
        self._pump.closing.set()
        for line in self._lines.values():
            line.leave()

    @property
    def has_left(self) -> bool:
        """Whether every sidecar knows that this copy has ended, or cannot be reached."""
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
        return self._pump.problem

    def _why(self) -> str:
        problem = self.problem
        return "" if problem is None else f": {problem}"

    def abandon(self) -> None:
        """Ends at once, as a process that dies does."""
        self._pump.closing.set()
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
        with self._pump.changed:
            self._machine.validate()

    # -- pushing, which holds `changed` -------------------------------------------------------

    def _gather(self, row: Insert | Adjust) -> None:
        with self._pump.changed:
            if self._rows.is_nearly_full:
                self._check_room(None)  # interrupted here, the row has not been pushed
            self._rows.add(row)
            if self._rows.is_full:
                self._push_pieces(self._rows.take())

    def _push_rows(self, timeout_s: float | None) -> None:
        if self._rows:
            self._check_room(timeout_s)  # what has gathered stays until there is room for it
            self._push_pieces(self._rows.take())

    def _try_push_rows(self) -> bool:
        """Whether what has gathered is pushed, without waiting for room."""
        if self._rows:
            if not self._has_room(0):
                return False
            self._push_pieces(self._rows.take())
        return True

    def _push(self, frame: Frame, timeout_s: float | None) -> None:
        self._check_room(timeout_s)
        self._push_pieces(self._cutter.pieces(frame))

    def _has_room(self, timeout_s: float | None) -> bool:
        return self._pump.wait(lambda: self._machine.has_room, timeout_s)

    def _check_room(self, timeout_s: float | None) -> None:
        if not self._has_room(timeout_s):
            raise JobError(
                f"the sidecars of {self._stream} have had no room for {timeout_s:g} s{self._why()}"
            )

    def _push_pieces(self, pieces: list[Frame]) -> None:
        """Pushes them to all sidecars; there is room."""
        for piece in pieces:
            self._pump.happens(Push(piece))
