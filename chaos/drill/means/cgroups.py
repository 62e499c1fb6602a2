"""Control groups: what processes, and those they start, are frozen, squeezed and starved with.

    with Janitor() as janitor:
        group = Group("freezer", janitor)      <own group>/gapless-5c1f09
        group.add(pids)                        they, and whatever they start from now on
        group.freeze(); ...; group.thaw()
        group.release()                        they go back, and the group is gone

A kernel has two versions of them, often both at once. In version 1 each controller is a tree of
groups of its own; in version 2 there is one tree, and a group has the controllers that its parent
hands down. Freezing is part of version 2 itself, which is preferred: a process that is frozen there
can be killed.

A group is made as low as it can be, in this process's own one, so that whatever bounds us (a
container, a session) bounds it, too; where that hands no controller down, in the nearest one above.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Literal

from gapless.chaos.drill.means.janitor import Janitor
from gapless.chaos.drill.means.janitor_process import PREFIX, pids_of
from gapless.chaos.drill.means.mounts import mounts
from gapless.protocol.errors import JobError, Misuse

Controller = Literal["freezer", "memory", "cpu"]
Version = Literal[1, 2]

FREEZE_S, LOOK_S = 5.0, 0.005
"""How long a group may take until all in it stand still: one that waits for a disk is waited for;
and between two looks.
"""
MOVES_MAX = 100
"""Looks at a group that is being emptied: each finds what was forked during those before it."""
CPU_PERIOD_US = 100_000
"""Over which a share of a core is taken: the kernel's default."""
SHARE_MIN = 0.01
"""Of a core: the kernel grants a millisecond a period at least."""

NO_PROBLEMS: Mapping[int, str] = {}
"""That a caller has words for."""

_FILES: Mapping[tuple[Controller, Version], tuple[str, ...]] = {
    ("freezer", 1): ("freezer.state",),
    ("memory", 1): ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("cpu", 1): ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    ("freezer", 2): ("cgroup.freeze", "cgroup.events"),
    ("memory", 2): ("memory.max", "memory.current"),
    ("cpu", 2): ("cpu.max",),
}
"""What a group of a controller has; the first is written."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Where groups of one controller can be."""

    controller: Controller
    version: Version
    top: Path
    """Where it is mounted."""
    own: Path
    """This process's group in it."""

    def parents(self) -> Iterator[Path]:
        """Groups that may have one of ours below them, the nearest first."""
        for path in (self.own, *self.own.parents):
            if (
                path.is_relative_to(self.top)
                and path.is_dir()
                and not self._lacks(path, "cgroup.subtree_control")
            ):
                yield path

    def _lacks(self, path: Path, name: str) -> bool:
        if self.version == 1 or self.controller == "freezer":
            return False
        return self.controller not in (path / name).read_text().split()

    def why_not(self) -> str | None:
        """Why nothing can be had of it; None where it can. Makes a group, and takes it away."""
        if self._lacks(self.top, "cgroup.controllers"):
            return f"groups of version 2 at {self.top} have no {self.controller} controller"
        said = (
            f"no group of version 2 hands the {self.controller} controller down: as root, "
            f"echo +{self.controller} > {self.top}/cgroup.subtree_control"
        )
        for parent in self.parents():
            why = _why_not_in(parent, _FILES[self.controller, self.version])
            if why is None:
                return None
            said = why
        return said

    def parent(self) -> Path:
        """Where a group is made. Only of a tree that has no `why_not`."""
        files = _FILES[self.controller, self.version]
        return next(each for each in self.parents() if _why_not_in(each, files) is None)


@cache
def _why_not_in(parent: Path, files: tuple[str, ...]) -> str | None:
    """Why no group can be made in another; None where it can. Tries it."""
    path = parent / f"{PREFIX}try-{token_hex(8)}"
    advice = "run as root, or have the group delegated to this user (systemd: Delegate=yes)"
    try:
        path.mkdir()
    except OSError as e:
        return f"no control group can be made in {parent}: {e.strerror}; {advice}"
    try:
        needed = [path / "cgroup.procs", parent / "cgroup.procs", *(path / name for name in files)]
        for file in needed:
            if not file.exists():
                return f"a control group in {parent} has no {file.name}: this kernel lacks it"
        if not all(os.access(file, os.W_OK) for file in needed[:3]):
            return f"no process can be moved to a control group in {parent}; {advice}"
    finally:
        path.rmdir()
    return None


def trees(controller: Controller) -> tuple[Tree, ...]:
    """Where groups of a controller may be, the preferred first."""
    own = _own_groups()
    found: list[Tree] = []
    for mount in mounts():
        if mount.kind == "cgroup2":
            found.append(Tree(controller, 2, mount.at, mount.at / own.get("", "")))
        elif mount.kind == "cgroup" and controller in mount.options:
            found.append(Tree(controller, 1, mount.at, mount.at / own.get(controller, "")))
    return tuple(sorted(found, key=lambda tree: -tree.version))


def _own_groups() -> dict[str, str]:
    """By controller, "" for version 2, this process's group: its path from the top."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = "" if ".." in path else path.lstrip("/")  # above what is mounted
    return own


@cache
def _usable(controller: Controller, version: Version | None) -> tuple[Tree | None, str]:
    """The tree to use; else None, and why there is none."""
    said = (
        f"no control groups with a {controller} controller are mounted here: as root, "
        "mount -t cgroup2 none /sys/fs/cgroup"
    )
    for tree in trees(controller):
        if version in (None, tree.version):
            why = tree.why_not()
            if why is None:
                return tree, ""
            said = why
    return None, said


def why_not(controller: Controller, version: Version | None = None) -> str | None:
    """Why this machine has no groups of a controller, and what to do about that; None where it has.
    It is tried for real, once. `version`: one of the two alone.
    """
    tree, why = _usable(controller, version)
    return None if tree is not None else why


class Group:
    """One group of one controller. Not for several threads."""

    def __init__(
        self, controller: Controller, janitor: Janitor, *, version: Version | None = None
    ) -> None:
        """Made under a name nobody else has. Raises `Misuse` where it cannot be (`why_not`)."""
        tree, why = _usable(controller, version)
        if tree is None:
            raise Misuse(f"no {controller} group: {why}")
        self._controller = controller
        self._version = tree.version
        self._home = tree.own if tree.own.is_dir() else tree.top
        self._janitor = janitor
        self._path = tree.parent() / f"{PREFIX}{token_hex(8)}"
        self._promise = janitor.promise("cgroup", str(self._path))
        try:
            self._path.mkdir()
        except OSError as e:
            raise JobError(f"no {controller} group can be made: {e}") from None

    @property
    def path(self) -> Path:
        """Its directory."""
        return self._path

    @property
    def pids(self) -> list[int]:
        """The processes in it; none once it is released."""
        try:
            return pids_of(self._path)
        except FileNotFoundError:
            return []

    def add(self, pids: Iterable[int]) -> None:
        """Moves processes into it, with whatever they start from now on; those that have ended are
        passed over.
        """
        moved = list(pids)
        if not {os.getpid(), self._janitor.pid}.isdisjoint(moved):
            raise Misuse("this process and its janitor cannot be in a group: who would end it?")
        for pid in moved:
            self._move(pid, self._path)

    def freeze(self) -> None:
        """Stops all that is in it, where it stands; returns once it has. Where that takes too long
        it lets it go, and raises `JobError`.
        """
        self._needs("freezer")
        until = time.monotonic() + FREEZE_S
        self._set_frozen(True)
        while not self.is_frozen():
            if time.monotonic() >= until:
                self.thaw()
                raise JobError(f"{self._path}: does not freeze within {FREEZE_S:g} s")
            threading.Event().wait(LOOK_S)

    def thaw(self) -> None:
        """Lets it go on."""
        self._needs("freezer")
        self._set_frozen(False)

    def is_frozen(self) -> bool:
        """Whether all in it stand still."""
        self._needs("freezer")
        if self._version == 1:
            return self._read("freezer.state") == "FROZEN"
        return "frozen 1" in self._read("cgroup.events").splitlines()

    def limit_memory(self, bytes: int) -> None:  # noqa: A002  # the unit, as everywhere last
        """Bounds what it may use; the kernel kills a process in it that needs more. What a process
        had before it was added counts where it was. Swap and what the kernel uses itself are left
        alone. Raises `JobError` where more is in use than that.
        """
        self._needs("memory")
        if bytes < 1:
            raise Misuse(f"memory of {bytes} bytes: 1 or more")
        used = self.memory_used()
        problem = f"{used} bytes are in use, and the kernel cannot get them back: choose more"
        if self._version == 1:
            self._write("memory.limit_in_bytes", str(bytes), {errno.EBUSY: problem})
        elif used > bytes:  # where version 1 refuses, version 2 kills
            raise JobError(f"{self._path}: memory cannot be {bytes}: {problem}")
        else:
            self._write("memory.max", str(bytes))

    def memory_used(self) -> int:
        """Bytes in use, files in memory included."""
        self._needs("memory")
        name = "memory.usage_in_bytes" if self._version == 1 else "memory.current"
        return int(self._read(name))

    def limit_cpu(self, share: float) -> None:
        """Bounds the time it gets, all its processes together, to a share of one core."""
        self._needs("cpu")
        cores = os.cpu_count() or 1
        if not SHARE_MIN <= share <= cores:
            raise Misuse(f"a share of {share:g} cores: from {SHARE_MIN} to {cores}, all there are")
        quota_us = round(share * CPU_PERIOD_US)
        problem = {errno.EINVAL: "the group above it has less: choose a smaller share"}
        if self._version == 1:
            self._write("cpu.cfs_period_us", str(CPU_PERIOD_US), problem)
            self._write("cpu.cfs_quota_us", str(quota_us), problem)
        else:
            self._write("cpu.max", f"{quota_us} {CPU_PERIOD_US}", problem)

    def release(self) -> None:
        """Thaws it, moves its processes to this process's group, from where they came, and removes
        it. Released twice is released.
        """
        if not self._path.exists():
            return
        if self._controller == "freezer":
            self.thaw()
        for _ in range(MOVES_MAX):
            if not (inside := self.pids):
                break
            for pid in inside:
                self._move(pid, self._home)
        else:
            raise JobError(f"{self._path}: processes {self.pids} fork faster than they are moved")
        self._janitor.keep(self._promise)  # it kills every process in it even so: there is none

    # -- small things -------------------------------------------------------------------------

    def _needs(self, controller: Controller) -> None:
        if self._controller != controller:
            raise Misuse(f"this is a {self._controller} group: make one of {controller}")

    def _set_frozen(self, is_frozen: bool) -> None:
        if self._version == 1:
            self._write("freezer.state", "FROZEN" if is_frozen else "THAWED")
        else:
            self._write("cgroup.freeze", "1" if is_frozen else "0")

    def _move(self, pid: int, group: Path) -> None:
        try:
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            return  # it has ended
        except FileNotFoundError:
            raise self._released() from None
        except OSError as e:
            raise JobError(f"process {pid} cannot be moved to {group}: {e.strerror}") from None

    def _read(self, name: str) -> str:
        try:
            return (self._path / name).read_text().strip()
        except FileNotFoundError:
            raise self._released() from None

    def _write(self, name: str, value: str, problems: Mapping[int, str] = NO_PROBLEMS) -> None:
        """`problems`: by error number, what is to be said of it."""
        try:
            (self._path / name).write_text(value)
        except FileNotFoundError:
            raise self._released() from None
        except OSError as e:
            said = problems.get(e.errno or 0, e.strerror)
            raise JobError(f"{self._path}: {name} cannot be {value}: {said}") from None

    def _released(self) -> Misuse:
        return Misuse(f"the {self._controller} group {self._path} is released: make another one")
