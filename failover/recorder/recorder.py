"""The flight recorder of one machine: its last events, and an image of it to begin them from.

    image | 2,048 events || image | 2,048 events || image | 2,048 events     <- note(event, now)
     the oldest part goes as a whole when the newest is full

The last 4,096 events are there at any time, less where they are large, and up to 2,048 before them.
A part begins with an image of the machine (image.py), made between two events. A machine that is
new is small, and one that is large has no image: its parts hold events alone, until it is small
again. No image is made before fifty times what the last one took has passed, on the same clock: so
images take no more than a fiftieth of the pump's time, whatever the machine is.
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
SHARE_FACTOR = 50
"""Images take this part of a pump's time at most."""
SIZES: dict[type, Callable[[Any], int]] = {
    Attach: lambda event: _held(event.tail),
    CheckpointLoaded: lambda event: _of_checkpoint(event.checkpoint),
    Data: lambda event: _held(event.frame),
    Delivery: lambda event: _held(event.frame),
    Opened: lambda event: _held(event.frame),
    OutputRead: lambda event: _held(event.frame),
    PeerRead: lambda event: _held(event.frame),
    SnapshotReply: lambda event: _of_checkpoint(event.checkpoint),
    SourceRead: lambda event: _held(event.frame),
    TableRead: lambda event: _held(event.frame),
}
"""Bytes that an event keeps in memory; of all other events a few hundred."""


@dataclass(slots=True)
class Part:
    """Events in a row, and what the machine was before the first of them."""

    image: bytes | None
    why_none: str = ""
    events: list[tuple[Event, int]] = field(default_factory=list)
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
        if (
            part is None
            or len(part.events) >= PART_EVENTS_MAX
            or part.nbytes >= PART_BYTES_MAX
        ):
            part = self._begin_part()
        size = SIZES.get(type(event))
        if size is not None:
            nbytes = size(event)
            if nbytes > EVENT_BYTES_MAX:
                self._parts.clear()
                self._part = None
                return
            part.nbytes += nbytes
        part.events.append((event, now))

    def take(self) -> Taken:
        """What is held now: from the oldest image on, and all events where there is none."""
        parts = list(self._parts)
        first = next((i for i, part in enumerate(parts) if part.image is not None), None)
        if first is None:
            image, why = None, parts[-1].why_none if parts else "nothing has happened"
        else:
            image, why, parts = parts[first].image, "", parts[first:]
        events = [each for part in parts for each in part.events]
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


def _held(frame: Frame | None) -> int:
    """Whole buffers: a slice keeps all of what it is a slice of."""
    return 0 if frame is None else int(frame.batch.get_total_buffer_size())


def _of_checkpoint(checkpoint: Any) -> int:
    return 0 if checkpoint is None else int(checkpoint.nbytes)
