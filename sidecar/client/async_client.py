"""The client for asyncio: the same producer and consumer, awaited.

    async with AsyncConsumer("127.0.0.1:7070", "talkers") as frames:
        async for frame in frames: ...

What connects, sends and hears are the threads of the clients they wrap; here nothing but the loop's
own thread waits, and takes, so a program may have hundreds, and a wait that is cancelled takes
nothing and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from gapless.protocol.frame import Frame
from gapless.sidecar.assembly import Delivered
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import CLOSE_S, Producer


class AsyncProducer:
    """A `Producer` whose methods are awaited. Its arguments are the same."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        """To be made where a loop runs."""
        self._heard = asyncio.Event()
        self._producer = Producer(*arguments, heard=_setter(self._heard), **more)

    async def push(self, frame: Frame | pa.RecordBatch) -> None:
        """As `Producer.push`: waits, without a thread, while the sidecars hold what they may."""
        while True:
            self._heard.clear()
            if self._producer.try_push(frame):
                return
            await self._heard.wait()

    async def stable(self, t: int) -> None:
        """As `Producer.stable`."""
        await self.push(Frame.empty(self._producer.schema, t))

    async def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """As `Producer.flush`."""
        return await self._until(self._producer.try_flush, timeout_s)

    async def wait_durable(self, t: int, timeout_s: float = CLOSE_S) -> bool:
        """As `Producer.wait_durable`."""
        return await self._until(lambda: self._producer.wait_durable(t, 0), timeout_s)

    async def _until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Whether something is so within a time; raises what it raises. No thread waits."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    self._heard.clear()
                    if is_so():
                        return True
                    await self._heard.wait()
        except TimeoutError:
            return is_so()

    @property
    def durable_stable(self) -> int:
        """As `Producer.durable_stable`."""
        return self._producer.durable_stable

    @property
    def feedback(self) -> int:
        """As `Producer.feedback`."""
        return self._producer.feedback

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """As `Producer.close`. Cancelled, it has left nevertheless: at once, and what was not taken
        in by then may be lost.
        """
        producer = self._producer
        if producer.is_closed:
            return
        try:
            done = await self.flush(timeout_s)
            producer.leave()
            await self._until(lambda: producer.has_left, CLOSE_S)
        finally:
            producer.abandon()
        if not done:
            raise producer.not_taken(timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self._producer.abandon()


class AsyncConsumer:
    """A `Consumer` to be iterated with `async for`. Its arguments are the same."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        """To be made where a loop runs."""
        self._something = asyncio.Event()
        self._consumer = Consumer(*arguments, arrived=_setter(self._something), **more)

    @property
    def token(self) -> str:
        """As `Consumer.token`."""
        return self._consumer.token

    @property
    def is_reset(self) -> bool:
        """As `Consumer.is_reset`."""
        return self._consumer.is_reset

    @property
    def since(self) -> int:
        """As `Consumer.since`."""
        return self._consumer.since

    async def next_delivered(self) -> Delivered | None:
        """The next frame with all that comes with it; None at the end of the stream."""
        while True:
            self._something.clear()
            try:
                delivered = self._consumer.next_delivered(0)
            except StopIteration:
                return None
            if delivered is not None:
                return delivered
            await self._something.wait()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        delivered = await self.next_delivered()
        if delivered is None:
            raise StopAsyncIteration
        return delivered.frame

    async def close(self) -> None:
        """Reads no more."""
        self._consumer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()


def _setter(event: asyncio.Event) -> Callable[[], None]:
    """Sets an event of the present loop, from any thread."""
    loop = asyncio.get_running_loop()

    def set_it() -> None:
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            return  # the loop is over, and with it every task that would wait

    return set_it
