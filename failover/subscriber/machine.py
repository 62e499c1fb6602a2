"""A subscriber: reads a job's output, and hands it to a program that may die and begin again.

    cursors --> shard_stream.py: one a shard --> finals.py, if asked for --> Emit(frame, tokens)

`deliver="changes"` hands out every change. `deliver="final"` hands out each event once, when
nothing about it can change any more. Each `Emit` has the tokens, one a shard, that go on behind it:
a program keeps them together with what it was handed, and begins again with them.

    the tokens are                          it goes on
    of the one merger that is read          with the very next row of that journal
    of another merger, or of none (a time)  with a reset: what the program holds with `ve >= since`
                                            is replaced; of `final`, what was given is left out

A reset speaks of all shards at once, so either every shard goes on exactly or none does: it begins
once each shard's table has come, and then all that follows is handed out as it comes. Rows pass at
once; the stable is the smallest of the shards'.

Each rule that a promise rests on is a method of its own: what is accepted (`Cursor.accepts`,
`opens`, `declines`), when a token's offset counts (`_exact`), what goes on behind a merged stream
(`Merging.token`), what is final (`Finals.is_final`) and was given (`Finals.was_given`), what all
shards promise (`_least`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from gapless.failover.effects import Start, Tick
from gapless.failover.machines import unhandled
from gapless.failover.messages import Declined, Delivery, Opened, Token
from gapless.failover.subscriber.cursor import Cursor
from gapless.failover.subscriber.effects import Emit, Give, SubscriberEffect, SubscriberEvent
from gapless.failover.subscriber.finals import Finals
from gapless.failover.subscriber.shard_stream import Alone, Merged, ShardStream
from gapless.failover.subscriber.tokens import check_shards
from gapless.failover.table import Deliver
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import BadData, Bug, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

TIMING = Timing()

StartAt = Literal["now", "earliest"] | int | Mapping[str, Token]


class Subscriber:
    """Reads a job's output. Pure: the shell carries out the effects."""

    CURSOR: ClassVar[type[Cursor]] = Cursor
    ALONE: ClassVar[type[Alone]] = Alone
    MERGING: ClassVar[type[Merged]] = Merged
    FINALS: ClassVar[type[Finals]] = Finals

    def __init__(
        self,
        name: str,
        mergers: Mapping[str, tuple[str, ...]],
        schema: StreamSchema,
        *,
        deliver: Deliver = "changes",
        insert_only: bool = False,
        start: StartAt = "now",
        case: Literal["r3", "r4"] = "r3",
        timing: Timing = TIMING,
    ) -> None:
        """`mergers`: by shard the slots of its mergers; all of them are read. `case`: what merges
        two of them. `insert_only`: no event of the output is ever adjusted (see finals.py), so that
        it is final earlier. `start`: a time t begins with every event with `ve >= t`, of `final`
        too: it is not a token, and nothing was given before.
        """
        _check(mergers, deliver, start)
        self.name = name
        self._schema = schema
        self._deliver = deliver
        self._start = start
        self._attempt = 0
        self._is_over = False  # it has given up
        self._cursors: dict[str, Cursor] = {}
        self._streams: dict[str, ShardStream] = {}
        self._finals: dict[str, Finals] = {}
        for shard, slots in mergers.items():
            cursors = tuple(self.CURSOR(name, slot, shard, schema, timing) for slot in slots)
            self._cursors.update(zip(slots, cursors, strict=True))
            self._streams[shard] = (
                self.ALONE(shard, cursors)
                if len(cursors) == 1
                else self.MERGING(shard, cursors, schema, case)
            )
            if deliver == "final":
                self._finals[shard] = self.FINALS(schema, insert_only=insert_only)
        self._stables = dict.fromkeys(mergers, BEGIN)
        self._stable = BEGIN
        self._tokens: dict[str, Token] = {}

    @property
    def stable(self) -> int:
        """The last stable that was handed out, in this life or before its tokens."""
        return self._stable

    @property
    def tokens(self) -> Mapping[str, Token]:
        """Where it stands: behind all that was handed out. Empty until it has begun."""
        return self._tokens

    @property
    def _resumes(self) -> bool:
        """Whether it began with tokens: what they stand for was handed out before."""
        return isinstance(self._start, Mapping)

    @property
    def has_ended(self) -> bool:
        """Whether the output has ended, and all of it was handed out."""
        return self._stable == INF

    def on(self, event: SubscriberEvent, now: int) -> list[SubscriberEffect]:
        """What follows from `event` at time `now`."""
        if self._is_over:
            return []
        try:
            match event:
                case Delivery():
                    return self._on_delivery(event, now)
                case Tick():
                    return self._on_tick(now)
                case Opened():
                    return self._on_opened(event, now)
                case Declined():
                    return self._on_declined(event, now)
                case Start():
                    return self._on_start(now)
                case _:
                    raise unhandled("a subscriber", event)
        except (BadData, SchemaError) as e:
            return self._give(Give("broken", str(e)))

    # -- rules --------------------------------------------------------------------------------

    def _exact(self, token: Token, mergers: tuple[str, ...]) -> Token | None:
        """The token at whose offset the stream of these mergers goes on, where there is one: an
        offset means something in one journal only, and final events are known by time.
        """
        is_ours = self._deliver == "changes" and mergers == (token.merger,)
        return token if is_ours else None

    def _least(self) -> int:
        """What all shards have promised."""
        return min(self._stables.values())

    # -- beginning ----------------------------------------------------------------------------

    def _on_start(self, now: int) -> list[SubscriberEffect]:
        match self._start:
            case "earliest":
                return self._go_on(self._begins(), now)
            case "now" | int() as since:
                at = None if since == "now" else int(since)
                return self._open_all(dict.fromkeys(self._streams, at), now)
        tokens = self._start
        self._tokens = dict(tokens)
        self._stables = {shard: token.stable for shard, token in tokens.items()}
        self._stable = self._least()
        exact = {
            shard: self._exact(token, tuple(c.merger for c in self._streams[shard].cursors))
            for shard, token in tokens.items()
        }
        going_on = {shard: token for shard, token in exact.items() if token is not None}
        if len(going_on) == len(exact):
            return self._go_on(going_on, now)
        if self._deliver == "final":
            return self._open_all(self._stables, now)
        return self._open_all(dict.fromkeys(tokens, self._stable), now)

    def _begins(self) -> dict[str, Token]:
        """Where the journals begin."""
        return {
            shard: Token(stream.cursors[0].merger, 0, 0, BEGIN)
            for shard, stream in self._streams.items()
        }

    def _go_on(self, tokens: Mapping[str, Token], now: int) -> list[SubscriberEffect]:
        """Begins without a reset."""
        self._tokens = dict(tokens)
        effects: list[SubscriberEffect] = []
        for shard, stream in self._streams.items():
            stream.resume(tokens[shard])
            for cursor in stream.cursors:
                if stream.stable == INF:
                    cursor.end()
                else:
                    effects.append(cursor.fetch(now))
        return effects

    def _open_all(self, since: Mapping[str, int | None], now: int) -> list[SubscriberEffect]:
        """Asks each merger for a reset, unless all is known to have ended."""
        if self._stable == INF:
            for cursor in self._cursors.values():
                cursor.end()
            return []
        attempt = self._next_attempt(now)
        return [c.open(since[c.shard], attempt, now) for c in self._cursors.values()]

    def _next_attempt(self, now: int) -> int:
        """A number that no life of this subscriber has used, as long as its clock goes on."""
        self._attempt = max(self._attempt + 1, now)
        return self._attempt

    def _on_opened(self, event: Opened, now: int) -> list[SubscriberEffect]:
        cursor = self._cursors.get(event.token.merger)
        if cursor is None or not cursor.opens(event):
            return []
        stream = self._streams[cursor.shard]
        if not stream.has_begun and stream.reset is not None:
            return []  # the other one's came first; it is asked again once all have begun
        is_news = cursor.gather(event)
        whole = cursor.whole()
        if whole is None:  # one that came twice leads to no second question
            return [cursor.ask_on(now)] if is_news else []
        if stream.has_begun:
            return self._join(stream, cursor, whole, now)
        try:
            stream.hold(cursor, whole)
        except (BadData, SchemaError):
            if len(stream.cursors) == 1:
                raise
            cursor.open_later(cursor.since, self._next_attempt(now), now)
            return []
        if all(s.reset is not None for s in self._streams.values()):
            return self._begin(now)
        return []

    def _begin(self, now: int) -> list[SubscriberEffect]:
        """The reset of all shards at once."""
        frames, since, effects = [], BEGIN, []
        for shard, stream in self._streams.items():
            its_since, frame = stream.begin()
            since = max(since, its_since)
            if self._finals:
                frame = self._finals[shard].begin(its_since, frame, resumes=self._resumes)
            frames.append(frame.with_stable(None))
            self._stables[shard] = stream.stable
            self._tokens[shard] = self._token(stream)
            effects += self._after_reset(stream, now)
        self._stable = self._least()
        rows = frames[0] if len(frames) == 1 else Frame.concat(frames)
        table = rows.with_stable(None if self._stable == BEGIN else self._stable)
        if self._finals:
            return [Emit(table, dict(self._tokens)), *effects]
        return [Emit(table, dict(self._tokens), reset=True, since=since), *effects]

    def _after_reset(self, stream: ShardStream, now: int) -> list[SubscriberEffect]:
        """Continues at the merger whose reset it was; the other one joins at its time."""
        effects: list[SubscriberEffect] = []
        for cursor in stream.cursors:
            if stream.stable == INF:
                cursor.end()
            elif cursor is stream.first:
                effects.append(cursor.fetch(now))
            elif cursor.state == "opening" and cursor.since is None:
                effects.append(cursor.open(stream.stable, self._next_attempt(now), now))
        return effects

    # -- going on -----------------------------------------------------------------------------

    def _on_delivery(self, event: Delivery, now: int) -> list[SubscriberEffect]:
        cursor = self._cursors.get(event.token.merger)
        if cursor is None or not cursor.accepts(event):
            return []
        stream = self._streams[cursor.shard]
        frame = stream.take(cursor, event)
        if frame is None:
            cursor.open_later(stream.stable, self._next_attempt(now), now)
            return []
        effects = self._pass_on(stream, frame)
        if cursor.state == "reading":
            effects.append(cursor.fetch_on(now))
        return effects

    def _join(
        self, stream: ShardStream, cursor: Cursor, event: Opened, now: int
    ) -> list[SubscriberEffect]:
        """Another merger takes part from now on."""
        try:
            frame = stream.join(cursor, event)
        except (BadData, SchemaError):
            frame = None
        if frame is None:
            cursor.open_later(stream.stable, self._next_attempt(now), now)
            return []
        ask = cursor.fetch(now)
        effects = self._pass_on(stream, frame)
        return effects if cursor.state == "ended" else [*effects, ask]

    def _pass_on(self, stream: ShardStream, frame: Frame) -> list[SubscriberEffect]:
        """Hands out the frames of a shard's stream."""
        shard = stream.shard
        if stream.stable == INF:
            for cursor in stream.cursors:
                cursor.end()
        if self._finals:
            frame = self._finals[shard].take(frame)
        if not frame:
            return []
        if frame.stable is not None:
            self._stables[shard] = frame.stable
        stable = self._least() if len(self._stables) > 1 else frame.stable
        if stable is None or stable <= self._stable:
            stable = None
        else:
            self._stable = stable
        self._tokens = {**self._tokens, shard: self._token(stream)}
        if stable is None and not len(frame):
            return []  # one shard has advanced, and all of them together have not
        return [Emit(frame if frame.stable == stable else frame.with_stable(stable), self._tokens)]

    def _token(self, stream: ShardStream) -> Token:
        """Continues behind the last frame of a shard's stream."""
        if self._finals:
            return Token("", 0, 0, self._finals[stream.shard].stable)
        return stream.token

    # -- silence, and no for an answer --------------------------------------------------------

    def _on_tick(self, now: int) -> list[SubscriberEffect]:
        effects: list[SubscriberEffect] = []
        for cursor in self._cursors.values():
            if cursor.state == "declined":
                stream = self._streams[cursor.shard]
                if self._may_join_now(stream, cursor) and cursor.is_due(now):
                    effects.append(cursor.open(stream.stable, self._next_attempt(now), now))
            elif (asked := cursor.tick(now)) is not None:
                effects.append(asked)
        return effects

    def _may_join_now(self, stream: ShardStream, cursor: Cursor) -> bool:
        """Whether the stream has got somewhere since a merger could not tell all from there on."""
        return stream.has_begun and (cursor.since is None or stream.stable > cursor.since)

    def _on_declined(self, event: Declined, now: int) -> list[SubscriberEffect]:
        cursor = self._cursors.get(event.merger)
        if cursor is None or not cursor.declines(event):
            return []
        stream = self._streams[cursor.shard]
        if cursor.state == "reading" and len(stream.cursors) > 1:
            stream.leave(cursor)
            return [cursor.open(stream.stable, self._next_attempt(now), now)]
        cursor.decline()
        if any(c.state != "declined" for c in stream.cursors):
            return []
        return self._give(Give(event.why, event.reason))

    def _give(self, error: Give) -> list[SubscriberEffect]:
        """It cannot continue: the program gets the error, and the machine does nothing more."""
        self._is_over = True
        return [error]

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if self._is_over:
            return
        for stream in self._streams.values():
            stream.validate()
        for finals in self._finals.values():
            finals.validate()
        if self._stable > self._least():
            raise Bug(f"stable {self._stable} was handed out, the shards promise {self._stables}")
        for shard, token in self._tokens.items():
            if self._streams[shard].has_begun and token.stable > self._streams[shard].stable:
                raise Bug(f"shard {shard}: the token {token} is ahead of its stream")


def _check(mergers: Mapping[str, tuple[str, ...]], deliver: str, start: object) -> None:
    slots = [slot for each in mergers.values() for slot in each]
    if not slots or not all(mergers.values()) or len(set(slots)) != len(slots) or "" in slots:
        raise Misuse(f"mergers {dict(mergers)}: of each shard one slot at least, each named once")
    if deliver not in ("changes", "final"):
        raise Misuse(f"deliver {deliver!r}: use changes or final")
    if isinstance(start, Mapping):
        check_shards(start, mergers)
    elif start not in ("now", "earliest") and (type(start) is not int or not BEGIN <= start <= INF):
        raise Misuse(f'start {start!r}: "now", "earliest", a time, or tokens that were handed out')
