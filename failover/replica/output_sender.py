"""The output of a replica on its way: its tail, and the links over which its mergers get it.

    output --> tail | f3 | f4 | f5 | f6 |           trimmed by what both have made durable
                            ^         ^
                          m0.0      m0.1            each link is somewhere else in it

Who holds an `OutputSender` calls, in this order:

    begin(tail)                 once it knows what it begins with
    keep(frame) ... offer()     for what it puts out; what is not offered yet gathers
    send(now)                   for what the links have credit for: returns the messages
    hear_ack, hear_refused      for what mergers say; each tells whether there is anything to send
    resend(now), probe(now)     with each tick
    assign(mergers, awaited)    whenever its mergers are other ones

A replica holds one, and so does a producer of the sidecar. It decides nothing about reading: it
says how much waits (`is_full`, `has_room`), and its holder stops.

While there is more of the sources to be read at once, frames gather in the tail and are offered to
the links together: under load few messages say much, and without it each frame goes as it comes.

A merger that is back from a long absence is sent to at once, and *awaited* only once it qualifies:
until then nothing of the tail is kept for it, nor is anything made for it alone.

A link that lags is passed the frames in order; what was settled meanwhile is left out, as the
merger calls that settled, too. Where frames were folded that a link had still to send, it begins
anew with the fold: a merger never misses anything that it could still need.
"""

from __future__ import annotations

from collections.abc import Container

from gapless.failover import parts
from gapless.failover.effects import Send
from gapless.failover.messages import Ack, Life, Refused
from gapless.failover.replica.link import CLOSED, OPEN, Link
from gapless.failover.replica.merger_links import MergerLinks
from gapless.failover.replica.tail import Tail
from gapless.failover.replica.tail_folder import TailFolder, ToldTail
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


class OutputSender:
    """The part of a replica that mergers see."""

    def __init__(
        self,
        life: Life,
        mergers: tuple[str, ...],
        schema: StreamSchema,
        timing: Timing,
        awaited: tuple[str, ...] = (),
        *,
        folder: TailFolder | None = None,
        run_bytes_max: int | None = None,
    ) -> None:
        """`awaited` are the mergers whose durable output the tail waits for; none: all of them.

        `folder` folds large tails beside the pump; without it all is done at once.
        `run_bytes_max`: of frames that go as one, where a message has a bound.
        """
        self.schema = schema
        """Of the output."""
        self.tail = Tail(schema)
        self.links = MergerLinks(life, timing)
        self.offered = 0
        """The number, in the tail, of the next frame that still gathers with others: links send
        what is before it.
        """
        self._gathered_rows = 0
        self._gathers_since: int | None = None
        self._nothing = Frame.empty(schema)
        self._run_bytes_max = run_bytes_max
        self._folder = folder
        self.assign(mergers, awaited)

    @property
    def life(self) -> Life:
        """Whose output it is."""
        return self.links.life

    def assign(self, mergers: tuple[str, ...], awaited: tuple[str, ...] = ()) -> None:
        """Sends to these mergers from now on, and waits for those of them; none: for all."""
        self.links.assign(mergers, awaited, self.tail.put_out)

    def begin_anew(self) -> None:
        """Forgets the tail, and every session with it: what comes is said in new ones."""
        self.begin(Tail(self.schema))
        if self._folder is not None:
            self._folder.forget()
        self.links.begin_anew(self.tail.put_out)

    def be_born_again(self, life: Life) -> None:
        """Goes on as another life: all is told again."""
        self.links.be_born_again(life, self.tail.put_out)

    # -- the tail -----------------------------------------------------------------------------

    def begin(self, tail: Tail) -> None:
        """Begins with what another life has put out."""
        self.tail = tail
        self.offered = self._gathered_rows = 0

    def keep(self, frame: Frame) -> None:
        """Takes the next frame of the output, which says something."""
        for part in parts.cut(frame):
            self.tail.add(part)
        self._gathered_rows += len(frame)
        if self.tail.is_heavy:
            self.fold()

    def fold(self) -> None:
        """Folds all that no link is soon to send: beside the pump, where that takes long."""
        if self._folder is not None and (self.tail.is_folding or len(self.tail) > parts.ROWS_MAX):
            self._folder.compact(self.tail, self._kept_from())
        else:
            self.tail.compact(self._kept_from())

    def make_room(self, rows_max: int) -> None:
        """Folds a full tail as soon as that may leave fewer rows: nothing comes any more that would
        have it folded, and what is settled may lie behind an event that never ends.
        """
        if self.is_full(rows_max) and self.tail.since > self.tail.folded_since:
            self.fold()

    def trim(self) -> None:
        """Forgets what the awaited mergers have made durable."""
        self.tail.trim(self.trim_to())

    def _kept_from(self) -> int:
        """The first frame that some link is soon to send."""
        kept = end = self.tail.end
        for link in self.links:
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
        return self.tail.put_out - self.links.taken

    def is_full(self, rows_max: int) -> bool:
        """Whether too much waits for a merger. What lives does not count: a tail is as large as
        the answer is. Nor does what was put out and has ended: that is folded away.
        """
        return len(self.tail) >= rows_max and self.pending_rows >= rows_max

    def waits_for(self, rows_max: int) -> str:
        """Which merger keeps its holder from reading, and how; empty where none does."""
        if self.is_full(rows_max):
            slowest = self.links.least_taken()
            waits = f"{self.pending_rows} rows of output, {rows_max} at most"
        elif not self.has_room:
            slowest = self.links.farthest_behind()
            waits = "all that may be on the way to it"
        else:
            return ""
        how = "throttles" if slowest.is_throttled else f"is {slowest.state}"
        return f"{slowest.merger} has not taken in {waits}; it {how}"

    def trim_to(self) -> int:
        """What the slowest of the awaited mergers has made durable."""
        return self.links.durable

    def forward_to(self) -> int:
        """What all awaited mergers call settled."""
        return self.links.feedback

    @property
    def has_room(self) -> bool:
        """Whether some awaited merger that can be reached has been sent nearly all."""
        return self.links.has_room(self.offered, BACKLOG_FRAMES_MAX)

    @property
    def all_acked(self) -> bool:
        """Whether some merger can be reached, and each that can has everything."""
        return self.links.have_all(self.tail.end, self.tail.stable)

    # -- sending ------------------------------------------------------------------------------

    def retell(self) -> list[Frame]:
        """All output that a merger may lack, one frame at least: folded, where that is work of a
        moment; else as it was put out.
        """
        if len(self.tail) <= parts.ROWS_MAX or self.tail.is_torn:
            return parts.cut(self.tail.fold())
        return self.tail.frames()

    def _tell(self) -> ToldTail | None:
        """What a session begins with; None where that is yet to be made."""
        tail, folder = self.tail, self._folder
        if folder is not None:
            if folder.told is not None:
                return folder.told
            if folder.takes_long(tail):
                folder.make(tail)
                return None
        return ToldTail(tail.since, self.retell(), tail.end, tail.put_out)

    def may_gather(self, now: int) -> bool:
        """Whether what was put out may wait for more to go with it."""
        if self._gathers_since is None:
            self._gathers_since = now
        return (
            self.tail.end - self.offered < GATHER_FRAMES_MAX
            and self._gathered_rows < GATHER_ROWS_MAX
            and now - self._gathers_since < GATHER_MS
        )

    @property
    def gathers(self) -> bool:
        """Whether something waits for more to go with it."""
        return self._gathers_since is not None

    def offer(self) -> None:
        """What has gathered is sent from now on."""
        self.offered = self.tail.end
        self._gathered_rows = 0
        self._gathers_since = None

    def send(self, now: int, to: Container[str] | None = None) -> list[Send]:
        """What the links have credit for, of what is offered; a closed one attaches first. `to`:
        the mergers that can be reached; None: all.
        """
        effects: list[Send] = []
        end, stable = self.tail.end, self.tail.stable
        for link in self.links:
            has_news = link.cursor != end or link.told < stable or link.parts or link.state != OPEN
            if has_news and (to is None or link.merger in to):
                effects += self._send_over(link, now)
        return effects

    def _may_send(self, link: Link) -> bool:
        """Whether a link has credit."""
        return link.state == OPEN and len(link.window) < link.credits

    def _send_over(self, link: Link, now: int) -> list[Send]:
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
        rows_max = RUN_ROWS_MAX
        if self._run_bytes_max is not None:
            rows_max = tail.rows_within(at, RUN_ROWS_MAX, self._run_bytes_max, KEPT_FRAMES_MAX)
        frame, link.cursor = tail.run(at, rows_max, link.skipped)
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

    def resend(self, now: int) -> list[Send]:
        """What was sent and has not been acked for too long."""
        effects: list[Send] = []
        for link in self.links:
            effects += link.resend(now) or link.ask(self._nothing, now)
        return effects

    def probe(self, now: int) -> list[Send]:
        """Over links where nothing happens: whether the session is still there."""
        return [
            link.send(self._nothing, now, link.taken)
            for link in self.links
            if link.wants_probe(now)
        ]

    # -- hearing ------------------------------------------------------------------------------

    def _takes_ack(self, link: Link, ack: Ack) -> bool:
        """Whether it is of the life of the merger that this session is with."""
        return link.epoch is None or ack.epoch == link.epoch

    def hear_ack(self, ack: Ack, now: int) -> bool:
        """Whether the ack says anything."""
        link = self.links.by_merger.get(ack.session.merger)
        if link is None or ack.session != link.session or link.state == CLOSED:
            return False
        if self._takes_ack(link, ack) and ack.sequence <= link.sent:
            link.hear(ack, now)
            self.trim()
        elif link.epoch is None or ack.epoch >= link.epoch:
            link.close("lost")  # who says so cannot know what we have sent
        return True

    def hear_refused(self, event: Refused) -> bool:
        """Whether a session has ended with it."""
        link = self.links.by_merger.get(event.session.merger)
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
        self.links.validate(self.tail.end)
