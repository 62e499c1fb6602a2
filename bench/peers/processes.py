"""Processes that end with the one that started them, whatever happens.

    with Processes(logs) as processes:
        processes.start("worker", ["java", ...])
        processes.kill("worker")                    SIGKILL, by its number
    # here none of them runs: after success, an error or Ctrl-C alike

    start ──> the leash ──exec──> the command       one number all the way
              asks the kernel for SIGKILL when its parent dies

What Python cannot clean up after, as it was itself killed, the kernel does: the leash is a line of
Python that says so and then becomes the command, which keeps the number and the promise.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from gapless.bench.peers.runner import end
from gapless.protocol.errors import Misuse

PROCESSES_MAX = 8
"""A job manager and two workers are three: more is a loop that starts without end."""

_LEASH = """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGKILL = 1, 9
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
if os.getppid() == int(sys.argv[1]):  # else the parent died before it could be told
    os.execvp(sys.argv[2], sys.argv[2:])
"""
_TAIL_LINES = 15
_TAIL_BYTES = 8_192


class Processes:
    """Named processes, each with a log of its own; leaving the block ends all of them.

    To be used from one thread: the kernel's promise is bound to the thread that starts them.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._killed: set[str] = set()
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.close()  # all of them, though ending one of them may fail

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> int:
        """Starts a command and gives its number; what it prints goes to `logs/NAME.log`."""
        if name in self._running:
            raise Misuse(f"a process called {name!r} was started before")
        if len(self._running) >= PROCESSES_MAX:
            raise Misuse(f"{PROCESSES_MAX} processes were started: end some before more")
        leashed = [sys.executable, "-c", _LEASH, str(os.getpid()), *command]
        with (self._logs / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                leashed,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env=None if environment is None else dict(environment),
                start_new_session=True,  # Ctrl-C reaches us alone, and we end them
            )
        self._ends.callback(end, process)
        self._running[name] = process
        return process.pid

    def kill(self, name: str) -> None:
        """SIGKILL to the process of this name, which `check` does not miss from now on."""
        process = self._running[name]
        self._killed.add(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def check(self) -> None:
        """Raises `Misuse` where one has ended that was not killed, with the end of its log."""
        for name, process in self._running.items():
            if name not in self._killed and process.poll() is not None:
                code = process.returncode
                raise Misuse(f"{name} ended by itself with exit code {code}:\n{self.tail(name)}")

    def tail(self, name: str) -> str:
        """The last lines that a process has printed."""
        with (self._logs / f"{name}.log").open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])
