"""The flight recorder of one machine: its last events, and an image of it to begin them from.

    ring      | event | event | event | event | event | event | event |   <- note(event, now)
    images            ^ #2048                 ^ #4096         the first that has all its events
                                                              is what a record begins with

The last 4,096 events are there at any time, less where they are large, and up to 2,048 before them.
Each new event takes the place of the oldest, so as many objects go as come: nothing piles up for
collections of garbage to look through. An image of the machine (image.py) is made between two
events, every so often. A machine that is new is small, and one that is large has no image: there
are events alone, until it is small again. The first image is made at once, each later one as the
budget says (budget.py): images take no more than a hundredth of the thread's time, whatever the
machine is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from gapless.failover.merger.effects import OutputRead, PeerRead, TableRead
from gapless.failover.messages import Attach, Data, Delivery, Opened, SnapshotReply
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.image import IMAGE_BYTES_MAX, NoImage, written
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import CheckpointLoaded, SourceRead
from gapless.protocol.frame import Frame

EVENTS_MAX = 4096
"""The last events that are held: minutes of a machine at rest, seconds of a busy one."""
IMAGE_EVERY = 2048
"""Events from one image to the next; so many more are held, to have those behind an image whole."""
IMAGE_RETRY = 64
"""Events until an image that the budget did not allow is tried again: machines that share a thread
take turns."""
IMAGES_HELD = 3
"""Where events are large, an image comes with every third of the bytes that may be held."""
IMAGE_PART = 8
"""An image is no larger than this part of those bytes."""
EVENT_BYTES_MAX = 8 << 20
"""A larger event is not held: the record begins anew behind it."""
LARGE: Mapping[type, str] = {
    Attach: "tail",
    Data: "frame",
    Delivery: "frame",
    Opened: "frame",
    OutputRead: "frame",
    PeerRead: "frame",
    SourceRead: "frame",
    TableRead: "frame",
    CheckpointLoaded: "checkpoint",
    SnapshotReply: "checkpoint",
}
"""By event, its field that may be large; any other event takes a few hundred bytes."""


class Image(NamedTuple):
    """What a machine was before an event."""

    number: int
    """That event's, of all that were noted."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """What a recorder held at one moment."""

    machine: str
    """Its class: Replica, Merger, Supervisor."""
    image: bytes | None
    """Of the machine before the first event; None: these are events alone."""
    why_none: str
    events: list[tuple[Any, int]]


class Recorder:
    """Of one machine, for one thread: the one that gives it its events."""

    def __init__(self, machine: Any, budget: Budget, large: Mapping[type, str] = LARGE) -> None:
        """`large`: by event, its field that may be large."""
        self._machine = machine
        self._budget = budget
        self._large = large
        self._events: deque[Any] = deque(maxlen=EVENTS_MAX + IMAGE_EVERY)
        self._times: deque[int] = deque(maxlen=EVENTS_MAX + IMAGE_EVERY)
        self._count = 0  # events noted: the number of the next one
        self._images: deque[Image] = deque()
        self._image_at = 0  # the number of the event before which the next image is made
        self._why_none = "nothing has happened"
        self._sizes: deque[tuple[int, int]] = deque()  # of large events: number, bytes
        self._nbytes = 0  # of those
        self._since_image = 0  # bytes of those behind the last image
        self._bytes_max = budget.bytes_each

    def note(self, event: Any, now: int) -> None:
        """Holds an event. Comes before the machine is given it."""
        if self._count >= self._image_at:
            self._begin_image()
        if type(event) in self._large and not self._holds_large(event):
            return
        self._count += 1
        self._events.append(event)
        self._times.append(now)

    def take(self) -> Taken:
        """What is held now: from the oldest image on, and all events where there is none."""
        first = self._first
        image = next((image for image in self._images if image.number >= first), None)
        begin = 0 if image is None else image.number - first
        pairs = zip(self._events, self._times, strict=True)
        return Taken(
            type(self._machine).__name__,
            None if image is None else image.data,
            self._why_none if image is None else "",
            list(islice(pairs, begin, None)),
        )

    @property
    def _first(self) -> int:
        """The number of the oldest event that is held."""
        return self._count - len(self._events)

    def _begin_image(self) -> None:
        """Makes the image that is due, if that can be."""
        self._bytes_max = self._budget.bytes_each
        self._make_room()
        while self._images and self._images[0].number < self._first:
            self._images.popleft()
        if self._count and not self._budget.has_time:
            self._why_none = "events come too fast for another image of the machine"
            self._image_at = self._count + IMAGE_RETRY
            return
        self._image_at = self._count + IMAGE_EVERY
        self._since_image = 0
        bytes_max = min(IMAGE_BYTES_MAX, self._bytes_max // IMAGE_PART)
        try:
            data = self._budget.spend(partial(written, self._machine, bytes_max))
        except NoImage as e:
            self._why_none = str(e)
        else:
            self._images.append(Image(self._count, data))
            self._why_none = "the events since its last image are too large to be held"

    def _holds_large(self, event: Any) -> bool:
        """Whether there is room for a large event: older ones make it."""
        nbytes = held_bytes(getattr(event, self._large[type(event)]))
        if nbytes > min(EVENT_BYTES_MAX, self._bytes_max):
            self.begin_anew()
            return False
        self._sizes.append((self._count, nbytes))
        self._nbytes += nbytes
        if self._nbytes > self._bytes_max:
            self._make_room()
        many = self._bytes_max // IMAGES_HELD
        if self._since_image < many <= self._since_image + nbytes:
            self._image_at = self._count + 1
        self._since_image += nbytes
        return True

    def _make_room(self) -> None:
        """Lets go of the oldest events, until the large ones among those that are left fit."""
        sizes, first = self._sizes, self._first
        while sizes and (sizes[0][0] < first or self._nbytes > self._bytes_max):
            number, nbytes = sizes.popleft()
            self._nbytes -= nbytes
            while first <= number:
                self._events.popleft()
                self._times.popleft()
                first += 1

    def begin_anew(self) -> None:
        """Drops all that is held: the next event is the first. For a machine that was changed in
        another way than by an event.
        """
        self._events.clear()
        self._times.clear()
        self._sizes.clear()
        self._images.clear()
        self._nbytes = 0
        self._image_at = self._count


def held_bytes(large: Frame | Checkpoint | None) -> int:
    """What it keeps in memory: of a frame whole buffers, as a slice keeps what it is a slice of."""
    if large is None:
        return 0
    if type(large) is Frame:
        return int(large.batch.get_total_buffer_size())
    return large.nbytes
