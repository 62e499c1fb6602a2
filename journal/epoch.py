"""Epochs: one writer after another, each fenced off by the next.

    writer 1                                writer 2
    epochs/1                                epochs/2        made first: nobody else is the next
                                            epochs/1        marked: from now on 1 is fenced
    appends, looks at epochs/1              reads what 1 has written, to its end: the cut
    appends, finds it marked: stops         commits the cut, with epoch 2

A writer appends, then looks at its own marker, and only then says that it has written. So what it
said lies before the cut, and whatever lies behind the cut was never said. The marker is a file made
exclusively: two that want to be next get different numbers.

That there is no later marker would not be enough to know: over a network a client may remember for
a minute that a name was not there. Its own marker is there; to open and read that asks the server.
So the next writer adds a document to the markers of all epochs that may still be at work,
safely, before it reads anything; and one to its own, which says that it has.

Beside it the *live end*, overwritten after each append, says how far the epoch's live segment may
be read: never into a batch that is half there or, where appends are synced, not yet safe. A reader
looks at the live end first and for a later marker then; where there is none, the cut is not yet
made, and will be behind the live end.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import NamedTuple

from gapless.journal.disk import Disk
from gapless.journal.layout import NOBODY
from gapless.protocol.documents import Document, Fields
from gapless.protocol.envelope import decode_document, encode_document, peek_header
from gapless.protocol.errors import DecodeError, Misuse

EPOCH_MAX = 2**32 - 1
LOOKED_AT_MAX = 1000
"""Epochs in which a writer looks for its own."""
LOOKS_MAX = 3
"""At a live end that does not read: it is being overwritten right now, or is damaged."""
MARKER_BYTES_MAX = 1 << 16
"""Of what is added to a marker, and read of one: each adds a hundred bytes."""
NAMES_KEPT = 1024
"""Names of files that are kept: those of one's own epoch are asked for after each append."""
FENCED = encode_document({"fenced": True}, NOBODY, 0)
"""Behind the document of a marker: a later epoch has begun. It is there once or several times."""
HAS_FENCED = encode_document({"has fenced": True}, NOBODY, 0)
"""Behind it as well: the claimant of this epoch has marked, safely, all that may be at work before
it. The next writer has to mark this one alone, or else each of many that claim, and die before they
commit, would write to the markers of all before it.
"""
_LIVE_END = struct.Struct("<QQ")
_SUMMED_LIVE_END = struct.Struct("<QQI")


class LiveEnd(NamedTuple):
    """How far the live segment of an epoch may be read."""

    number: int
    """Of the segment, among those of the epoch."""
    end: int


@lru_cache(NAMES_KEPT)
def marker(epoch: int) -> str:
    """The name of an epoch's marker."""
    return f"epochs/{epoch:010}"


def claim(disk: Disk, after: int, who: str, token: str, *, shared: bool = False) -> int:
    """A new epoch behind `after`, of which this is the only writer.

    `shared`: of several processes of one writer, which have its token, any may ask at any time; all
    of them get the epoch that the first has claimed.
    """
    document: Document = {"who": who, "token": token}
    for epoch in range(after + 1, EPOCH_MAX):
        try:
            disk.create(marker(epoch), encode_document(document, NOBODY, epoch))
        except FileExistsError:
            if not shared or _claimant(disk, epoch)[1] != token:
                continue
        disk.sync(marker(epoch))
        if not has_fenced(disk, epoch):  # no other process of the same writer either
            _fence(disk, range(max(1, after), epoch))
            disk.append(marker(epoch), HAS_FENCED)
            disk.close(marker(epoch))
        return epoch
    raise Misuse(f"{disk} has had {EPOCH_MAX} writers")


def _fence(disk: Disk, epochs: range) -> None:
    """Marks the epochs that a new one follows: the last that has committed, and those that were
    claimed behind it, back to one whose claimant has done the same. A claimant of one of them may
    have died before it had marked the others.
    """
    for epoch in reversed(epochs):
        name = marker(epoch)
        if disk.size(name) <= MARKER_BYTES_MAX - len(FENCED):
            disk.append(name, FENCED)  # whether it is there nobody is asked: see above
        disk.sync(name)  # what another has added, and may have died before it was safe, too
        disk.close(name)
        if has_fenced(disk, epoch):
            return


def has_fenced(disk: Disk, epoch: int) -> bool:
    """Whether the claimant of an epoch has marked those before it."""
    return _says(disk, epoch, HAS_FENCED)


def is_fenced(disk: Disk, epoch: int) -> bool:
    """Whether a later epoch has begun. Epochs are numbered without gaps, so most often the next
    marker tells; that there is none is no proof (see above), that one's own is not marked is.
    """
    return disk.exists(marker(epoch + 1)) or is_marked(disk, epoch)


def is_marked(disk: Disk, epoch: int) -> bool:
    """Whether the next writer has marked an epoch."""
    return _says(disk, epoch, FENCED)


def _says(disk: Disk, epoch: int, what: bytes) -> bool:
    return what in disk.read(marker(epoch), 0, MARKER_BYTES_MAX)


def is_claimed(disk: Disk, epoch: int, token: str) -> bool:
    """Whether the marker that a writer has made is still there, and not another writer's: people
    remove a journal, and make a new one, while an old writer is at work. A damaged one counts.
    """
    return disk.exists(marker(epoch)) and _claimant(disk, epoch)[1] in (token, "")


def claimed_by(disk: Disk, epoch: int) -> str:
    """Who has made an epoch's marker, as far as the marker says."""
    return _claimant(disk, epoch)[0]


def epoch_of(disk: Disk, token: str, newest: int) -> int | None:
    """The epoch that a writer has claimed before, in another process of its own; None where it has
    not. Looks at the last ones: one further behind is fenced many times over.
    """
    while disk.exists(marker(newest + 1)):
        newest += 1
    for epoch in range(newest, max(0, newest - LOOKED_AT_MAX), -1):
        if _claimant(disk, epoch)[1] == token:
            return epoch
    return None


def _claimant(disk: Disk, epoch: int) -> tuple[str, str]:
    data = disk.read(marker(epoch), 0, MARKER_BYTES_MAX)
    if not data:  # or it is not known here yet that it is there
        return "another writer", ""
    try:
        fields = Fields(document_of(data), "epoch")
        return fields.take("who", str), fields.take("token", str)
    except DecodeError:
        return "a writer that died while it took over", ""


def document_of(data: bytes) -> Document:
    """What a marker says of its writer, whether it is marked or not. Raises `DecodeError`."""
    return decode_document(data[: peek_header(data).envelope_bytes]).document


def check_marker(data: bytes) -> None:
    """Raises `DecodeError` unless all of a marker reads: of its writer, and that it is marked."""
    at = 0
    while at < len(data) or not at:
        end = at + peek_header(data, at).envelope_bytes
        decode_document(data[at:end])
        at = end


@lru_cache(NAMES_KEPT)
def live_end_name(epoch: int) -> str:
    """The name of the file that has an epoch's live end."""
    return f"live/{epoch:010}"


def put_live_end(disk: Disk, epoch: int, live_end: LiveEnd) -> None:
    """Lets readers read so far."""
    data = _LIVE_END.pack(*live_end)
    disk.put(live_end_name(epoch), _SUMMED_LIVE_END.pack(*live_end, zlib.crc32(data)))


def read_live_end(disk: Disk, epoch: int) -> LiveEnd | None:
    """How far readers may read; None where nothing says."""
    for _ in range(LOOKS_MAX):
        data = disk.read(live_end_name(epoch), 0, _SUMMED_LIVE_END.size)
        if len(data) < _SUMMED_LIVE_END.size:
            return None
        number, end, crc = _SUMMED_LIVE_END.unpack(data)
        if zlib.crc32(data[: _LIVE_END.size]) == crc:
            return LiveEnd(number, end)
    return None
