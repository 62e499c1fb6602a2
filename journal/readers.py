"""Registered readers: how far each has got, so that nothing it still needs is trimmed.

    readers/billing     partitions 0, 3; rows 81,200 and 79,114 are next; heard of at 17:30:05
    readers/replica-1   ...

A reader registers the position from which it would read again after a restart, and does so again
now and then: a small file, overwritten in place, in an envelope with a checksum. One that does not
read (it was being written when the machine died) stands for a reader that needs everything, until
it registers again or somebody unregisters it.

What has been trimmed before a reader registers is gone: it then gets `Trimmed`, as any other does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gapless.journal.disk import Disk
from gapless.journal.layout import FORMAT, NOBODY
from gapless.journal.partition import PARTITIONS_MAX
from gapless.protocol.documents import Document, Fields
from gapless.protocol.elements import INF
from gapless.protocol.envelope import decode_document, encode_document, peek_header
from gapless.protocol.errors import DecodeError, Misuse

FOLDER = "readers"
FILE_BYTES_MAX = 1 << 16
"""Of a position: 1,024 partitions take 12 KB."""
LOOKS_MAX = 3
"""At a file that does not read: it is being overwritten, or it stays so."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Registered(NamedTuple):
    """A reader that retention knows of."""

    name: str
    position: dict[int, int] | None
    """By partition that it reads, the offset of the next row; None where its file does not read."""
    at_ms: int
    """When it was heard of last, by its own clock; 0 where nothing says."""


def register(disk: Disk, name: str, position: Mapping[int, int], now_ms: int) -> None:
    """Keeps from now on what a reader at this position still needs."""
    path = _path(name)
    if type(now_ms) is not int or not 0 <= now_ms <= INF:
        raise Misuse(f"reader {name}: now_ms {now_ms!r}: whole milliseconds since 1970")
    for partition, offset in position.items():
        is_whole = type(partition) is int and type(offset) is int
        if not is_whole or not 0 <= partition < PARTITIONS_MAX or not 0 <= offset <= INF:
            raise Misuse(
                f"reader {name}: row {offset!r} of partition {partition!r} is not a position"
            )
    if not position:
        raise Misuse(f"reader {name}: a position of no partition")
    document: Document = {
        "format": FORMAT,
        "partitions": list(position),
        "offsets": list(position.values()),
        "at_ms": now_ms,
    }
    is_new = not disk.exists(path)
    disk.put(path, encode_document(document, NOBODY, 0))
    if is_new:  # later ones may be lost: what is kept then is more than is needed
        disk.sync(path)


def unregister(disk: Disk, name: str) -> None:
    """Keeps nothing for a reader any more."""
    path = _path(name)
    if not disk.exists(path):
        raise Misuse(f"{disk} has no registered reader {name!r}")
    disk.unlink(path)


def registered(disk: Disk) -> list[Registered]:
    """All registered readers, by name."""
    return [_registered(disk, name) for name in disk.list(FOLDER)]


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Misuse(
            f"reader {name[:100]!r}: a name has 100 characters at most, letters, digits, dots, "
            "dashes and underscores, and begins with one of the first two"
        )
    return f"{FOLDER}/{name}"


def _registered(disk: Disk, name: str) -> Registered:
    for _ in range(LOOKS_MAX):
        data = disk.read(f"{FOLDER}/{name}", 0, FILE_BYTES_MAX)
        try:
            return _decoded(name, data)
        except DecodeError:
            continue
    return Registered(name, None, 0)


def _decoded(name: str, data: bytes) -> Registered:
    whole = data[: peek_header(data).envelope_bytes]  # what follows is left of a longer one
    fields = Fields(decode_document(whole).document, "reader")
    written = fields.take("format", int)
    if written != FORMAT:
        raise DecodeError("reader.format", f"{written}: a later release made it", FORMAT)
    partitions = fields.take_list("partitions", int, PARTITIONS_MAX)
    offsets = fields.take_list("offsets", int, PARTITIONS_MAX)
    at_ms = fields.take_int("at_ms", -INF, INF)
    fields.done()
    if not partitions or len(partitions) != len(offsets):
        raise DecodeError("reader.offsets", f"{len(offsets)} of them", len(partitions))
    return Registered(name, dict(zip(partitions, offsets, strict=True)), at_ms)
