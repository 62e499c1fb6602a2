"""A subscription: a job's output, as the program that iterates over it sees it.

    for frame in job.subscribe():             changes, as they become durable
        sink(frame, subscription.token)       keep the token with what was done, and go on there

Behind it a machine asks the mergers (feed.py), and what they say waits here (handing.py): up to
WAITING_BYTES_MAX, then nothing more is asked. A slow program lags in the journal: it costs a
cursor, and stops nobody. The token moves with the frame that is handed out, in one step, by `for`
and `async for` alike: a call that is cancelled, timed out or interrupted has taken nothing.

A subscription that is forgotten without being closed ends by itself, and so do all at the end of
the program, while there is still an interpreter for their threads.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import wait as wait_for
from types import TracebackType
from typing import Self
from uuid import uuid4

from gapless.actors.feed import Feed
from gapless.failover.effects import Emit
from gapless.failover.subscriber.tokens import encode
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.tables import html_text, time_text

JOIN_S = 2.0
"""How long the end of the program waits for a subscription's thread: it turns in milliseconds."""
ANSWER_S = 1.0
"""How long it waits for answers to questions that were asked: some times `mailboxes.ASK_MS`."""

_feeds: weakref.WeakSet[Feed] = weakref.WeakSet()


class Subscription:
    """An iterator over a job's output; also `async for`. Close it, or use it as a context."""

    def __init__(self, feed: Feed) -> None:
        """For `Job.subscribe` and `Output.subscribe`, which know what is read, and of whom."""
        self._feed = feed
        self._handing = feed.handing
        self._forgotten = weakref.finalize(self, feed.close)
        _feeds.add(feed)
        feed.start()

    @property
    def token(self) -> str:
        """Goes on behind the last frame that was handed out: give it to `subscribe(start=...)`.
        Empty before the first.
        """
        last = self._handing.last.emit
        return "" if last is None else encode(last.tokens)

    @property
    def is_reset(self) -> bool:
        """Whether the last frame replaces all that the program holds with `ve >= since`."""
        last = self._handing.last.emit
        return last is not None and last.reset

    @property
    def since(self) -> int:
        """Of a reset: from when on it replaces."""
        last = self._handing.last.emit
        return BEGIN if last is None else last.since

    # What follows hands out in one line each: an interrupt between a token that has moved and the
    # frame that it is behind would lose that frame.

    def next(self, timeout_s: float | None = None) -> Frame | None:
        """The next frame; None after so long without one. Raises `StopIteration` at the end."""
        return None if (emit := self._handing.take(timeout_s)) is None else emit.frame

    def next_emit(self, timeout_s: float | None = None) -> Emit | None:
        """The next frame with all that comes with it; as `next`."""
        return self._handing.take(timeout_s)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return self._handing.take().frame

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if (emit := await self._handing.take_async()) is None:
            raise StopAsyncIteration
        return emit.frame

    def close(self) -> None:
        """Subscribes no more: what waits is let go of, the token stays."""
        self._forgotten.detach()
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        last = self._handing.last.emit
        where = "before its first frame"
        if last is not None:
            stable = min(token.stable for token in last.tokens.values())
            where = f"stable {time_text(stable, last.frame.schema.time_unit)}"
        return f"Subscription({self._feed}; {where})"

    def _repr_html_(self) -> str:
        return html_text(repr(self))

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._feed.validate()


def subscriber_name() -> str:
    """A name that no other subscriber has, and no slot."""
    return f"s-{uuid4().hex}"


@atexit.register
def _end_all() -> None:
    """A thread that turns while the interpreter ends is aborted in the middle of Arrow or Ray. So
    are Ray's own, which bring an answer: a merger gives one within a fraction of a second.
    """
    feeds = list(_feeds)
    for feed in feeds:
        feed.close()
    for feed in feeds:
        feed.pump.join(JOIN_S)
    wait_for([call for feed in feeds for call in feed.under_way], ANSWER_S)
