"""The flight recorder of one machine: its last events, and an image of it to begin them from.

    image | 2,048 events || image | 2,048 events || image | 2,048 events     <- note(event, now)
     the oldest part goes as a whole when the newest is full

The last 4,096 events are there at any time, less where they are large, and up to 2,048 before them.
A part begins with an image of the machine (image.py), made between two events. A machine that is
new is small, and one that is large has no image: its parts hold events alone, until it is small
again. No image is made before a hundred times what the last one took has passed, on the same clock:
images take no more than a hundredth of the pump's time, whatever the machine is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gapless.failover.effects import (
    CheckpointLoaded,
    Event,
    OutputRead,
    PeerRead,
    SourceRead,
    TableRead,
)
from gapless.failover.messages import Attach, Data, Delivery, Opened, SnapshotReply
from gapless.failover.recorder.image import IMAGE_BYTES_MAX, NoImage, written
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.protocol.frame import Frame

EVENTS_MAX = 4096
"""The last events that are held: minutes of a machine at rest, seconds of a busy one."""
PARTS_MAX = 3
"""Two hold the last events, the third is being filled."""
PART_EVENTS_MAX = EVENTS_MAX // (PARTS_MAX - 1)
PART_BYTES_MAX = 8 << 20
"""Of frames that the events of a part keep in memory; the part ends with the event that reaches it.
"""
EVENT_BYTES_MAX = 8 << 20
"""A larger event is not held: the record begins anew behind it."""
SHARE_FACTOR = 100
"""Images take this part of a pump's time at most."""
LARGE: dict[type, str] = {
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


@dataclass(slots=True)
class Part:
    """Successive events, and what the machine was before the first of them."""

    image: bytes | None
    why_none: str = ""
    events: list[Event] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    """Of each; a list of its own, as pairs would be what collections of garbage look at."""
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a recorder held at one moment."""

    machine: str
    """Its class: Replica, Merger, Supervisor."""
    image: bytes | None
    """Of the machine before the first event; None: these are events alone."""
    why_none: str
    events: list[tuple[Event, int]]


class Recorder:
    """Of one machine, for one thread: the one that gives it its events."""

    def __init__(self, machine: Any, clock: Callable[[], int]) -> None:
        """`clock` says how long this thread has worked, in any unit."""
        self._machine = machine
        self._clock = clock
        self._parts: deque[Part] = deque(maxlen=PARTS_MAX)
        self._part: Part | None = None
        self._imaged_at = 0
        self._took = 0  # the last image, on that clock

    def note(self, event: Event, now: int) -> None:
        """Holds an event. Comes before the machine is given it."""
        part = self._part
        if part is None or len(part.events) >= PART_EVENTS_MAX or part.nbytes >= PART_BYTES_MAX:
            part = self._begin_part()
        large = LARGE.get(type(event))
        if large is not None:
            nbytes = held_bytes(getattr(event, large))
            if nbytes > EVENT_BYTES_MAX:
                self._parts.clear()
                self._part = None
                return
            part.nbytes += nbytes
        part.events.append(event)
        part.times.append(now)

    def take(self) -> Taken:
        """What is held now: from the oldest image on, and all events where there is none."""
        parts = list(self._parts)
        first = next((i for i, part in enumerate(parts) if part.image is not None), None)
        if first is None:
            image, why = None, parts[-1].why_none if parts else "nothing has happened"
        else:
            image, why, parts = parts[first].image, "", parts[first:]
        events = [each for p in parts for each in zip(p.events, p.times, strict=True)]
        return Taken(type(self._machine).__name__, image, why, events)

    def _begin_part(self) -> Part:
        image, why = self._image()
        self._part = Part(image, why)
        self._parts.append(self._part)
        return self._part

    def _image(self) -> tuple[bytes | None, str]:
        began = self._clock()
        if began - self._imaged_at < SHARE_FACTOR * self._took:
            return None, "events come too fast for another image of the machine"
        try:
            return written(self._machine, IMAGE_BYTES_MAX), ""
        except NoImage as e:
            return None, str(e)
        finally:
            self._imaged_at = self._clock()
            self._took = self._imaged_at - began


def held_bytes(large: Frame | Checkpoint | None) -> int:
    """What it keeps in memory: of a frame whole buffers, as a slice keeps what it is a slice of."""
    if large is None:
        return 0
    if type(large) is Frame:
        return int(large.batch.get_total_buffer_size())
    return large.nbytes
