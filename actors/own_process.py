"""Which process a PID names: systems give the PIDs of dead processes to new ones.

pid 4711, started 80123    a host says this of itself
pid 4711, started 99001    another one by now: it is nobody's to kill
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

_PROC = Path("/proc")
_STARTED = 19
"""Of the fields behind a process's name, the one that says when it was started, in ticks since the
machine's: no two processes with one PID share it, whatever is done to the clock."""


def started(pid: int) -> int:
    """When a process was started, in ticks of this machine; 0 where there is none."""
    if not (_PROC / "self").exists():  # no Linux
        try:
            return int(psutil.Process(pid).create_time() * 1000)
        except psutil.NoSuchProcess:
            return 0
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[_STARTED])


def runs(pid: int) -> bool:
    """Whether there is a process of that number here, other than one that has ended and whose
    parent has not looked yet.
    """
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stopped(pid: int) -> int:
    """When a process was started that is stopped (SIGSTOP), in ticks as `started`; 0 where it is
    not, or is not there.
    """
    try:
        is_stopped = psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return 0
    return started(pid) if is_stopped else 0


def slay(pid: int, started_at: int) -> bool:
    """Kills a process if it is still the one that was started then. Whether it was."""
    if not hasattr(os, "pidfd_open"):
        return _slay_by_number(pid, started_at)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:  # from here on it is this process or none, however long anything takes
        if started(pid) != started_at:
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def _slay_by_number(pid: int, started_at: int) -> bool:
    if started(pid) != started_at:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
