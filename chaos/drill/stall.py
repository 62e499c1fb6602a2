"""A stall of a real run: nothing advances, nobody says why, and something could.

    source rows      s  s  s  s  s  s  s       what the sources promise, at each look
    slots of shard   d  d  d  d  d  d  d       where its mergers' outputs are durable: all the same
    said                                       no alarm, no slot that is not running, no fault
                     |---------- longer than SILENT_MS --------->|

Read from the record of a drill (`chaos/judge/record.py`), when it is over. While a fault lasts or a
slot is being replaced the job may stand still: how long is judged as a pause. What is left is a job
that looks well and does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from gapless.chaos.judge.record import Record, Seen
from gapless.protocol.elements import BEGIN

SILENT_MS = 10_000
"""Longer than all waits after which machines act."""


def silent_stalls(record: Record) -> list[str]:
    """Each stall, in words; none where a run is well."""
    seen = record.seen()
    found = []
    for shard in sorted({_shard(each.who) for each in seen if _is_merger(each)}):
        found += [
            f"shard {shard} from {begin / 1000:.1f} to {end / 1000:.1f} s"
            for begin, end in _stalls(shard, seen)
        ]
    return found


def _stalls(shard: str, seen: Sequence[Seen]) -> Iterator[tuple[int, int]]:
    """From when to when outputs of a shard stood still and nothing was said of it."""
    since: int | None = None  # when it last moved, or something was said
    last, farthest, promised, was_promised, faults = 0, BEGIN, BEGIN, BEGIN, 0
    healed = Counter((each.who, each.text) for each in seen if each.kind == "heal")
    for at_ms, group in groupby(seen, key=lambda each: each.at_ms):
        excused = False
        for each in group:
            if each.kind == "fault":
                faults += healed[each.who, each.text] > 0  # else it is over at once
            elif each.kind == "heal":
                faults -= 1
            if each.kind in ("fault", "heal", "note", "whole"):
                excused = True
            elif each.kind == "source" and each.stable is not None:
                promised = each.stable
            elif each.kind == "slot" and each.who[1:].partition(".")[0] == shard:
                excused |= each.state != "running"
                if _is_merger(each) and each.stable is not None and each.stable > farthest:
                    farthest, excused = each.stable, True
        if excused or faults or since is None:
            if since is not None and last - since > SILENT_MS and was_promised != promised:
                yield since, last
            since, was_promised = at_ms, promised
        last = at_ms
    if since is not None and last - since > SILENT_MS and was_promised != promised:
        yield since, last


def _is_merger(each: Seen) -> bool:
    return each.kind == "slot" and each.who[:1] == "m" and each.stable is not None


def _shard(slot: str) -> str:
    return slot[1:].partition(".")[0]
