"""A consumer: reads one stream from one or more sidecars, and goes on where it was.

    with Consumer("127.0.0.1:7070,127.0.0.1:7071", "talkers") as frames:
        for frame in frames:
            sink(frame, frames.token)       keep the token with what was done, and go on there

Of one sidecar it reads what that journal says, exactly from the token on. Several are merged: the
stream goes on while one of them does (merging.py). A slow program lags in the journal: FRAMES_MAX
frames wait for it here, and the rest is not asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from gapless.protocol.elements import BEGIN, Element
from gapless.protocol.errors import GaplessError, JobError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import WAS
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.assembling import Assembler, Delivered
from gapless.sidecar.connecting import NOBODY, Connection, Credentials, addresses, error_of
from gapless.sidecar.merging import Merging
from gapless.sidecar.reading import Reading, Wish

FRAMES_MAX = 8
"""Frames that wait for the program."""
MISSING_S = 30.0
"""How long a stream that nobody has pushed to yet is waited for."""
PUT_S = 0.1
"""Between two looks whether it is closed, of who has nowhere to put a frame or none to take."""
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
        """`start`: "now" (first a reset: the table as of now), "begin", a time, or the token of an
        earlier consumer. `deliver`: "changes", or "final": each event once, when nothing about it
        can change any more. `filter`: as `len > 100 and src in ("A", "B")`. `arrived` is called by
        another thread whenever there is something to take.
        """
        shown = Credentials(token=token) if token is not None else credentials
        wish = Wish(stream, deliver, start, tuple(columns), filter, name)
        connections = [Connection(address, shown) for address in addresses(sidecars)]
        self._frames: Queue[Delivered | BaseException | None] = Queue(FRAMES_MAX)
        self._arrived = arrived
        self._closed = threading.Event()
        self._last: Delivered | None = None
        self._reading: Reading | Merging = (
            Reading(connections[0], wish, missing_s)
            if len(connections) == 1
            else Merging(connections, wish, missing_s)
        )
        threading.Thread(target=self._run, name=f"consume {stream}", daemon=True).start()

    # -- for the program ----------------------------------------------------------------------

    @property
    def token(self) -> str:
        """Goes on behind the last frame that was handed out; empty before the first."""
        return "" if self._last is None else self._last.token

    @property
    def is_reset(self) -> bool:
        """Whether the last frame replaces all that the program holds with `ve >= since`."""
        return self._last is not None and self._last.reset

    @property
    def since(self) -> int:
        """Of a reset: from when on it replaces."""
        return BEGIN if self._last is None else self._last.since

    def next(self, timeout_s: float | None = None) -> Frame | None:
        """The next frame; None after so long without one. Raises `StopIteration` at the end, and
        once it was closed.
        """
        delivered = self.next_delivered(timeout_s)
        return None if delivered is None else delivered.frame

    def next_delivered(self, timeout_s: float | None = None) -> Delivered | None:
        """The next frame with all that comes with it; as `next`."""
        while True:
            try:
                return self._take(PUT_S if timeout_s is None else timeout_s)
            except Empty:
                if self._closed.is_set():
                    raise StopIteration from None
                if timeout_s is not None:
                    return None

    def _take(self, timeout_s: float) -> Delivered:
        """Raises `Empty`, and what the stream ended with."""
        taken = self._frames.get(timeout_s != 0, timeout_s)
        if isinstance(taken, Delivered):
            self._last = taken
            return taken
        self._frames.put(taken)  # the end, for whoever asks again: nothing comes behind it
        if taken is None:
            raise StopIteration
        raise taken

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        while (frame := self.next(PUT_S)) is None:
            pass  # so that Ctrl-C is heard
        return frame

    def elements(self) -> Iterator[Element]:
        """The stream element by element. For people; a frame costs as little as a single one."""
        for frame in self:
            yield from frame.elements()

    def pandas(self) -> Iterator[Any]:
        """The stream as pandas DataFrames, time columns first; frames without rows are left out."""
        for frame in self:
            if len(frame):
                yield frame.to_pandas()

    def close(self) -> None:
        """Reads no more."""
        self._closed.set()
        self._reading.close()
        self._arrived()  # who waits finds that nothing comes any more

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    # -- on its own thread --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if isinstance(self._reading, Reading):
                self._reading.run(lambda delivered, _: self._put(delivered))
            else:
                self._reading.run(self._put)
        except GaplessError as e:
            self._put(e)
        except Exception as e:  # noqa: BLE001  # the program hears of it, and not only the log
            if not self._closed.is_set():
                self._put(JobError(f"reading broke down: {type(e).__name__}: {e}"))
        else:
            self._put(None)

    def _put(self, what: Delivered | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                self._frames.put(what, timeout=PUT_S)
            except Full:
                continue
            self._arrived()
            return


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
