r"""What is mounted here, and how a tmpfs is mounted and taken off again.

    /proc/self/mounts                         one line a mount, the latest last
    tmpfs /run/a\040disk tmpfs rw,size=64m 0 0
          at               kind  options      a space is written \040

`mount` and `umount` are the system's programs: they know what this system wants, and what they say
when they cannot is what a person can look up.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAM_S = 10.0
"""How long `mount` or `umount` may take: they wait for nobody where only this machine is asked."""
TABLE = Path("/proc/self/mounts")
_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the table."""

    kind: str
    """Of file system: "tmpfs", "cgroup2"."""
    at: Path
    options: frozenset[str]


def mounts() -> tuple[Mount, ...]:
    """All that is mounted, in the order in which it was."""
    return parsed(TABLE.read_bytes())


def parsed(table: bytes) -> tuple[Mount, ...]:
    """The mounts of a table."""
    lines = (map(_plain, line.split(b" ")) for line in table.split(b"\n") if line)
    return tuple(
        Mount(kind, Path(at), frozenset(options.split(","))) for _, at, kind, options, *_ in lines
    )


def _plain(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field))


def is_mounted(at: Path) -> bool:
    """Whether something is mounted there."""
    return any(mount.at == at for mount in mounts())


def mounted_below(directory: Path) -> tuple[Path, ...]:
    """Where something is mounted in a directory, or over it."""
    return tuple(mount.at for mount in mounts() if mount.at.is_relative_to(directory))


def mount_tmpfs(at: Path, options: str) -> str | None:
    """Mounts one; why not, where it cannot be."""
    return _said(["mount", "-t", "tmpfs", "-o", options, "gapless", os.fspath(at)])


def unmount(at: Path, *, is_lazy: bool = False) -> str | None:
    """Takes the topmost mount off a place; why not, where it cannot be. A lazy one is gone from the
    table at once, and ends when the last process has left it.
    """
    return _said(["umount", *(["-l"] if is_lazy else []), os.fspath(at)])


def why_no_tmpfs(at: Path) -> str | None:
    """Why a tmpfs cannot be mounted on a directory. Tries it, in a mount namespace that ends with
    the program that tries: nobody sees it, and nothing can be left.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "gapless", os.fspath(at)]
    return _said(["unshare", "--mount", "--", *mount])


def _said(command: list[str]) -> str | None:
    """Runs a program; None where it has done it, else what it said."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROGRAM_S,
            check=False,
        )
    except FileNotFoundError:
        return f"there is no program {command[0]} on PATH: install util-linux"
    except subprocess.TimeoutExpired:
        return f"{command[0]} has not ended within {PROGRAM_S:g} s"
    if done.returncode == 0:
        return None
    return " ".join(done.stderr.split()) or f"{command[0]} ended with {done.returncode}"
