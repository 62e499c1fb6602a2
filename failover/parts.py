"""Parts: a frame of any size as frames that are small enough to travel and to be worked on.

    1,000,000 rows, stable 17    -->    16,130   16,130   ...   16,070 stable 17

What a process does at once with what it hears has to end soon, and envelopes and messages have a
bound of their own. So whatever may grow with what lives goes from hand to hand in parts.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.protocol.frame import Frame

ROWS_MAX = 16_384
"""Of a part: what a message costs is little to so many rows, and merging them keeps those of other
inputs waiting for some milliseconds only."""
BYTES_MAX = 8 << 20
"""Of a part: wide rows make fewer of them; rows differ in length, and an envelope holds eight times
as much."""


def cut(frame: Frame, rows_max: int | None = None, bytes_max: int | None = None) -> list[Frame]:
    """The frame, cut into parts of one size; its stable comes behind the last."""
    rows_max = ROWS_MAX if rows_max is None else rows_max
    bytes_max = BYTES_MAX if bytes_max is None else bytes_max
    count = max(-(-len(frame) // rows_max), -(-_bytes_of(frame, bytes_max) // bytes_max))
    if count <= 1 or len(frame) <= 1:
        return [frame]
    rows = -(-len(frame) // count)
    starts = range(0, len(frame), rows)
    return [frame.slice(s, rows, frame.stable if s == starts[-1] else None) for s in starts]


def _bytes_of(frame: Frame, bytes_max: int) -> int:
    """Its bytes, where they may be more than that: to add them up takes a hundred times as long as
    to see that the buffers which they lie in are smaller, and nearly all frames are small.
    """
    held = frame.batch.get_total_buffer_size()
    return held if held <= bytes_max else frame.nbytes


def grouped(frames: Iterable[Frame]) -> list[list[Frame]]:
    """Frames without rows are left out, small ones stand together, up to the rows of a part: as
    many groups as messages are worth sending.
    """
    groups: list[list[Frame]] = []
    room = 0
    for frame in frames:
        if not len(frame):
            continue
        if not groups or len(frame) > room:
            groups.append([])
            room = ROWS_MAX
        groups[-1].append(frame)
        room -= len(frame)
    return groups


def joined(frames: list[Frame]) -> Frame:
    """The rows of a group as one frame without a stable."""
    rows = [frame.with_stable(None) for frame in frames]
    return rows[0] if len(rows) == 1 else Frame.concat(rows)
