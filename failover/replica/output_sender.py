"""Sending: a replica's tail, and the links over which its mergers get it.

    output --> tail | f3 | f4 | f5 | f6 |           trimmed by what both have made durable
                            ^         ^
                          m0.0      m0.1            each link is somewhere else in it

While there is more of the sources to be read at once, frames gather in the tail and are offered to
the links together: under load few messages say much, and without it each frame goes as it comes.

A merger that is back from a long absence is sent to at once, and *awaited* only once it qualifies:
until then nothing of the tail is kept for it, nor is anything made for it alone.

A link that lags is passed the frames in order; what was settled meanwhile is left out, as the
merger calls that settled, too. Where frames were folded that a link had still to send, it begins
anew with the fold: a merger never misses anything that it could still need.
"""

from __future__ import annotations

from typing import NamedTuple

from gapless.failover import parts
from gapless.failover.effects import Send
from gapless.failover.messages import Ack, Life, Refused
from gapless.failover.replica.link import CLOSED, CREDITS, OPEN, Link
from gapless.failover.replica.tail import Tail
from gapless.failover.timing import Timing
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

BACKLOG_FRAMES_MAX = 4
"""Frames not yet sent over any open link until reading stops: enough to fill a link the moment that
it has credit again."""
GATHER_FRAMES_MAX = 256
"""Frames of output that gather while more of the sources is there to be read: what a message costs
is little then beside what it took to make it, also where answers are few."""
GATHER_ROWS_MAX = 16_384
"""Rows that gather: a message of so many costs more for its rows than for being one."""
GATHER_MS = 200
"""How long output gathers: a source that is read as fast as can be is behind, or soon will be."""
KEPT_FRAMES_MAX = 4 * BACKLOG_FRAMES_MAX + GATHER_FRAMES_MAX
"""A link with more unsent frames than that loses its place when the tail is folded: attaching anew
costs less then than keeping them apart."""

KEPT_ROWS_MAX = 1 << 21
"""A link that still gets the tail that its session has begun with keeps its place while no more
than so many rows wait: else a tail that is folded faster than it is sent would be begun for ever.
Twice what may wait for an awaited merger, so these always keep theirs."""

PARTS_CREDITS = 4
"""Parts of a tail on the way: so much is merged before the next frame of the leading input."""
RUN_ROWS_MAX = 65_536
"""Of frames that go as one over a link that lags: what a frame costs is nothing to them then."""


class Told(NamedTuple):
    """A tail at one moment, as a merger is told it."""

    since: int
    frames: list[Frame]
    end: int
    """The number of the frame that comes next."""
    put_out: int
    """Rows that the tail had put out."""


class Sending:
    """The part of a replica that mergers see."""

    def __init__(
        self,
        life: Life,
        mergers: tuple[str, ...],
        schema: StreamSchema,
        timing: Timing,
        awaited: tuple[str, ...] = (),
    ) -> None:
        """`awaited` are the mergers whose durable output the tail waits for; none: all of them."""
        self.life = life
        self.tail = Tail(schema)
        self.links: dict[str, Link] = {}
        """By merger's slot: of those that are assigned."""
        self.awaited = mergers
        """The mergers that the tail waits for: one at least."""
        self.offered = 0
        """The number, in the tail, of the next frame that still gathers with others: links send
        what is before it.
        """
        self._gathered_rows = 0
        self._gathers_since: int | None = None
        self._attempts: dict[str, int] = {}  # of links to mergers that were taken away
        self._timing = timing
        self._nothing = Frame.empty(schema)
        self._assign(mergers, awaited)

    @property
    def schema(self) -> StreamSchema:
        """Of the output."""
        return self._nothing.schema

    @property
    def is_attached(self) -> bool:
        """Whether some merger has taken in what it had to say when it attached."""
        return any(link.acked >= 0 and link.is_whole for link in self.links.values())

    @property
    def mergers(self) -> tuple[str, ...]:
        """The slots of the mergers that it is assigned."""
        return tuple(self.links)

    def _assign(self, mergers: tuple[str, ...], awaited: tuple[str, ...] = ()) -> None:
        """Links that are there stay as they are. A merger that comes back may still know the
        sessions that it had, so their numbers are not used again.
        """
        before = self._attempts
        before |= {merger: link.attempts for merger, link in self.links.items()}
        self.awaited = awaited or mergers
        self.links = {
            merger: self.links.get(merger) or self._link(merger, before.get(merger, 0))
            for merger in mergers
        }

    def _link(self, merger: str, attempts: int) -> Link:
        """A new one: what was put out before is a part of what it begins with."""
        link = Link(self.life, merger, self._timing, attempts)
        link.taken = self.tail.put_out
        return link

    def _unsay(self) -> None:
        """Forgets the tail, and every session with it: what comes is said in new ones."""
        self._begin_tail(Tail(self.schema))
        self._attempts |= {merger: link.attempts for merger, link in self.links.items()}
        mergers, self.links = self.mergers, {}
        self._assign(mergers, self.awaited)

    # -- the tail -----------------------------------------------------------------------------

    def _begin_tail(self, tail: Tail) -> None:
        """Begins with what another life has put out."""
        self.tail = tail
        self.offered = self._gathered_rows = 0

    def _keep(self, frame: Frame) -> None:
        """Takes the next frame of the output, which says something."""
        for part in parts.cut(frame):
            self.tail.add(part)
        self._gathered_rows += len(frame)
        if self.tail.is_heavy:
            self._fold_tail()

    def _fold_tail(self) -> None:
        """Folds all that no link is soon to send."""
        self.tail.compact(self._kept_from())

    def _kept_from(self) -> int:
        """The first frame that some link is soon to send."""
        kept = end = self.tail.end
        for link in self.links.values():
            if link.state != CLOSED and (
                end - link.cursor <= KEPT_FRAMES_MAX
                or (not link.is_whole and self.pending_rows < KEPT_ROWS_MAX)
            ):
                kept = min(kept, link.cursor)
        return kept

    @property
    def pending_rows(self) -> int:
        """Rows put out that the slowest of the awaited mergers has not taken in. What it has taken
        in and not made durable, it bounds itself.
        """
        return self.tail.put_out - min([self.links[merger].taken for merger in self.awaited])

    def _is_full(self, rows_max: int) -> bool:
        """Whether too much waits for a merger. What lives does not count: a tail is as large as
        the answer is. Nor does what was put out and has ended: that is folded away.
        """
        return len(self.tail) >= rows_max and self.pending_rows >= rows_max

    def _waits_for_merger(self, rows_max: int) -> str:
        """Which merger keeps it from reading, and how; empty where none does."""
        if self._is_full(rows_max):
            awaited = [self.links[merger] for merger in self.awaited]
            slowest = min(awaited, key=lambda link: link.taken)
            waits = f"{self.pending_rows} rows of output, {rows_max} at most"
        elif not self._has_room:
            awaited = [self.links[merger] for merger in self.awaited]
            behind = [link for link in awaited if link.state == OPEN]
            slowest = min(behind, key=lambda link: (len(link.parts) == 0, link.cursor))
            waits = "all that may be on the way to it"
        else:
            return ""
        how = "throttles" if slowest.is_throttled else f"is {slowest.state}"
        return f"{slowest.merger} has not taken in {waits}; it {how}"

    def _trim_to(self) -> int:
        """What the slowest of the awaited mergers has made durable."""
        return min([self.links[merger].durable for merger in self.awaited])

    def _forward_to(self) -> int:
        """What all awaited mergers call settled."""
        return min([self.links[merger].feedback for merger in self.awaited])

    def _leaves_out(self, t: int) -> None:
        """Output that ends before t will be missing. A session that has promised it to a merger
        that is not awaited, and that lacks it, is over: the next one joins behind t.
        """
        for link in self.links.values():
            if (
                link.merger not in self.awaited
                and link.state != CLOSED
                and max(link.feedback, link.join_at) < t
            ):
                link.close("lost")

    @property
    def _has_room(self) -> bool:
        """Whether some open link to an awaited merger has sent nearly all, or still sends the tail
        that its session has begun with: a large one takes long, and a replica that read nothing
        meanwhile would be taken for one that is behind. Also where none is open: then a
        new link gets all at once.
        """
        end, is_open = self.offered, False
        for merger in self.awaited:
            link = self.links[merger]
            if link.state == OPEN:
                if link.parts or end - link.cursor < BACKLOG_FRAMES_MAX:
                    return True
                is_open = True
        return not is_open

    @property
    def _parts_left(self) -> int:
        """Of the tails that its sessions began with, the parts that were not sent."""
        return sum(len(link.parts) for link in self.links.values())

    @property
    def _all_acked(self) -> bool:
        """Whether there is an open link, and the merger behind each has everything."""
        links = [link for link in self.links.values() if link.state == OPEN]
        return bool(links) and all(
            not link.window
            and not link.parts
            and link.cursor >= self.tail.end
            and link.told >= self.tail.stable
            for link in links
        )

    # -- sending ------------------------------------------------------------------------------

    def retell(self) -> list[Frame]:
        """All output that a merger may lack, one frame at least: folded, where that is work of a
        moment; else as it was put out.
        """
        if len(self.tail) <= parts.ROWS_MAX or self.tail.is_torn:
            return parts.cut(self.tail.fold())
        return self.tail.frames()

    def _tell(self) -> Told | None:
        """What a session begins with; None where that is yet to be made."""
        return Told(self.tail.since, self.retell(), self.tail.end, self.tail.put_out)

    def _may_gather(self, now: int) -> bool:
        """Whether what was put out may wait for more to go with it."""
        if self._gathers_since is None:
            self._gathers_since = now
        return (
            self.tail.end - self.offered < GATHER_FRAMES_MAX
            and self._gathered_rows < GATHER_ROWS_MAX
            and now - self._gathers_since < GATHER_MS
        )

    def _offer(self) -> None:
        """What has gathered is sent from now on."""
        self.offered = self.tail.end
        self._gathered_rows = 0
        self._gathers_since = None

    def _may_send(self, link: Link) -> bool:
        """Whether a link has credit."""
        return link.state == OPEN and len(link.window) < CREDITS

    def _send_over(self, link: Link, now: int) -> list[Send]:
        """What a link has credit for; a closed one attaches first."""
        tail = self.tail
        effects = self._attach(link, now) if link.state == CLOSED else []
        while self._may_send(link):
            if link.parts:
                if len(link.window) >= PARTS_CREDITS:
                    break  # a merger takes in what others say in between
                effects.append(link.send_part(now))
            elif link.cursor < self.offered and not self._has_place(link):
                link.close("lost")
                effects += self._attach(link, now)
            elif link.cursor < self.offered:
                frame = self._next(link)
                effects.append(link.send(frame, now, tail.before(link.cursor)))
            elif link.cursor >= tail.end and link.told < tail.stable:  # of a frame dropped unsent
                frame = self._nothing.with_stable(tail.stable)
                effects.append(link.send(frame, now, tail.put_out))
            else:
                break
        return effects

    def _next(self, link: Link) -> Frame:
        """The next frame; over a link that lags all that wait, as one: it then catches up however
        long a message takes.
        """
        tail, at = self.tail, link.cursor
        if tail.end - at < BACKLOG_FRAMES_MAX:
            link.cursor += 1
            return tail[at].frame
        frame, link.cursor = tail.run(at, RUN_ROWS_MAX, link.skipped)
        return frame

    def _has_place(self, link: Link) -> bool:
        """Whether what is next in the tail is what comes next over this link. Settled frames that
        went unsent are passed over; frames that were folded, or are taken back in part, are not.
        """
        tail = self.tail
        if link.cursor < tail.compacted:
            return False
        if link.cursor < tail.first:
            settled = max(link.feedback, link.join_at)
            if tail.lost_adjusts >= link.cursor or tail.lost_end >= settled:
                return False
            link.skipped = tail.lost_end
            link.cursor = tail.first
        return link.cursor == tail.end or tail[link.cursor].was > link.skipped

    def _attach(self, link: Link, now: int) -> list[Send]:
        """A new session, which begins with everything that the merger may lack."""
        if not link.may_attach(now) or (told := self._tell()) is None:
            return []
        return [link.attach(told.since, told.frames, told.end, now, told.put_out)]

    def _say_again(self, now: int) -> list[Send]:
        """What was sent and has not been acked for too long."""
        effects: list[Send] = []
        for link in self.links.values():
            effects += link.resend(now) or link.ask(self._nothing, now)
        return effects

    def _probe(self, now: int) -> list[Send]:
        """Over links where nothing happens: whether the session is still there."""
        return [
            link.send(self._nothing, now, link.taken)
            for link in self.links.values()
            if link.wants_probe(now)
        ]

    # -- hearing ------------------------------------------------------------------------------

    def _takes_ack(self, link: Link, ack: Ack) -> bool:
        """Whether it is of the life of the merger that this session is with."""
        return link.epoch is None or ack.epoch == link.epoch

    def _hear_ack(self, ack: Ack, now: int) -> bool:
        """Whether the ack says anything."""
        link = self.links.get(ack.session.merger)
        if link is None or ack.session != link.session or link.state == CLOSED:
            return False
        if self._takes_ack(link, ack) and ack.sequence <= link.sent:
            link.hear(ack, now)
            self.tail.trim(self._trim_to())
        elif link.epoch is None or ack.epoch >= link.epoch:
            link.close("lost")  # who says so cannot know what we have sent
        return True

    def _hear_refused(self, event: Refused) -> bool:
        """Whether a session has ended with it."""
        link = self.links.get(event.session.merger)
        if link is None or event.session != link.session or link.state == CLOSED:
            return False
        if link.epoch is not None and event.epoch < link.epoch:
            return False  # a late word of a life of the merger that is over
        link.close("refused")
        return True

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.tail.validate()
        if self.offered > self.tail.end:
            raise Bug(f"frames before {self.offered} are offered of {self.tail.end}")
        for link in self.links.values():
            link.validate()
            if link.cursor > self.tail.end:
                raise Bug(f"{link.merger} is sent frame {link.cursor} of {self.tail.end}")
