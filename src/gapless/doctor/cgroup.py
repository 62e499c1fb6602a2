"""What a container may use, where the machine itself has more.

Inside a container the limits of its control group are mounted at `/sys/fs/cgroup`; version 2 and
version 1 name the files differently. Outside of one the files are missing, or say "no limit".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")

UNLIMITED_BYTES = 2**60
"""Version 1 writes the largest page-aligned int64 where there is no limit."""


@dataclass(frozen=True)
class MemoryLimit:
    """A memory limit and how much of it is taken by what cannot be dropped at once."""

    limit_bytes: int
    used_bytes: int


def core_limit(root: Path = ROOT) -> float | None:
    """How many cores' worth of time the group gets; None: no limit."""
    quota, _, period = _text(root / "cpu.max").partition(" ")
    if not quota:
        quota = _text(root / "cpu/cpu.cfs_quota_us")
        period = _text(root / "cpu/cpu.cfs_period_us")
    if not quota.isdigit() or not period.isdigit():
        return None  # missing, "max" (version 2) or "-1" (version 1)
    return int(quota) / int(period)


def memory_limit(root: Path = ROOT) -> MemoryLimit | None:
    """The group's memory; None: no limit. Files held in memory count as free, as they are."""
    for limit, used, stat, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        limit_text, used_text = _text(root / limit), _text(root / used)
        if limit_text.isdigit() and used_text.isdigit() and int(limit_text) < UNLIMITED_BYTES:
            stats = dict(line.split(" ", 1) for line in _text(root / stat).splitlines())
            return MemoryLimit(int(limit_text), int(used_text) - int(stats.get(cache, 0)))
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
