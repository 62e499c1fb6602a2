"""The priority of a process: low while it boots as a spare, that of any other once it is a life.

    spare       nice 10: imports its libraries with what the machine has to spare
    become -->  nice 0, all threads

The boot of a process keeps a core busy for most of a second, and it follows right behind a death,
when those who are left have more to do than before. Raising a priority again takes a right that not
every process has, so who may not do that boots as any other.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SPARE_NICENESS = 10
"""A tenth of the weight of another process: so it gets on where the machine is full, too."""
NICE_LIMIT = 20
"""RLIMIT_NICE of a process that may have niceness 0."""
CAP_SYS_NICE = 23
"""The bit of Linux's capability to raise priorities."""
OWN_INTERPRETER = ("py_executable", "pip", "uv", "conda", "container", "image_uri")
"""Of Ray's runtime_env: what makes workers run by another interpreter than ours."""

_STATUS = Path("/proc/self/status")
_TASKS = Path("/proc/self/task")


def may_lift() -> bool:
    """Whether this process may go back from a low priority to the usual one."""
    if resource.getrlimit(resource.RLIMIT_NICE)[0] >= NICE_LIMIT:
        return True
    return bool(_capabilities() >> CAP_SYS_NICE & 1)


def _capabilities() -> int:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0  # no Linux, so no such rights
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def calm(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """A runtime_env whose processes boot with a low priority, where they may leave it again and
    run by our interpreter; else the one that was given.
    """
    if not may_lift() or any(key in runtime_env for key in OWN_INTERPRETER):
        return dict(runtime_env)
    return {**runtime_env, "py_executable": f"nice -n {SPARE_NICENESS} {sys.executable}"}


def lift() -> bool:
    """Gives all threads of this process the usual priority. Whether they have it now."""
    if os.getpriority(os.PRIO_PROCESS, 0) <= 0:
        return True
    try:
        for task in _TASKS.iterdir():
            with suppress(ProcessLookupError):  # that thread has ended meanwhile
                os.setpriority(os.PRIO_PROCESS, int(task.name), 0)
    except PermissionError:
        return False
    return True
