"""The output of one shard, from one merger exactly, or from several merged.

    m0.0 -- Delivery --> cursor --.
                                   LMerge --> one stream      goes on while one of them does
    m0.1 -- Delivery --> cursor --'

Of one merger a subscriber sees what that journal says, row by row; its token is an offset there.
Two mergers tell the same table in different words. Merged, they are one stream that is at no offset
of either; so its token is the stable alone, and resuming from it begins with a reset.

A merged stream begins with the reset of whichever merger answers first. Each other one, and each
that could not go on, joins with a reset since what the stream is stable to: it knows all that can
still change, and may act at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from gapless.failover.messages import Delivery, Opened, Token
from gapless.failover.subscriber.cursor import Cursor
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, GaplessError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class ShardStream(ABC):
    """The changes of one shard."""

    def __init__(self, shard: str, cursors: tuple[Cursor, ...]) -> None:
        self.shard = shard
        self.cursors = cursors
        self.first: Cursor | None = None
        """The cursor whose reset it begins with, from when that has come."""
        self.reset: Opened | None = None
        """That reset, until the stream begins."""
        self.has_begun = False

    @property
    @abstractmethod
    def stable(self) -> int:
        """The last stable of the stream."""

    @property
    @abstractmethod
    def token(self) -> Token:
        """Goes on behind all that came out."""

    @abstractmethod
    def resume(self, token: Token) -> None:
        """Begins without a reset, at offset and stable of a token; each cursor fetches on."""

    def hold(self, cursor: Cursor, event: Opened) -> None:
        """Keeps the reset that the stream begins with."""
        cursor.begin(event)
        self.first, self.reset = cursor, event

    @abstractmethod
    def begin(self) -> tuple[int, Frame]:
        """Begins with the reset that is held: since when, and its rows with the stable."""

    @abstractmethod
    def take(self, cursor: Cursor, event: Delivery) -> Frame | None:
        """Takes an accepted delivery: what it adds to the stream; None where it contradicts what
        that cursor has said before. Raises where nothing of this merger can be used.
        """

    @abstractmethod
    def join(self, cursor: Cursor, event: Opened) -> Frame | None:
        """Takes the reset of another cursor into a stream that has begun; as `take`."""

    @abstractmethod
    def leave(self, cursor: Cursor) -> None:
        """What a cursor has said so far is not gone on with."""

    def _held(self) -> Opened:
        if self.reset is None:
            raise Bug(f"shard {self.shard} begins, and holds no reset")
        event, self.reset, self.has_begun = self.reset, None, True
        return event

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for cursor in self.cursors:
            cursor.validate()
        if self.has_begun and self.reset is not None:
            raise Bug("a stream that has begun holds a reset")
        if not self.has_begun and any(c.state == "reading" for c in self.cursors):
            raise Bug("a cursor reads on in a stream that has not begun")


class Alone(ShardStream):
    """The output of one merger as its journal has it."""

    @property
    def stable(self) -> int:
        """The last stable of the stream."""
        return self.cursors[0].token.stable

    @property
    def token(self) -> Token:
        """An offset of the merger's journal."""
        return self.cursors[0].token

    def resume(self, token: Token) -> None:
        """Begins at an offset."""
        self.cursors[0].token = token
        self.has_begun = True

    def begin(self) -> tuple[int, Frame]:
        """The reset as it came."""
        event = self._held()
        return event.since, event.frame

    def take(self, cursor: Cursor, event: Delivery) -> Frame | None:
        """The delivery as it came."""
        cursor.check(event.frame)
        return cursor.take(event)

    def join(self, cursor: Cursor, event: Opened) -> Frame | None:
        """There is nobody to join."""
        raise Bug(f"{cursor.merger} joins the stream that is its own: {event.attempt}")

    def leave(self, cursor: Cursor) -> None:
        """What it has said is all there is."""


class Merged(ShardStream):
    """The outputs of several mergers as one."""

    def __init__(
        self,
        shard: str,
        cursors: tuple[Cursor, ...],
        schema: StreamSchema,
        case: Literal["r3", "r4"],
    ) -> None:
        super().__init__(shard, cursors)
        self._merge = LMerge(schema, case)
        self._numbers: dict[str, int] = {}  # inputs by merger

    @property
    def stable(self) -> int:
        """The last stable of the stream."""
        return self._merge.stable

    @property
    def token(self) -> Token:
        """A time: an offset of one merger says nothing of what came from the other."""
        return Token("", 0, 0, self.stable)

    def resume(self, token: Token) -> None:
        """Only from the beginning: every cursor is at offset 0 of its journal."""
        if token.offset or token.stable > BEGIN:
            raise Bug(f"a merged stream cannot go on at {token}")
        self.has_begun = True
        for cursor in self.cursors:
            self._numbers[cursor.merger] = self._merge.attach(BEGIN)

    def begin(self) -> tuple[int, Frame]:
        """The reset as it came. LMerge takes it for what has been put out, stable up to `since`,
        and then for what its first input says. Raises where no such table can be merged.
        """
        event, cursor, merge = self._held(), self.first, self._merge
        frame, since = event.frame, event.since
        try:
            merge.resume(frame.with_stable(None if since == BEGIN else since))
        except GaplessError as e:
            raise StreamViolation("the reset", str(e)) from None
        if cursor is None or self._push(cursor, since, frame) is None:
            raise StreamViolation("the reset", str(merge.detached))
        return since, frame

    def take(self, cursor: Cursor, event: Delivery) -> Frame | None:
        """What a delivery adds to what the first teller has said."""
        number = self._numbers[cursor.merger]
        out = self._merge.push(number, cursor.take(event))
        if not out and number not in self._merge.inputs:
            del self._numbers[cursor.merger]
            return None
        return out

    def join(self, cursor: Cursor, event: Opened) -> Frame | None:
        """A cursor joins with its reset."""
        cursor.begin(event)
        return self._push(cursor, event.since, event.frame)

    def _push(self, cursor: Cursor, join_at: int, frame: Frame) -> Frame | None:
        number = self._numbers[cursor.merger] = self._merge.attach(join_at)
        out = self._merge.push(number, frame)
        if number not in self._merge.inputs:
            del self._numbers[cursor.merger]
            return None
        return out

    def leave(self, cursor: Cursor) -> None:
        """Its input is detached."""
        number = self._numbers.pop(cursor.merger, None)
        if number is not None:
            self._merge.detach(number)

    @property
    def divergences(self) -> int:
        """How often the mergers have contradicted each other; the stream keeps what it said."""
        return self._merge.divergences.count

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        super().validate()
        self._merge.validate()
        if sorted(self._numbers.values()) != sorted(self._merge.inputs):
            raise Bug(f"cursors feed {self._numbers}, attached are {self._merge.inputs}")
