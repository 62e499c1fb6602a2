"""Those who read a merger's output: cursors on its journal, and those that ask for a table first.

    Fetch(token) --news--> ReadOutput --> OutputRead(frame) --> Delivery(frame, token behind it)
        |  ^                                  | nothing new
        v  '--- Appended: there is more ------|
      waiting <-------------------------------'

    Open(since) --> openings.py --> ReadTable --> TableRead --> Opened, in parts

A subscriber never pushes back: it asks, is answered or waits, and asks again when it has heard
nothing for a while. So nothing is kept of subscribers that do not wait, an answer that comes for
nobody is dropped, and what is asked again while it is being read is not read again.

A merger that runs has this, and so has the output of a job that is over (actors/stored.py): one
that nobody writes is answered for in the same words.
"""

from __future__ import annotations

from gapless.failover.effects import Send
from gapless.failover.machines import unhandled
from gapless.failover.merger.effects import (
    MergerEffect,
    OutputRead,
    ReadOutput,
    ReadRefused,
    TableRead,
)
from gapless.failover.merger.openings import Openings
from gapless.failover.messages import Declined, Delivery, Fetch, Open, Token, Why
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug

SUBSCRIBERS_MAX = 1024
"""Subscribers that wait, or are read for, at once; others are not answered, and ask again."""
UNSEEN = -1
"""For the offset of the end, where nobody knows it: no token stands there, so the journal is always
asked."""

ReaderEvent = Fetch | Open | OutputRead | TableRead | ReadRefused
"""Questions of subscribers, and what the journal answers."""


class Readers:
    """The subscribers of one life of a merger, or of an output that has none any more."""

    def __init__(self, slot: str, epoch: int) -> None:
        self._slot = slot
        self._epoch = epoch
        self._waiting: dict[str, Token] = {}  # at the end of the output
        self._reading: dict[str, Token] = {}
        self._next: dict[str, Token] = {}  # what is asked by whom another place is being read for
        self._openings = Openings(SUBSCRIBERS_MAX)

    def on(
        self, event: ReaderEvent, offset: int, durable_stable: int, now: int
    ) -> list[MergerEffect]:
        """What follows from a question or from an answer of the journal. The output is durable up
        to this offset, and stable there up to this time.
        """
        match event:
            case Fetch():
                return self._fetch(event, offset, durable_stable)
            case OutputRead():
                return self.was_read(event)
            case Open():
                return self._open(event, durable_stable, now)
            case TableRead():  # another one may have its turn then
                return self._table_read(event, now) + self.go_on(durable_stable, now)
            case ReadRefused():
                return self._refused(event) + self.go_on(durable_stable, now)
            case _:
                raise unhandled("the readers of a merger", event)

    # -- rules --------------------------------------------------------------------------------

    def is_ours(self, token: Token) -> bool:
        """Whether a token's offset means anything in this journal."""
        return token.merger == self._slot

    def has_news(self, token: Token, offset: int, durable_stable: int) -> bool:
        """Whether there may be something to deliver behind a token. A token from behind the end
        goes to the journal, too, which knows best whether it ever was there.
        """
        return token.offset != offset or token.stable < durable_stable

    # -- cursors ------------------------------------------------------------------------------

    def _fetch(self, event: Fetch, offset: int, durable_stable: int) -> list[MergerEffect]:
        """It asks for what is behind a token: what was handed out to it before has come."""
        token = event.token
        self._openings.let_go(event.subscriber)
        if not self.is_ours(token):
            return [self._elsewhere(event)]
        if self.has_news(token, offset, durable_stable):
            return self.read(event.subscriber, token)
        self.wait(event.subscriber, token)
        return []

    def read(self, subscriber: str, token: Token) -> list[MergerEffect]:
        """There is something behind its token, or something wrong with it: the journal says. One
        read is under way for each; of what it asks meanwhile the last counts.
        """
        self._waiting.pop(subscriber, None)
        under_way = self._reading.get(subscriber)
        if under_way is not None:
            self._next.pop(subscriber, None)
            if token != under_way:
                self._next[subscriber] = token
            return []
        if not _has_room(self._reading, subscriber):
            return []
        self._reading[subscriber] = token
        return [ReadOutput(subscriber, token)]

    def wait(self, subscriber: str, token: Token) -> None:
        """There is nothing behind its token yet."""
        if _has_room(self._waiting, subscriber):
            self._waiting[subscriber] = token

    def was_read(self, event: OutputRead) -> list[MergerEffect]:
        """Delivers what the journal gave."""
        token = self._reading.get(event.subscriber)
        if token is None or token.offset != event.after:
            return []
        del self._reading[event.subscriber]
        if event.subscriber in self._next:  # it has asked for something else meanwhile
            return self.read(event.subscriber, self._next.pop(event.subscriber))
        frame = event.frame
        if frame is None:
            self.wait(event.subscriber, token)
            return []
        stable = token.stable if frame.stable is None else max(token.stable, frame.stable)
        after = Token(self._slot, self._epoch, token.offset + len(frame), stable)
        return [Send(event.subscriber, Delivery(token.offset, frame, after))]

    def wake(self) -> list[MergerEffect]:
        """More is durable: all that wait are read for."""
        if not self._waiting:
            return []
        waiting, self._waiting = self._waiting, {}
        return [e for subscriber, token in waiting.items() for e in self.read(subscriber, token)]

    # -- tables -------------------------------------------------------------------------------

    def _open(self, event: Open, durable_stable: int, now: int) -> list[MergerEffect]:
        """Asks for a table as soon as the output is durably stable up to the time that it is to
        begin at, by default that stable; a part of one that is handed out goes at once.
        """
        if (opened := self._openings.part(event, now)) is not None:
            return [Send(event.subscriber, opened)]
        since = durable_stable if event.since is None else event.since
        return self._openings.ask(event, since, durable_stable, now)

    def go_on(self, durable_stable: int, now: int) -> list[MergerEffect]:
        """The output is durably stable up to here, and some time has passed."""
        return self._openings.go_on(durable_stable, now)

    def _table_read(self, event: TableRead, now: int) -> list[MergerEffect]:
        """Hands a table out, to those that still wait for it."""
        stable = BEGIN if event.frame.stable is None else event.frame.stable
        token = Token(self._slot, self._epoch, event.offset, stable)
        opened = self._openings.hand_out(event, token, now)
        return [] if opened is None else [Send(event.subscriber, opened)]

    # -- neither ------------------------------------------------------------------------------

    def _refused(self, event: ReadRefused) -> list[MergerEffect]:
        """The journal cannot answer the question."""
        if isinstance(event.asked, Token):
            if self._reading.get(event.subscriber) != event.asked:
                return []
            del self._reading[event.subscriber]
            if event.subscriber in self._next:
                return self.read(event.subscriber, self._next.pop(event.subscriber))
        elif not self._openings.is_answered(event, event.asked):
            return []
        return [self.decline(event.subscriber, event.asked, event.why, event.reason)]

    def decline(self, subscriber: str, asked: Token | int, why: Why, reason: str) -> Send:
        """It is not answered here, now or ever."""
        return Send(subscriber, Declined(self._slot, asked, why, reason))

    def _elsewhere(self, event: Fetch) -> Send:
        """The token is of another journal: an offset of that one means nothing in this."""
        return self.decline(
            event.subscriber,
            event.token,
            "elsewhere",
            f"the token is of {event.token.merger or 'no merger'}, and this is {self._slot}: open "
            f"the output at its stable {event.token.stable} instead",
        )

    @property
    def waiting(self) -> int:
        """How many subscribers wait for something."""
        return len({*self._waiting, *self._reading} | self._openings.subscribers)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for held in (self._waiting, self._reading):
            if len(held) > SUBSCRIBERS_MAX:
                raise Bug(f"{len(held)} subscribers wait")
        if not self._next.keys() <= self._reading.keys():
            raise Bug(f"{self._next} is asked, and nothing is read for those")
        self._openings.validate()


def _has_room(held: dict[str, Token], subscriber: str) -> bool:
    return len(held) < SUBSCRIBERS_MAX or subscriber in held
