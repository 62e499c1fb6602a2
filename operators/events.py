"""Events as a table of a snapshot: inserts, in the form of a frame."""

from __future__ import annotations

from gapless.operators.state import State, table
from gapless.protocol.errors import DecodeError, FrameError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


def events_of(state: State, name: str, schema: StreamSchema) -> Frame:
    """The events that a snapshot has under this name: what was the batch of a frame of inserts."""
    try:
        frame = Frame(table(state, name, schema.arrow), None, schema)
    except FrameError as e:
        raise DecodeError(f"snapshot.{name}", str(e), "inserts") from None
    if not frame.insert_only:
        raise DecodeError(f"snapshot.{name}", "has adjusts", "inserts")
    return frame
