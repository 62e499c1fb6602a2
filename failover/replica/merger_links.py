"""The links of a replica to its mergers, taken together: how far the slowest of them is.

             taken  durable  feedback
    m0.0       812       40        38     awaited
    m0.1       790       35        35     awaited       taken 790, durable 35, feedback 35
    m0.2         0        0         0     is back from a long absence: sent to, not waited for

Only what *awaited* mergers lack is kept for them, and at least one is awaited. A merger that is
taken away and comes back gets a new link. It may still know the sessions that the old one had, so
their numbers are not used again.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.failover.messages import Life
from gapless.failover.replica.link import CLOSED, OPEN, Link
from gapless.failover.timing import Timing
from gapless.protocol.errors import Bug


class MergerLinks:
    """Of one life of a replica, or of a producer."""

    def __init__(self, life: Life, timing: Timing) -> None:
        self.life = life
        self.by_merger: dict[str, Link] = {}
        """By merger's slot: of those that are assigned."""
        self.awaited: tuple[str, ...] = ()
        """The mergers that the tail waits for: one at least, once any are assigned."""
        self._timing = timing
        self._attempts: dict[str, int] = {}  # of links to mergers that were taken away

    def __getitem__(self, merger: str) -> Link:
        """The link to a merger that is assigned."""
        return self.by_merger[merger]

    def __iter__(self) -> Iterator[Link]:
        return iter(self.by_merger.values())

    @property
    def mergers(self) -> tuple[str, ...]:
        """The slots of the mergers that are assigned."""
        return tuple(self.by_merger)

    def assign(self, mergers: tuple[str, ...], awaited: tuple[str, ...], put_out: int) -> None:
        """Links that are there stay as they are. What was put out before, so many rows, is a part
        of what a new one begins with. None awaited: all of them are.
        """
        before = self._attempts
        before |= {merger: link.attempts for merger, link in self.by_merger.items()}
        self.awaited = awaited or mergers
        links = {}
        for merger in mergers:
            link = self.by_merger.get(merger)
            if link is None:
                link = Link(self.life, merger, self._timing, before.get(merger, 0))
                link.taken = put_out
            links[merger] = link
        self.by_merger = links

    def begin_anew(self, put_out: int) -> None:
        """Forgets every session: what comes is said in new ones."""
        self._attempts |= {merger: link.attempts for merger, link in self.by_merger.items()}
        mergers, self.by_merger = self.mergers, {}
        self.assign(mergers, self.awaited, put_out)

    def be_born_again(self, life: Life, put_out: int) -> None:
        """Goes on as another life, which all of them wait for; what is durable stays so."""
        self.life = life
        durable = {merger: link.durable for merger, link in self.by_merger.items()}
        self.by_merger = {}
        self.assign(tuple(durable), (), put_out)
        for merger, link in self.by_merger.items():
            link.durable = durable[merger]

    # -- how far they are ---------------------------------------------------------------------

    @property
    def taken(self) -> int:
        """Rows put out that the slowest of the awaited mergers has taken in."""
        return min([self.by_merger[merger].taken for merger in self.awaited])

    @property
    def durable(self) -> int:
        """What the slowest of the awaited mergers has made durable."""
        return min([self.by_merger[merger].durable for merger in self.awaited])

    @property
    def feedback(self) -> int:
        """What all awaited mergers call settled."""
        return min([self.by_merger[merger].feedback for merger in self.awaited])

    @property
    def is_attached(self) -> bool:
        """Whether some merger has taken in all that its session has begun with."""
        return any(link.acked >= 0 and link.is_whole for link in self)

    @property
    def parts_left(self) -> int:
        """Of the tails that the sessions began with, the parts that were not sent."""
        return sum(len(link.parts) for link in self)

    def has_room(self, end: int, backlog_max: int) -> bool:
        """Whether some open link to an awaited merger has fewer frames than that to send up to
        `end`, or still sends the tail that its session has begun with: a large one takes long, and
        a replica that read nothing meanwhile would be taken for one that is behind. Also where none
        is open: then a new link gets all at once.
        """
        is_open = False
        for merger in self.awaited:
            link = self.by_merger[merger]
            if link.state == OPEN:
                if link.parts or end - link.cursor < backlog_max:
                    return True
                is_open = True
        return not is_open

    def have_all(self, end: int, stable: int) -> bool:
        """Whether a link is open, and the merger behind each that is has everything up to here."""
        links = [link for link in self if link.state == OPEN]
        return bool(links) and all(
            not link.window and not link.parts and link.cursor >= end and link.told >= stable
            for link in links
        )

    def least_taken(self) -> Link:
        """Of the awaited mergers the one that has taken in the fewest rows."""
        return min((self.by_merger[m] for m in self.awaited), key=lambda link: link.taken)

    def farthest_behind(self) -> Link:
        """Of the awaited mergers whose links are open, one at least, the one to be sent most."""
        links = [self.by_merger[merger] for merger in self.awaited]
        behind = [link for link in links if link.state == OPEN]
        return min(behind, key=lambda link: (len(link.parts) == 0, link.cursor))

    # -- losing sessions ----------------------------------------------------------------------

    def leave_out(self, t: int) -> None:
        """Output that ends before t will be missing. A session that has promised it to a merger
        that is not awaited, and that lacks it, is over: the next one joins behind t.
        """
        for link in self:
            if (
                link.merger not in self.awaited
                and link.state != CLOSED
                and max(link.feedback, link.join_at) < t
            ):
                link.close("lost")

    def lose(self, merger: str) -> None:
        """The way to a merger has ended: so has the session that is open over it."""
        link = self.by_merger.get(merger)
        if link is not None and link.state != CLOSED:
            link.close("lost")

    def validate(self, end: int) -> None:
        """Raises `Bug` where an invariant is broken; the tail ends with that number."""
        if not set(self.awaited) <= self.by_merger.keys():
            raise Bug(f"{self.awaited} are awaited, and assigned are {self.mergers}")
        for link in self:
            link.validate()
            if link.cursor > end:
                raise Bug(f"{link.merger} is sent frame {link.cursor} of {end}")
