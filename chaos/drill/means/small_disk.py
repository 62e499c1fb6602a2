"""A small disk: a tmpfs of a fixed size, that is full when a drill says so.

    disk = SmallDisk(ground / "disk", 64, janitor)     empty, 64 MB
    disk.fill()                                        ENOSPC, to everybody, from now on
    disk.free()                                        as much room as before

A writer there gets the error of a real disk from a real kernel, at whichever write it is. It
lies in memory and not on a disk: what it holds counts as memory of those who write it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from gapless.chaos.drill.means.janitor import Janitor
from gapless.chaos.drill.means.mounts import is_mounted, mount_tmpfs, why_no_tmpfs
from gapless.protocol.errors import JobError, Misuse

MEGABYTES_MAX = 4096
"""Of one disk: it is memory."""
FILLER = ".gapless-filler"
"""The file that takes the room."""
_CHUNK = bytes(1 << 20)


@cache
def why_not() -> str | None:
    """Why this machine cannot have one, and what to do about that; None where it can. Tried for
    real, once.
    """
    said = why_no_tmpfs(Path(tempfile.gettempdir()))
    if said is None:
        return None
    advice = "" if os.geteuid() == 0 else "; run as root"
    return f"a tmpfs cannot be mounted here: {said}{advice}"


class SmallDisk:
    """A tmpfs of a fixed size. A context manager; not for several threads."""

    def __init__(self, at: Path, megabytes: int, janitor: Janitor) -> None:
        """Mounts it. `at`: a directory that is empty, or not there yet; it is as before at the end.
        Raises `Misuse` where it cannot be.
        """
        if why := why_not():
            raise Misuse(f"no small disk: {why}")
        if not 1 <= megabytes <= MEGABYTES_MAX:
            raise Misuse(f"a small disk of {megabytes} MB: from 1 to {MEGABYTES_MAX}")
        at = _checked(at)
        self._at = at
        self._janitor = janitor
        self._promises: list[int] = []
        if not at.exists():
            self._promises.append(janitor.promise("remove", str(at)))
            at.mkdir()
        self._promises.append(janitor.promise("unmount", str(at)))
        said = mount_tmpfs(at, f"size={megabytes}m,mode=700,uid={os.getuid()},gid={os.getgid()}")
        if said is not None:
            self.close()
            raise JobError(f"no small disk at {at}: {said}")

    @property
    def at(self) -> Path:
        """Where it is."""
        return self._at

    def fill(self) -> None:
        """Takes all the room that is left; returns once nothing more fits. Room that others make
        after that is theirs, until this is called again.
        """
        if not is_mounted(self._at):
            raise Misuse(f"the small disk at {self._at} is closed")
        filler = os.open(self._at / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            while os.write(filler, _CHUNK):  # what fits of it
                continue
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise
        finally:
            os.close(filler)

    def free(self) -> None:
        """Gives the room back that `fill` has taken."""
        (self._at / FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        """Takes it away with all that it holds. Closed twice is closed."""
        while self._promises:
            self._janitor.keep(self._promises[-1])
            self._promises.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def _checked(at: Path) -> Path:
    """The place, as the table of mounts writes it."""
    at = at.absolute()
    if not at.parent.is_dir():
        raise Misuse(f"no small disk at {at}: make {at.parent} first")
    at = at.parent.resolve() / at.name
    if at.is_symlink() or (at.exists() and not at.is_dir()):
        raise Misuse(f"no small disk at {at}: that is not a directory")
    if at.exists() and any(at.iterdir()):
        raise Misuse(f"no small disk at {at}: there are files in it, which it would hide")
    return at
