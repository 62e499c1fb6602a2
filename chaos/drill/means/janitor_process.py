"""The janitor's process: it takes away what was promised, last first, also when its owner is dead.

    owner (Janitor) == pipe ==> this process
       {"n": 9, "do": "promise", "id": 7, "kind": "remove", "what": "/tmp/gapless-1f"}
       {"n": 10, "do": "keep", "id": 7}      now, rather than at the end
       {"n": 11, "do": "close"}              all that is left; so it does when the pipe ends
    <==    {"n": 10, "left": []}

    kind      what                     is taken away by
    unmount   where it is mounted      umount; once that has failed for a while, lazily
    cgroup    a directory gapless-*    thaw, no limits, SIGKILL to all in it, rmdir; so all below it
    remove    a directory, or a file   rm, unless something is mounted in it
    kill      a mark                   SIGKILL to all that carry it; with "/" at its end, also those
                                       which begin with it (actors/local_keeper.py)

What is not there is fine: a promise is made before the thing is, and may be kept twice. What could
be anybody's is refused as it is promised (`refused`). It runs in a session of its own and lets the
signals that end a program pass: it ends with its owner, and after it.

Each order has a number, which its answer bears: an owner that was interrupted while it waited may
find an old answer first.

`python -m gapless.chaos.drill.means.janitor_process` speaks on its standard input and output.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from gapless.actors.local_keeper import end
from gapless.chaos.drill.means.mounts import is_mounted, mounted_below, mounts, unmount

PREFIX = "gapless-"
"""Of the names of control groups: no other is ever touched."""
MARK_CHARS_MIN = 8
"""Of a mark: a short one could be somebody else's, an empty one is everybody's."""
DEPTH_MIN = 3
"""Parts of a path that may be taken away: `/`, a place of the system, and something in that."""
TRIES, TRY_S = 100, 0.05
"""A group or a directory is looked at so often until it is gone, and waited for in between: a
killed process takes a moment to leave its group, and one that writes a file may be ending.
"""
UNMOUNT_TRIES = 8
"""Then lazily: a process with a file open there would keep us waiting for ever."""
MOUNTED_MAX = 16
"""Mounts on top of each other that are taken off one place."""
LOOK_S = 0.5
"""Between two looks whether the owner lives: its pipe may have been inherited by a child of its
that does, and then it does not end.
"""
LIFTS = (
    ("freezer.state", "THAWED"),  # version 1
    ("memory.limit_in_bytes", "-1"),
    ("cpu.cfs_quota_us", "-1"),
    ("cgroup.freeze", "0"),  # version 2
    ("memory.max", "max"),
    ("cpu.max", "max"),
)
"""The files of a group that hold its processes back, each with what lets them go: one that is
frozen does not die, one that has no memory or processor takes its time.
"""


# -- what may be promised -------------------------------------------------------------------------


def refused(kind: str, what: str) -> str | None:
    """Why that cannot be promised; None where it can."""
    if kind == "kill":
        if len(what.strip("/")) < MARK_CHARS_MIN:
            return f"a mark of {MARK_CHARS_MIN} letters at least"
        return None
    if kind not in WAYS:
        return f"there is no kind {kind!r}; there are: {', '.join(WAYS)}"
    path = Path(what)
    if not path.is_absolute() or ".." in path.parts:
        return "an absolute path, without '..'"
    path = path.parent.resolve() / path.name
    if kind == "cgroup":
        if not path.name.startswith(PREFIX):
            return f"a control group of ours is named {PREFIX}*"
        kinds = {mount.kind for mount in mounts() if path.is_relative_to(mount.at)}
        if not kinds & {"cgroup", "cgroup2"}:
            return "that is no place for a control group"
    elif len(path.parts) < DEPTH_MIN:
        return "that is a place of the system"
    else:
        for place in (Path.cwd(), Path.home(), Path(tempfile.gettempdir()), Path(sys.prefix)):
            if place.resolve().is_relative_to(path):
                return f"{place} is in there"
    return None


# -- how each kind is taken away ------------------------------------------------------------------


def taken_away(kind: str, what: str) -> str | None:
    """Takes it away; what is left and why, where it cannot be."""
    try:
        return WAYS[kind](what)
    except Exception as e:  # noqa: BLE001  # whatever it is: the other promises are kept even so
        return f"{type(e).__name__}: {e}"


def _pause() -> None:
    threading.Event().wait(TRY_S)


def _unmounted(what: str) -> str | None:
    path = Path(what)
    path = path.parent.resolve() / path.name
    said: str | None = None
    for _ in range(MOUNTED_MAX):
        for attempt in range(UNMOUNT_TRIES):
            if not is_mounted(path):
                return None
            said = unmount(path, is_lazy=attempt == UNMOUNT_TRIES - 1)
            if said is None:
                break
            _pause()
    return said if is_mounted(path) else None


def _disbanded(what: str) -> str | None:
    path = Path(what)
    said = ""
    for _ in range(TRIES):
        said = _disband(path) or said
        if not path.exists():
            return None
        _pause()
    inside = ", ".join(f"{pid} ({_state(pid)})" for pid in pids_of(path))
    return f"{said}; in it: {inside or 'nobody'}"


def _disband(path: Path) -> str:
    """Does all that can be done at once; what went wrong last. Groups below are disbanded, too; one
    that is frozen holds those below it, so all are let go first.
    """
    if not path.exists():
        return ""
    tree = [path, *(each for each in path.rglob("*") if each.is_dir())]
    steps: list[tuple[Callable[[Path], None], Path]] = [
        *((_let_go, group) for group in tree),
        *((_kill, group) for group in tree),
        *((Path.rmdir, group) for group in sorted(tree, key=lambda each: -len(each.parts))),
    ]
    said = ""
    for step, group in steps:
        try:
            step(group)
        except OSError as e:
            said = str(e)  # the steps after it may do even so
    return said


def _let_go(group: Path) -> None:
    for name, value in LIFTS:
        file = group / name
        if file.exists():
            file.write_text(value)


def _kill(group: Path) -> None:
    at_once = group / "cgroup.kill"
    if at_once.exists():
        at_once.write_text("1")  # also those that are being forked
    for pid in pids_of(group):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has just ended


def pids_of(group: Path) -> list[int]:
    """The processes of a group. Those of other namespaces, which read as 0, are not ours."""
    pids = map(int, (group / "cgroup.procs").read_text().split())
    return [pid for pid in pids if pid > 0]


def _state(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return "ended"


def _removed(what: str) -> str | None:
    path = Path(what)
    path = path.parent.resolve() / path.name
    said = ""
    for _ in range(TRIES):
        if not os.path.lexists(path):
            return None
        if mounted := mounted_below(path):
            return f"something is mounted: {', '.join(map(str, mounted))}"
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            continue  # somebody takes it away as well: the rest at the next look
        except OSError as e:
            said = str(e)
            _pause()
    return said or "it is made again and again"


def _killed(what: str) -> str | None:
    left = end(what)
    return f"processes {[process.pid for process in left]}" if left else None


WAYS: Mapping[str, Callable[[str], str | None]] = {
    "unmount": _unmounted,
    "cgroup": _disbanded,
    "remove": _removed,
    "kill": _killed,
}
"""By kind, what takes it away; it says what is left."""


# -- the process ----------------------------------------------------------------------------------


class Promises:
    """What was promised and not kept yet, in the order in which it was."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, id: int) -> bool:
        return id in self._open

    def add(self, id: int, kind: str, what: str) -> None:
        """Takes note of one."""
        self._open[id] = (kind, what)

    def keep(self, id: int) -> list[str]:
        """Keeps one; what is left of it, and then it is promised still. Kept twice is kept."""
        if id not in self._open:
            return []
        kind, what = self._open[id]
        said = taken_away(kind, what)
        if said is not None:
            return [f"{kind} {what}: {said}"]
        self.forget(id)
        return []

    def keep_all(self) -> list[str]:
        """Keeps all, the last first, as it may stand on those before; what is left, which is
        promised no more.
        """
        left = [line for id in reversed(list(self._open)) for line in self.keep(id)]
        self._open.clear()
        return left

    def forget(self, id: int) -> None:
        """One that somebody has kept."""
        del self._open[id]


def main() -> None:
    """Obeys until the pipe ends or the owner does; then nothing is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")  # this process itself stands in the way of nothing
    owner = os.getppid()
    promises = Promises()
    try:
        while (line := _next_line(owner)) is not None:
            order = json.loads(line)
            _tell(order["n"], _done(promises, order))
    finally:
        _complain(promises.keep_all())


def _done(promises: Promises, order: dict[str, Any]) -> list[str]:
    """Does what one order says; what is left."""
    if order["do"] == "promise":
        promises.add(order["id"], order["kind"], order["what"])
        return []
    return promises.keep(order["id"]) if order["do"] == "keep" else promises.keep_all()


def _tell(n: int, left: list[str]) -> None:
    try:
        os.write(sys.stdout.fileno(), json.dumps({"n": n, "left": left}).encode() + b"\n")
    except BrokenPipeError:
        _complain(left)  # the owner is gone: its other pipe ends as well


def _next_line(owner: int) -> bytes | None:
    """The next order, None at the end. It is read byte by byte: nothing is to stay behind in a
    buffer that `select` does not see.
    """
    pipe = sys.stdin.fileno()
    line = b""
    while not line.endswith(b"\n"):
        if select.select([pipe], [], [], LOOK_S)[0]:
            byte = os.read(pipe, 1)
            if not byte:
                return None  # also of an order that was being written
            line += byte
        elif os.getppid() != owner:
            return None
    return line


def _complain(left: list[str]) -> None:
    """Says on the standard error, which is the owner's, what nobody is there to be told."""
    try:
        for line in left:
            sys.stderr.write(f"gapless: the janitor could not take away: {line}\n")
    except OSError:
        return  # that is gone, too


if __name__ == "__main__":
    main()
