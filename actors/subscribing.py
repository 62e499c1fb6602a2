"""A subscription: the subscriber's machine in this process, and the program that iterates over it.

    for frame in job.subscribe():             changes, as they become durable
        sink(frame, subscription.token)       keep the token with what was done, and go on there

The pump asks the mergers, each one question at a time, and waits where the program has
EMITS_MAX frames to take: a slow program lags in the journal, it fills no memory and stops nobody.
A merger that dies is looked up again in the root's book. Where the job is over its output is still
there: what has not been delivered is read from the job's directory, if this process can see it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from ray.exceptions import RayError

from gapless.actors import cluster
from gapless.actors.book import Book
from gapless.actors.pump import Pump
from gapless.actors.stored import StoredMerger
from gapless.actors.wire import Intake, Wire
from gapless.failover import effects as ask
from gapless.failover.messages import Message
from gapless.failover.subscriber import Subscriber
from gapless.failover.tokens import encode
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JobError, Misuse
from gapless.protocol.errors import Trimmed as TrimmedError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

EMITS_MAX = 8
"""Frames that wait for the program; more are not asked for."""
QUESTIONS_MAX = 16
"""Messages to one merger that wait for the answer to the last; only the newest matter."""
CONNECTED_MS = 1000
"""Between two looks whether this process is still in the job's cluster."""
BOOK_MS = 100
"""Between two looks for a merger that has died."""
PUT_S = 0.1
"""Between two looks, of a pump with nowhere to put a frame, whether it is to end."""

_log = logging.getLogger("gapless.actors")


class Subscription:
    """An iterator over a job's output; also `async for`. Close it, or use it as a context."""

    def __init__(
        self,
        machine: Subscriber,
        slots: tuple[str, ...],
        schema: StreamSchema,
        root: Any,
        book: Book,
        job_dir: Path,
    ) -> None:
        """For `Job.subscribe`, which knows what all of them are. `slots`: the mergers'."""
        self._machine = machine
        self._wire = Wire(schema)
        self._intake = Intake(self._wire, lambda what: _log.warning("%s: %s", machine.name, what))
        self._root = root
        self._job_dir = job_dir
        self._schema = schema
        self._book = book
        self._emits: Queue[ask.Emit | BaseException | None] = Queue(EMITS_MAX)
        self._mergers = {slot: _Merger(slot) for slot in slots}
        self._connection = cluster.connection()
        self._is_looking = False
        self._is_closed = False
        self._is_over = False
        self._last: ask.Emit | None = None
        self._pump = Pump(
            f"subscriber {machine.name}",
            machine,
            {ask.Send: self._send, ask.Emit: self._emit, ask.Give: self._give},
            at_end=self._end,
        )
        self._pump.do(self._look_at_connection)
        self._pump.start()

    # -- for the program ----------------------------------------------------------------------

    @property
    def token(self) -> str:
        """Goes on behind the last frame that was handed out: give it to `subscribe(start=...)`.
        Empty before the first.
        """
        return "" if self._last is None else encode(self._last.tokens)

    @property
    def is_reset(self) -> bool:
        """Whether the last frame replaces all that the program holds with `ve >= since`."""
        return self._last is not None and self._last.reset

    @property
    def since(self) -> int:
        """Of a reset: from when on it replaces."""
        return BEGIN if self._last is None else self._last.since

    def next(self, timeout_s: float | None = None) -> Frame | None:
        """The next frame; None after so long without one. Raises `StopIteration` at the end."""
        emit = self.next_emit(timeout_s)
        return None if emit is None else emit.frame

    def next_emit(self, timeout_s: float | None = None) -> ask.Emit | None:
        """The next frame with all that comes with it; as `next`."""
        try:
            emit = self._emits.get(timeout=timeout_s)
        except Empty:
            return None
        if isinstance(emit, ask.Emit):
            self._last = emit
            return emit
        self._put_last(emit)  # the end, for whoever asks again
        if emit is None:
            raise StopIteration
        raise emit

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        while (frame := self.next(PUT_S)) is None:
            pass  # so that Ctrl-C is heard
        return frame

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        emit: ask.Emit | BaseException | None = await asyncio.to_thread(self._take)
        if isinstance(emit, ask.Emit):
            self._last = emit
            return emit.frame
        self._put_last(emit)
        if emit is None:
            raise StopAsyncIteration
        raise emit

    def _take(self) -> ask.Emit | BaseException | None:
        while True:
            try:
                return self._emits.get(timeout=PUT_S)
            except Empty:
                continue

    def close(self) -> None:
        """Subscribes no more."""
        self._is_closed = True
        self._pump.end("closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._pump.call(self._machine.validate)

    # -- effects ------------------------------------------------------------------------------

    def _send(self, effect: ask.Send) -> None:
        merger = self._mergers[effect.to]
        merger.questions.append(effect.message)
        del merger.questions[:-QUESTIONS_MAX]
        self._ask(merger)

    def _emit(self, effect: ask.Emit) -> None:
        while not self._is_closed:
            try:
                self._emits.put(effect, timeout=PUT_S)
            except Full:
                continue
            break
        if self._machine.has_ended:
            self._pump.stop("the output has ended")

    def _give(self, effect: ask.Give) -> None:
        kind = {"trimmed": TrimmedError, "broken": JobError}.get(effect.why, Misuse)
        self._put_last(kind(effect.reason))
        self._pump.stop(effect.reason)

    def _end(self, reason: str) -> None:
        broken = not (self._is_closed or self._is_over or self._machine.has_ended)
        self._put_last(JobError(f"the subscription broke down: {reason}") if broken else None)

    def _put_last(self, last: BaseException | None) -> None:
        """The end; nothing that the program has still to take is lost for it."""
        while True:
            try:
                self._emits.put(last, timeout=PUT_S)
            except Full:
                if self._is_closed:
                    return
                continue
            return

    # -- mergers ------------------------------------------------------------------------------

    def _ask(self, merger: _Merger) -> None:
        if merger.is_asked or not merger.questions:
            return
        if self._is_over:
            self._ask_stored(merger)
            return
        if not self._is_connected():
            return
        found = self._book.newest(merger.slot)
        if found is None:
            self._look()
            return
        questions, merger.questions = merger.questions, []
        merger.is_asked = True
        life, entry = found
        data = self._wire.encode(questions)

        def answered(future: Any) -> None:
            self._pump.do(lambda: self._answered(merger, life, future))

        entry.handle.ask.remote(self._machine.name, data).future().add_done_callback(answered)

    def _answered(self, merger: _Merger, life: Any, future: Any) -> None:
        merger.is_asked = False
        error = future.exception()
        if error is not None:
            if not isinstance(error, RayError):
                raise error
            found = self._book.newest(merger.slot)
            if found is not None and found[0] == life:
                lives = {k: v for k, v in self._book.lives.items() if k != life}
                self._book = Book(self._book.version, lives)
            self._look()
            return
        letters: list[bytes] = future.result()
        for letter in letters:
            for message in self._intake.take(letter):  # a damaged one is asked for again
                if self._pump.ended is None:
                    self._pump.happens(message)
        self._ask(merger)

    def _look(self) -> None:
        """Asks the root where the mergers are, soon, and again until it is known."""
        if self._is_looking or not self._is_connected():
            return
        self._is_looking = True

        def found(future: Any) -> None:
            self._pump.do(lambda: self._found(future))

        self._root.book.remote().future().add_done_callback(found)

    def _found(self, future: Any) -> None:
        error = future.exception()
        if error is None:
            book: Book = future.result()
            if book.version > self._book.version:
                self._book = book
                for merger in self._mergers.values():
                    self._ask(merger)
        elif self._is_stopped():
            self._go_on_alone()
            return
        missing = any(self._book.newest(slot) is None for slot in self._mergers)
        if missing:
            self._pump.later(BOOK_MS, self._look_again)
        else:
            self._is_looking = False

    def _look_again(self) -> None:
        self._is_looking = False
        self._look()

    def _is_connected(self) -> bool:
        """Whether this process is still in the job's cluster; where not, this is the end, unless
        the job has come to its own.
        """
        if cluster.connection() == self._connection:
            return True
        if self._is_stopped():
            self._go_on_alone()
        else:
            self._pump.stop("this process has left the job's cluster; go on by the last token")
        return False

    def _look_at_connection(self) -> None:
        """What was asked is not answered any more once it is gone."""
        if self._is_over or self._is_connected():
            self._pump.later(CONNECTED_MS, self._look_at_connection)

    # -- once the job is over -----------------------------------------------------------------

    def _is_stopped(self) -> bool:
        """Whether the root is gone because the job is: then nobody answers any more."""
        try:
            return StoredMerger.is_stopped(self._job_dir)
        except (GaplessError, OSError):
            return False

    def _go_on_alone(self) -> None:
        """The rest is in the job's directory."""
        if self._is_over:
            return
        self._is_over = True
        for merger in self._mergers.values():
            merger.stored = StoredMerger(self._job_dir, merger.slot, self._schema)
            self._ask_stored(merger)

    def _ask_stored(self, merger: _Merger) -> None:
        stored = merger.stored
        if stored is None:
            return
        questions, merger.questions = merger.questions, []
        for question in questions:
            answer = stored.answer(question)
            if answer is not None and self._pump.ended is None:
                self._pump.happens(answer)
        if all(m.stored is not None and m.stored.is_read for m in self._mergers.values()):
            self._pump.stop("the job is stopped, and all of its output was delivered")


class _Merger:
    """What is asked of one merger."""

    def __init__(self, slot: str) -> None:
        self.slot = slot
        self.questions: list[Message] = []
        self.is_asked = False
        self.stored: StoredMerger | None = None


def subscriber_name() -> str:
    """A name that no other subscriber has, and no slot."""
    return f"s-{uuid4().hex}"
