"""A subscription: an iterator over a job's output.

    for frame in job.subscribe():             changes, as they become durable
        sink(frame, subscription.token)       store the token with the result, and resume from it

A state machine asks the mergers (feed.py), and their answers wait here (delivery.py), up to
WAITING_BYTES_MAX; then it stops asking. A slow program falls behind in the journal, which costs a
cursor and delays nobody. Token and frame advance together, in `for` and `async for` alike: a call
that is cancelled, times out or is interrupted takes nothing.

A subscription that is dropped without being closed ends by itself, and so do all at the end of the
program, while there is still an interpreter for their threads.
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
from gapless.failover.subscriber.effects import Emit
from gapless.failover.subscriber.tokens import encode
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.tables import html_text, time_text

JOIN_S = 2.0
"""How long the end of the program waits for a subscription's thread, whose turns take
milliseconds.
"""
ANSWER_S = 1.0
"""How long it waits for pending answers: a few times `mailboxes.ASK_MS`."""

_feeds: weakref.WeakSet[Feed] = weakref.WeakSet()


class Subscription:
    """An iterator over a job's output, also for `async for`. Close it, or use it in a `with`."""

    def __init__(self, feed: Feed) -> None:
        """Called by `Job.subscribe` and `Output.subscribe`, which know what to read, and from
        whom.
        """
        self._feed = feed
        self._delivery = feed.delivery
        self._forgotten = weakref.finalize(self, feed.close)
        _feeds.add(feed)
        feed.start()

    @property
    def token(self) -> str:
        """Resumes after the last frame returned: pass it to `subscribe(start=...)`. Empty before
        the first frame.
        """
        last = self._delivery.last.emit
        return "" if last is None else encode(last.tokens)

    @property
    def is_reset(self) -> bool:
        """Whether the last frame replaces everything the program holds with `ve >= since`."""
        last = self._delivery.last.emit
        return last is not None and last.reset

    @property
    def since(self) -> int:
        """After a reset: the time from which on it replaces."""
        last = self._delivery.last.emit
        return BEGIN if last is None else last.since

    # What follows hands out in one line each: an interrupt between a token that has moved and the
    # frame that it is behind would lose that frame.

    def next(self, timeout_s: float | None = None) -> Frame | None:
        """The next frame, or None after `timeout_s`. Raises `StopIteration` at the end."""
        return None if (emit := self._delivery.take(timeout_s)) is None else emit.frame

    def next_emit(self, timeout_s: float | None = None) -> Emit | None:
        """Like `next`, with everything that belongs to the frame."""
        return self._delivery.take(timeout_s)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return self._delivery.take().frame

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if (emit := await self._delivery.take_async()) is None:
            raise StopAsyncIteration
        return emit.frame

    def close(self) -> None:
        """Ends the subscription: waiting frames are dropped, the token stays."""
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
        last = self._delivery.last.emit
        where = "before its first frame"
        if last is not None:
            stable = min(token.stable for token in last.tokens.values())
            where = f"stable {time_text(stable, last.frame.schema.time_unit)}"
        return f"Subscription({self._feed}; {where})"

    def _repr_html_(self) -> str:
        return html_text(repr(self))

    def validate(self) -> None:
        """Raises `Bug` if an invariant is broken."""
        self._feed.validate()


def subscriber_name() -> str:
    """A name that no other subscriber and no slot has."""
    return f"s-{uuid4().hex}"


@atexit.register
def _end_all() -> None:
    """A thread that still runs while the interpreter exits is aborted in the middle of Arrow or
    Ray. So are Ray's own threads, which bring answers; a merger answers within a fraction of a
    second.
    """
    feeds = list(_feeds)
    for feed in feeds:
        feed.close()
    for feed in feeds:
        feed.pump.join(JOIN_S)
    wait_for([call for feed in feeds for call in feed.under_way], ANSWER_S)
