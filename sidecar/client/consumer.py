"""A consumer: reads one stream from one or more sidecars, and goes on where it was.

    with Consumer("127.0.0.1:7070,127.0.0.1:7071", "talkers") as frames:
        for frame in frames:
            sink(frame, frames.token)       keep the token with what was done, and go on there

Of one sidecar it reads what that journal says, exactly from the token on. Several are merged: the
stream goes on while one of them does (merged_consumer.py). A slow program lags in the journal: some
frames wait for it here (failover/subscriber/handover.py), and the rest is not asked for.

The token moves with the frame that is handed out, in one step: a call that times out or is
interrupted has taken nothing. A consumer that is forgotten without being closed ends by itself.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, overload

import pyarrow as pa

from gapless.failover.subscriber.handover import Handover, Numbered
from gapless.protocol.elements import BEGIN, Element
from gapless.protocol.errors import GaplessError, JobError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import WAS
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.assembly import Assembler, Delivered
from gapless.sidecar.client.connection import NOBODY, Connection, Credentials, addresses, error_of
from gapless.sidecar.client.merged_consumer import MergedConsumer
from gapless.sidecar.client.subscription import SidecarSubscription, Wish

MISSING_S = 30.0
"""How long a stream that nobody has pushed to yet is waited for."""
TABLE_S = 60.0
"""How long an answer may take: the output has to be stable that far."""


class Consumer:
    """An iterator over the frames of a stream. Close it, or use it as a context."""

    def __init__(
        self,
        sidecars: str | Sequence[str],
        stream: str,
        *,
        deliver: str = "changes",
        start: str | int = "now",
        columns: Sequence[str] = (),
        filter: str = "",  # noqa: A002  # the word of the protocol
        name: str = "",
        missing_s: float = MISSING_S,
        credentials: Credentials = NOBODY,
        token: str | None = None,
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        """`start`: "now" (first a reset: the table as of now), "earliest" (the first row that is
        still there), a time, or the token of an earlier consumer. `deliver`: "changes", or "final":
        each event once, when it can no longer change. `filter`: as
        `len > 100 and src in ("A", "B")`. Another thread calls `arrived` when a frame is ready.
        """
        shown = Credentials(token=token) if token is not None else credentials
        wish = Wish(stream, deliver, start, tuple(columns), filter, name)
        connections = [Connection(address, shown) for address in addresses(sidecars)]
        reading: SidecarSubscription | MergedConsumer = (
            SidecarSubscription(connections[0], wish, missing_s)
            if len(connections) == 1
            else MergedConsumer(connections, wish, missing_s)
        )
        self._line = _Line(reading, arrived)
        self._forgotten = weakref.finalize(self, self._line.close)
        self._line.start(stream)

    # -- for the program ----------------------------------------------------------------------

    @property
    def token(self) -> str:
        """Goes on behind the last frame that was handed out; empty before the first."""
        return self._line.last.token

    @property
    def is_reset(self) -> bool:
        """Whether the last frame replaces all that the program holds with `ve >= since`."""
        return self._line.last.reset

    @property
    def since(self) -> int:
        """Of a reset: from when on it replaces."""
        return self._line.last.since

    # What follows hands out in one line each: an interrupt between a token that has moved and the
    # frame that it is behind would lose that frame.

    def next(self, timeout_s: float | None = None) -> Frame | None:
        """The next frame; None after so long without one. Raises `StopIteration` at the end, and
        once it was closed.
        """
        return None if (taken := self._line.take(timeout_s)) is None else taken.frame

    def next_delivered(self, timeout_s: float | None = None) -> Delivered | None:
        """The next frame with all that comes with it; as `next`."""
        return self._line.take(timeout_s)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return self._line.take().frame

    def elements(self) -> Iterator[Element]:
        """The stream element by element. For people; a frame costs as little as a single one. The
        token moves with the last element of a frame: who stops before it gets that frame again.
        """
        while (found := self._line.wait()) is not None:
            elements = found.what.frame.elements()
            yield from elements[:-1]
            self._line.took(found)
            yield from elements[-1:]

    def pandas(self) -> Iterator[Any]:
        """The stream as pandas DataFrames, time columns first; frames without rows are left out."""
        for frame in self:
            if len(frame):
                yield frame.to_pandas()

    def close(self) -> None:
        """Reads no more: what waits is let go of, the token stays."""
        self._forgotten.detach()
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class Handed(NamedTuple):
    """What the program was handed last, without its rows."""

    number: int
    token: str
    reset: bool
    since: int


NOTHING = Handed(0, "", False, BEGIN)


def _handed(found: Numbered[Delivered]) -> Handed:
    taken = found.what
    return Handed(found.number, taken.token, taken.reset, taken.since)


class _Line:
    """What is read, on a thread of its own, and waits for the program. It knows no consumer: one
    that is forgotten is closed.
    """

    def __init__(
        self, reading: SidecarSubscription | MergedConsumer, arrived: Callable[[], None]
    ) -> None:
        self.changed = threading.Condition()
        self._reading = reading
        self._arrived = arrived
        self._handover: Handover[Delivered] = Handover()
        self.last = NOTHING
        self._is_closed = False

    def start(self, stream: str) -> None:
        threading.Thread(target=self._run, name=f"consume {stream}", daemon=True).start()

    # -- for the program ----------------------------------------------------------------------

    @overload
    def take(self, timeout_s: None = None) -> Delivered: ...

    @overload
    def take(self, timeout_s: float | None) -> Delivered | None: ...

    def take(self, timeout_s: float | None = None) -> Delivered | None:
        """The next frame, and the token moves; None after so long without. Raises what it ends
        with. Interrupted it has taken nothing.
        """
        before = mine = self.last
        try:
            with self.changed:
                while (found := self._head()) is None:
                    if self._handover.has_ended:
                        raise self._handover.error or StopIteration
                    if not self.changed.wait_for(self._is_ready, timeout_s):
                        return None
                mine = _handed(found)
                self.last = mine
                self.changed.notify_all()  # there may be room again
            return found.what
        except BaseException:
            if self.last is mine:
                self.last = before
            raise

    def wait(self) -> Numbered[Delivered] | None:
        """The next frame, which is not taken by that; None at the end. Raises what it ends with."""
        with self.changed:
            self.changed.wait_for(self._is_ready)
            found = self._head()
            if found is None and self._handover.error is not None:
                raise self._handover.error
            return found

    def took(self, found: Numbered[Delivered]) -> None:
        """It is taken: the token moves."""
        with self.changed:
            self.last = _handed(found)
            self.changed.notify_all()

    def _head(self) -> Numbered[Delivered] | None:
        return self._handover.head(self.last.number)

    def _is_ready(self) -> bool:
        return self._head() is not None or self._handover.has_ended

    def close(self) -> None:
        """Reads no more; from any thread."""
        with self.changed:
            self._is_closed = True
            self._handover.end()
            self._handover.drop()
            self.changed.notify_all()
        self._reading.close()
        self._arrived()  # wakes waiting callers: nothing comes any more

    # -- on its own thread --------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            if isinstance(self._reading, SidecarSubscription):
                self._reading.run(lambda delivered, _: self._put(delivered))
            else:
                self._reading.run(self._put)
        except GaplessError as e:
            error = e
        except Exception as e:  # noqa: BLE001  # the program hears of it, and not only the log
            error = JobError(f"reading broke down: {type(e).__name__}: {e}")
        with self.changed:
            self._handover.end(error)
            self.changed.notify_all()
        self._arrived()

    def _put(self, delivered: Delivered) -> None:
        with self.changed:
            self.changed.wait_for(self._has_room)
            self._handover.put(delivered, delivered.frame.nbytes)
            self.changed.notify_all()
        self._arrived()

    def _has_room(self) -> bool:
        return self._is_closed or self._handover.has_room(self.last.number)


def table(
    sidecar: str,
    stream: str,
    *,
    at: int | None = None,
    columns: Sequence[str] = (),
    filter: str = "",  # noqa: A002  # the word of the protocol
    credentials: Credentials = NOBODY,
    token: str | None = None,
    timeout_s: float = TABLE_S,
) -> pa.Table:
    """The current answer of a stream, or that at a time: a row an event, when it lives in front."""
    import grpc

    shown = Credentials(token=token) if token is not None else credentials
    connection = Connection(addresses(sidecar)[0], shown)
    request = pb.TableRequest(stream=stream, columns=columns, filter=filter, at=at)
    assembler = Assembler()
    frames: list[Frame] = []
    try:
        call = connection.unary_stream("Table", request, pb.Delivery.FromString, timeout_s)
        for delivery in call:
            delivered = assembler.take(delivery)
            if delivered is not None:
                frames.append(delivered.frame)
    except grpc.RpcError as e:
        raise error_of(e, connection.address) from None
    finally:
        connection.close()
    batches = [frame.batch for frame in frames]
    return pa.Table.from_batches(batches, schema=assembler.schema.arrow).drop_columns([WAS])
