"""Signals to processes of a job: they die, or stop where they are and go on later."""

from __future__ import annotations

import signal
from collections.abc import Iterable

import psutil

from gapless.actors.local_keeper import tell


def kill(pids: Iterable[int]) -> frozenset[int]:
    """Kills processes, all at once; ended ones are fine. Returns which, for a `Hit`."""
    doomed = frozenset(pids)
    tell(_processes(doomed), signal.SIGKILL)
    return doomed


def stop(pids: Iterable[int]) -> list[psutil.Process]:
    """Stops processes where they are: they answer nothing, and nobody sees them die."""
    found = _processes(pids)
    tell(found, signal.SIGSTOP)
    return found


def go_on(processes: Iterable[psutil.Process]) -> None:
    """Lets stopped ones go on; those that were killed meanwhile, as the job does, are gone."""
    tell(processes, signal.SIGCONT)


def _processes(pids: Iterable[int]) -> list[psutil.Process]:
    """By number and start, so that no other process with the number is ever meant."""
    found = []
    for pid in pids:
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue  # it has just died by itself
    return found
