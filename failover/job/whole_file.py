"""Files that are there whole or not at all, and that no two processes can both make.

    drafts/desired-0000000007-7f3a    written, synced
              | link                  of several takers one gets the name
    desired/0000000007                whole; the draft's name goes

A death in the middle leaves a draft, which means nothing to anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gapless.journal.disk import SYNC_BYTES, Disk
from gapless.protocol.errors import Misuse

DRAFTS = "drafts"
NAME_CHARS_MAX = 100
"""Of what people name: plans. What is made of such a name may be twice as long."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_name(name: object, chars_max: int = NAME_CHARS_MAX) -> bool:
    """Whether files may have this name."""
    return type(name) is str and len(name) <= chars_max and _NAME.fullmatch(name) is not None


def check_name(what: str, name: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """The name, if files may have it: no separators, nothing that is hidden."""
    if not is_name(name, chars_max):
        raise Misuse(
            f"{what} {name!r:.{chars_max + 2}}: a name has {chars_max} characters at most, "
            "letters, digits, dots, dashes and underscores, and begins with one of the first two"
        )
    return name


def write_whole(disk: Disk, path: str, records: Iterable[bytes], token: str = "") -> None:
    """Makes a file of these bytes, durably. Raises `FileExistsError` where the name is taken, and
    `OSError` where the disk does not take the bytes; nothing is left of it then.

    `token` tells apart those who may write the same file at the same time.
    """
    draft = f"{DRAFTS}/{path.replace('/', '-')}{token and '-'}{token}"
    disk.unlink(draft)  # of one that died here before
    try:
        synced = 0
        for record in records:
            size = disk.append(draft, record)
            if size - synced >= SYNC_BYTES:
                disk.sync(draft)
                synced = size
        disk.sync(draft)
        disk.close(draft)
        disk.link(draft, path)
    finally:
        disk.unlink(draft)
    disk.sync(path)


def drop_drafts(disk: Disk) -> None:
    """Takes away what the dead have left. A process that is writing at this moment finds its draft
    gone, and fails as if its disk had refused it.
    """
    for name in disk.list(DRAFTS):
        disk.unlink(f"{DRAFTS}/{name}")
