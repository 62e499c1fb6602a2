"""The flight recorder of one machine: its last events, and an image of it to begin them from.

    blocks    | 64 events | 64 events | 64 events | 64 events | recent    <- (event, now)
    images                ^ #2048                 ^ #4096                 <- (call, now, place)
                          the first that has all its events is what a record begins with

The last 4,096 events are there at any time, less where they are large, and up to 2,112 before them,
or some more where a pump takes many at once. Code and memory that are used once in a while are in
no cache, so each step and each object costs a wait for memory. Therefore a pump does no more for an
event than to append a tuple to a list; all else is done once for a block. With each new block the
oldest one goes, and an image of the machine (image.py) is made every so often, between two events.
And a message is held as the bytes of the call that it came with: to let go of its dozen objects, or
of the hundred of a frame, would take longer than all the rest.

A machine that is new is small, and one that is large has no image: there are events alone, until it
is small again. The first image is made at once, each later one as the budget says (budget.py):
images take no more than a hundredth of the thread's time, whatever the machine is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
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
BLOCK_EVENTS = 64
"""Events of a block. An image that the budget did not allow is tried again with the next block:
machines that share a thread take turns."""
BLOCKS_HELD = 24
"""Where events are large, a block ends with such a part of the bytes that may be held."""
HEARD_BYTES_MAX = 64 << 10
"""Messages of a larger call are held themselves: the bytes of all would stay as long as any."""
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


Heard = tuple[Any, bytes, int]
"""A message, the bytes of the call that it came with, and its place among the messages of that."""
NOTHING_HEARD: Heard = (None, b"", 0)
Held = tuple[Any, int] | tuple[bytes, int, int]
"""An event and its time; or, of a message, its call, its time, and its place in the call."""
Unpack = Callable[[bytes], Sequence[Any]]
"""Decodes the messages of a call."""


class Packed(NamedTuple):
    """Stands for a message of a call."""

    call: bytes
    place: int


class Block(NamedTuple):
    """Events in the order in which the machine was given them."""

    held: list[Held]
    nbytes: int
    """Of the large ones."""


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
    """Each with its time; `unpacked` has the messages for which `Packed` stands."""


class Recorder:
    """Of one machine, for one thread: the one that gives it its events."""

    def __init__(self, machine: Any, budget: Budget, large: Mapping[type, str] = LARGE) -> None:
        """`large`: by event, its field that may be large."""
        self._machine = machine
        self._budget = budget
        self.large = large
        """By event, its field that may be large: such an event is held where `has_room` says so."""
        self.recent: list[Held] = []
        """To be appended to before the machine is given the event."""
        self.full = 0
        """As soon as so many are there, `begin_block` is due, between two events."""
        self._recent_nbytes = 0
        self._blocks: deque[Block] = deque()
        self._nbytes = 0  # of those
        self._held = 0  # events in those
        self._count = 0  # events in blocks so far: the number of the first recent one
        self._images: deque[Image] = deque()
        self._image_at = 0  # the number of the event before which the next image is made
        self._since_image = 0  # bytes of blocks behind the last image
        self._why_none = "nothing has happened"
        self._bytes_max = budget.bytes_each

    def note(self, event: Any, now: int, heard: Heard = NOTHING_HEARD) -> None:
        """Holds an event. Comes before the machine is given it. `heard`: what a message came with;
        counts where it is this event. A pump does the same on its own, without a call.
        """
        if len(self.recent) >= self.full:
            self.begin_block()
        if type(event) not in self.large or self.has_room(event):
            message, call, place = heard
            self.recent.append((call, now, place) if message is event else (event, now))

    def take(self) -> Taken:
        """What is held now: from the oldest image on, and all events where there is none."""
        first = self._count - self._held
        image = next((image for image in self._images if image.number >= first), None)
        begin = 0 if image is None else image.number - first
        blocks = (*(block.held for block in self._blocks), self.recent)
        return Taken(
            type(self._machine).__name__,
            None if image is None else image.data,
            self._why_none if image is None else "",
            [
                (held[0], held[1]) if len(held) == 2 else (Packed(held[0], held[2]), held[1])
                for held in islice(chain.from_iterable(blocks), begin, None)
            ],
        )

    def begin_block(self, nbytes: int = 0) -> None:
        """Begins a block, whose first event has so many bytes, and makes the image that is due, if
        that can be. Comes between two events.
        """
        if self.recent:
            block = Block(self.recent, self._recent_nbytes)
            self.recent, self._recent_nbytes = [], 0
            self._blocks.append(block)
            self._nbytes += block.nbytes
            self._since_image += block.nbytes
            self._held += len(block.held)
            self._count += len(block.held)
        self._bytes_max = self._budget.bytes_each
        self._make_room(nbytes)
        if self._count >= self._image_at or self._since_image >= self._bytes_max // IMAGES_HELD:
            self._begin_image()
        due = self._image_at - self._count
        self.full = due if 0 < due < BLOCK_EVENTS else BLOCK_EVENTS

    def _make_room(self, nbytes: int) -> None:
        """Lets go of the oldest blocks, until so many bytes more fit, or another block, and no more
        events are there than have to be.
        """
        blocks = self._blocks
        free = self._bytes_max - max(nbytes, self._bytes_max // BLOCKS_HELD)
        while blocks and (
            self._nbytes > free or self._held - len(blocks[0].held) >= EVENTS_MAX + IMAGE_EVERY
        ):
            block = blocks.popleft()
            self._nbytes -= block.nbytes
            self._held -= len(block.held)
        while self._images and self._images[0].number < self._count - self._held:
            self._images.popleft()

    def _begin_image(self) -> None:
        """Makes an image, if that can be."""
        if self._count and not self._budget.has_time:
            self._why_none = "events come too fast for another image of the machine"
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

    def has_room(self, event: Any) -> bool:
        """Whether a large event is to be held: older ones make room for it. Comes before it is."""
        nbytes = held_bytes(getattr(event, self.large[type(event)]))
        if nbytes > min(EVENT_BYTES_MAX, self._bytes_max):
            self.begin_anew()
            return False
        if self._recent_nbytes + nbytes > self._bytes_max // BLOCKS_HELD:
            self.begin_block(nbytes)
        self._recent_nbytes += nbytes
        return True

    def begin_anew(self) -> None:
        """Drops all that is held: the next event is the first. For a machine that was changed in
        another way than by an event.
        """
        self.recent = []
        self._blocks.clear()
        self._images.clear()
        self._nbytes = self._recent_nbytes = self._held = self.full = 0
        self._image_at = self._count


def held_bytes(large: Frame | Checkpoint | None) -> int:
    """What it keeps in memory: of a frame whole buffers, as a slice keeps what it is a slice of."""
    if large is None:
        return 0
    if type(large) is Frame:
        return int(large.batch.get_total_buffer_size())
    return large.nbytes


def unpacked(events: Iterable[tuple[Any, int]], unpack: Unpack) -> Iterator[tuple[Any, int]]:
    """Each event as the machine was given it, and its time."""
    call: bytes | None = None
    messages: Sequence[Any] = ()
    for event, now in events:
        if type(event) is not Packed:
            yield event, now
            continue
        if event.call is not call:
            call, messages = event.call, unpack(event.call)
        yield messages[event.place], now
