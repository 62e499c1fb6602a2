"""Assembly: turns the deliveries of one call back into whole frames.

A frame that is too large for one message comes as several deliveries; all but the last say `more`.
"""

from __future__ import annotations

from typing import NamedTuple

from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import schema_from_wire
from gapless.sidecar.frames import from_wire


class Delivered(NamedTuple):
    """One frame of the output, and the token behind it."""

    frame: Frame
    token: str
    """Goes on behind it."""
    reset: bool = False
    """Whether it replaces all that is held with `ve >= since`."""
    since: int = BEGIN


class Assembler:
    """The deliveries of one call."""

    def __init__(self) -> None:
        self.subscribed: pb.Subscribed | None = None
        """Which sidecar answers, from the first delivery on."""
        self._schema: StreamSchema | None = None
        self._frames: list[Frame] = []

    @property
    def schema(self) -> StreamSchema:
        """Of what is delivered."""
        if self._schema is None:
            raise DecodeError("delivery", "comes before the one that says who answers")
        return self._schema

    def take(self, delivery: pb.Delivery) -> Delivered | None:
        """What has come, once it is whole. Raises `GaplessError` where it is bad."""
        if delivery.HasField("subscribed"):
            self.subscribed = delivery.subscribed
            self._schema = schema_from_wire(delivery.subscribed.schema)
        self._frames += [from_wire(frame, self.schema) for frame in delivery.frames]
        if delivery.more or not self._frames:
            return None
        frames, self._frames = self._frames, []
        *before, last = frames
        if before:
            last = Frame.concat([*(f.with_stable(None) for f in before), last])
        return Delivered(last, delivery.token, delivery.reset, delivery.since)
