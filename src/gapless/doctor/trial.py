"""Runs a program for a trial: in a session of its own, for a limited time, leaving nothing behind.

Spark and Ray start processes of their own, and these may outlive their starter. Two signs
tell them: the session that the program was started in, which its descendants share unless they
leave it, and a mark in the environment, which they inherit even then. When the program has ended,
or its time is over, every process that carries either sign is ended by its id. Other processes of
the same name are never touched.

Output goes to a file and not through a pipe: a surviving grandchild would hold the pipe open, and
the reader would wait for it.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import psutil

from gapless.doctor.facts import Start

MARK = "GAPLESS_DOCTOR_TRIAL"
"""The environment variable that the descendants of one trial share."""

SWEEPS_MAX = 20
"""Looks for survivors; each finds what the ones before it had not yet seen being started."""
END_WAIT_S = 5.0
"""How long a killed process may take to be gone, even on a machine that is swapping."""

LINE_CHARS_MAX = 200
"""Of the last line of output; a Java exception can fill a screen with one line."""


@dataclass(frozen=True)
class Ended:
    """What became of a program."""

    exit_code: int | None
    """None: it was ended because its time was over."""
    took_s: float
    output: str


def try_module(module: str, limit_s: float, *, depends: bool = False) -> Start:
    """Runs `python -m module DIRECTORY` with an empty directory that is deleted afterwards.

    When this returns, or raises, no process that the module started is left.
    """
    with temporary_directory() as directory:
        ended = run([sys.executable, "-m", module, directory], directory, limit_s)
    shown = f"{sys.executable} -m {module} {tempfile.gettempdir()}"
    says = _last_line(ended.output)
    return Start(ended.exit_code, ended.took_s, limit_s, says, shown, depends)


def temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """An empty directory with a short name: Ray puts sockets in it, whose paths have 107 bytes."""
    return tempfile.TemporaryDirectory(prefix="gl-", ignore_cleanup_errors=True)


def run(command: Sequence[str], directory: str, limit_s: float) -> Ended:
    """Runs a program in `directory`, for `limit_s` at most; leaves no process of it."""
    mark = token_hex(8)
    log = Path(directory) / "output"
    began = time.monotonic()
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, MARK: mark},
            start_new_session=True,
        )
        try:
            in_time = _wait(child.pid, limit_s)
            took_s = time.monotonic() - began
        finally:
            _end_all(child.pid, mark)
            exit_code = child.wait()
    return Ended(exit_code if in_time else None, took_s, log.read_text(errors="replace"))


def _wait(pid: int, limit_s: float) -> bool:
    """Waits until a process has ended, without asking again and again; False: it has not.

    An ended process counts as such even if nobody collects it, as in a container whose first
    process is no init.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()
        poller.register(process, select.POLLIN)
        return bool(poller.poll(limit_s * 1000))
    finally:
        os.close(process)


def _end_all(session: int, mark: str) -> None:
    for _ in range(SWEEPS_MAX):
        survivors = list(_survivors(session, mark))
        if not survivors:
            return
        for process in survivors:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue  # it ended by itself in between
        for process in survivors:
            _wait(process.pid, END_WAIT_S)


def _survivors(session: int, mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) == session or process.environ().get(MARK) == mark:
                yield process
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue  # gone in between, or another user's: not one of ours


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "(nothing)"
    return last if len(last) <= LINE_CHARS_MAX else last[:LINE_CHARS_MAX] + "..."
