"""Limits: what one sidecar takes on, each number with its reason. Settings may lower or raise them.

Whatever a peer does, one of these stops it, and only it: a producer that floods is read no faster
than its rate, one that sends too much at once is refused, a subscriber that never reads is a cursor
on the journal and keeps one delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from gapless.protocol.errors import Misuse

CREDITS = 8
"""Frames sent and not acknowledged: those of a replica's link (failover/replica/link.py)."""
LIMIT_MAX = 1 << 60
"""Of a limit's number: more means nothing."""
FRAME_BYTES_LIMIT = 1 << 30
"""Of `frame_bytes_max`: gRPC counts the bytes of a message with 32 bits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All bounds of a sidecar."""

    streams_max: int = 1_000
    """Named streams: each has a merger in memory and files on disk."""
    producers_max: int = 64
    """Attached to one stream: copies are counted in ones, each costs a column of live keys."""
    token_producers_max: int = 32
    """Of one token on one stream, also those that are away: half, so that others find a place."""
    subscribers_max: int = 1_000
    """Of one stream: as many as a merger serves (failover/merger/readers.py)."""
    calls_max: int = 4_000
    """Calls of one kind under way, of all peers together."""
    peer_calls_max: int = 2_000
    """Of these from one host: half of them, so that a peer that floods leaves others room."""
    frame_bytes_max: int = 16 << 20
    """Of one message: 65,536 rows of 256 bytes. Larger frames are cut by their sender."""
    tail_frames_max: int = 65_536
    """Of what a producer tells when it attaches, frame by frame: a thousand million rows of those
    that we send. Rows that live have no bound of their own.
    """
    state_bytes_max: int = 4 << 30
    """Of all mergers together; beyond it no more producers are taken. One merger holds its inputs
    back at 1 GiB (failover/merger/input_sessions.py).
    """
    columns_max: int = 256
    """That a subscriber names, and that a schema without Arrow has."""
    producer_bytes_per_s: int = 1 << 30
    """Of one producer; it is read no faster."""
    producer_frames_per_s: int = 20_000
    """Of one producer; it is read no faster. A frame costs a tenth of a millisecond."""
    request_bytes_max: int = 1 << 20
    """Of a call's one message that is no frame: a filter, and columns."""
    absent_s: int = 600
    """A producer that is away for longer is let go: its frames no longer count."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            most = FRAME_BYTES_LIMIT if field.name == "frame_bytes_max" else LIMIT_MAX
            if type(value) is not int or not 1 <= value <= most:
                raise Misuse(f"{field.name} = {value!r}: a whole number, 1 to {most}")
