"""Where flight records lie: files of one folder, each whole or not there, the oldest of many gone.

    DIR/records/1763563440123-r0.1-1.4        milliseconds since 1970, slot, incarnation
    DIR/records/1763563440123-talkers-3.1     of a sidecar: stream, life of its merger

All records of a job, or of a sidecar, share the folder and its bounds, so one that raises alarms
for weeks keeps what it was like lately.
"""

from __future__ import annotations

from gapless.failover.job.whole_file import write_whole
from gapless.journal.disk import Disk

FOLDER = "records"
"""In a job's directory, or a sidecar's."""
RECORDS_MAX = 32
"""Files in it: what led to the last alarms of a day."""
FOLDER_BYTES_MAX = 256 << 20
"""Of all of them: ten large ones, or hundreds of the usual size."""


def write_record(disk: Disk, life: str, data: bytes, token: str, wall_ms: int) -> str:
    """Writes a record to a folder's `records/`, whole or not at all, and takes the oldest away that
    are beyond the bounds; its name.
    """
    path = f"{FOLDER}/{wall_ms:013d}-{life.replace('/', '-')}"
    _make_room(disk, len(data))
    write_whole(disk, path, [data], token)
    return path


def _make_room(disk: Disk, nbytes: int) -> None:
    names = sorted(disk.list(FOLDER))
    sizes = [disk.size(f"{FOLDER}/{name}") for name in names]
    total = sum(sizes) + nbytes
    for count, (name, size) in enumerate(zip(names, sizes, strict=True)):
        if len(names) - count < RECORDS_MAX and total <= FOLDER_BYTES_MAX:
            return
        disk.unlink(f"{FOLDER}/{name}")
        total -= size
