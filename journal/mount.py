"""What a mount promises to a journal: pure, from the system's own words (/proc/self/mountinfo).

    612 28 0:61 / /data rw,relatime - nfs4 nas:/data rw,vers=4.2,soft,nocto,local_lock=none
                                           kind       options: soft and nocto are objected to

journal/disk.py reads the text; `gapless doctor` says what is wrong (docs/journal.md has why).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

WRITES_BACK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.glusterfs"})
"""Kinds whose clients keep what was written in their own memory, where no other machine sees it,
until they are told to send it."""
NOTES_BLOCKS = frozenset({"ext3", "ext4", "xfs"})
"""Kinds that note each new block of a file before a sync of it returns, and write over one in its
place. Those that write elsewhere (btrfs, zfs) gain nothing by blocks that are there."""
NFS = frozenset({"nfs", "nfs4"})
OBJECT_STORES = re.compile(
    r"fuse\.(s3fs|goofys|geesefs|gcsfuse|rclone|mount(point)?-s3|blobfuse2?)"
)
"""They look like file systems, and have no hard links."""
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One mounted file system."""

    point: str
    """Where."""
    kind: str
    source: str
    options: Mapping[str, str]
    """Those of the mount and those of its file system; without a value: ""."""

    @property
    def writes_back(self) -> bool:
        """Whether what was appended has to be sent before others see it."""
        return self.kind in WRITES_BACK

    @property
    def notes_blocks(self) -> bool:
        """Whether a sync is faster where what was appended lies in blocks that were there."""
        return self.kind in NOTES_BLOCKS


def mounts(text: str) -> list[Mount]:
    """All that are mounted, in their order. Lines of another form are no mounts."""
    found = []
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        fields, behind = head.split(" "), tail.split(" ")
        if separator and len(fields) >= 6 and len(behind) >= 3:
            options = dict(_option(o) for o in f"{fields[5]},{behind[2]}".split(","))
            found.append(Mount(_unescaped(fields[4]), behind[0], _unescaped(behind[1]), options))
    return found


def mount_of(text: str, path: str) -> Mount | None:
    """The mount that an absolute path, without links in it, lies on; None where nothing says."""
    best: Mount | None = None
    for mount in mounts(text):
        point = mount.point.rstrip("/")
        is_above = path == point or path.startswith(f"{point}/")
        if is_above and (best is None or len(mount.point) >= len(best.point)):
            best = mount  # of two at one place the later one hides the other
    return best


def objections(mount: Mount) -> list[str]:
    """What of a mount breaks a journal's promises, and what to do; nothing where all is well."""
    if OBJECT_STORES.fullmatch(mount.kind):
        return ["an object store has no hard links: choose a directory of a file system"]
    if mount.kind not in NFS:
        return []
    found, options = [], mount.options
    soft = [name for name in ("soft", "softerr", "softreval") if name in options]
    if soft:
        found.append(f"{soft[0]}: a late answer counts as a failed write; mount it hard")
    if "nocto" in options:
        found.append("nocto: a fenced writer may not notice for a minute; mount it without")
    local = options.get("local_lock", "none")
    if local != "none" or "nolock" in options:
        name = f"local_lock={local}" if "nolock" not in options else "nolock"
        found.append(f"{name}: locks hold on one machine only; mount it without")
    return found


def hints(mount: Mount) -> list[str]:
    """What would be better, and is not wrong."""
    if mount.kind in NFS and mount.options.get("lookupcache", "all") == "all":
        return ["lookupcache=positive lets readers elsewhere see new rows at once"]
    return []


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
