"""The file system of a directory: whether what journals and jobs stand on holds there."""

from __future__ import annotations

from pathlib import Path

from gapless.doctor.findings import CannotLook, Verdict
from gapless.journal.disk import mountinfo
from gapless.journal.mount import Mount, hints, mount_of, objections


def mounted(directory: str) -> Mount:
    """The mount that a directory is on, or would be."""
    text = mountinfo()
    found = None if text is None else mount_of(text, str(Path(directory).resolve()))
    if found is None:
        raise CannotLook(
            f"nothing says what {directory} is mounted as",
            "on a network file system see docs/journal.md for the options that it needs",
        )
    return found


def judge_mount(mount: Mount) -> Verdict:
    """Whether a journal keeps its promises there."""
    what = f"{mount.kind} at {mount.point}"
    wrong = objections(mount)
    if wrong:
        return Verdict("problem", f"{what} ({mount.source})", "; ".join(wrong))
    return Verdict("ok", "; ".join([what, *hints(mount)]))
