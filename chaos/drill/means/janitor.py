"""The janitor takes away what a run leaves in the machine, however the run ends.

    with Janitor() as janitor:
        promise = janitor.promise("unmount", "/tmp/disk")     said first,
        mount("/tmp/disk")                                    made then:
        ...                                                   nothing is ever there that it
        janitor.keep(promise)                                 does not know of
    # the end: what is left is taken away, the last first

It is a process of its own (janitor_process.py), and the holder of this object is its owner. Killed
with SIGKILL, an owner cannot take anything away; the janitor sees its pipe end, and does. Should
somebody kill the janitor, its owner keeps the promises itself at the end.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, Literal, Self

from gapless.actors.local_keeper import MARK
from gapless.chaos.drill.means.janitor_process import Promises, refused
from gapless.protocol.errors import Bug, JobError, Misuse

Kind = Literal["unmount", "cgroup", "remove", "kill"]
"""What is to be taken away; janitor_process.py says how."""
PROMISES_MAX = 10_000
"""Open at once: a run of hours makes some hundreds."""
ANSWER_S = 60.0
"""How long the janitor may take for one promise: several times what its own bounds add up to."""
END_S = 5.0
"""How long its process may take to end, once all is done."""


class Janitor:
    """Takes away what was promised, at the latest when this process ends. A context manager, which
    several threads may use.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._promises = Promises()
        self._promised = self._asked = 0
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Of its process, which must not be held back by what it is to lift."""
        return self._running().pid

    def promise(self, kind: Kind, what: str) -> int:
        """Said *before* the thing is made: what is to be taken away at the end. Returns once the
        janitor knows. Raises `Misuse` where that could be anybody's.
        """
        if why := refused(kind, what):
            raise Misuse(f"the janitor cannot promise {kind} {what!r}: {why}")
        with self._lock:
            self._running()
            if len(self._promises) >= PROMISES_MAX:
                raise Misuse(f"{PROMISES_MAX} promises are open already: keep some first")
            self._promised += 1
            self._promises.add(self._promised, kind, what)
            self._ask({"do": "promise", "id": self._promised, "kind": kind, "what": what})
            return self._promised

    def keep(self, promise: int) -> None:
        """Takes it away now, and returns once it is; one that was kept is kept. Raises `JobError`
        with what is left, and why; it is tried again at the end.
        """
        with self._lock:
            self._running()
            if promise not in self._promises:
                return
            _check(self._ask({"do": "keep", "id": promise}))
            self._promises.forget(promise)

    def close(self) -> None:
        """Keeps all that is left, the last first, and ends the janitor. Raises `JobError` naming
        whatever could not be taken away: then it is for a person to do.
        """
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            order = {"n": self._next(), "do": "close"}
            try:
                left = _answer(process, order, ANSWER_S * (1 + len(self._promises)))
                _end(process)
            except _Gone:
                _end(process)
                left = self._promises.keep_all()
            self._promises = Promises()
        _check(left)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise Misuse("the janitor is not there: use `with Janitor() as janitor`")
        return self._process

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    def _ask(self, order: dict[str, Any]) -> list[str]:
        try:
            return _answer(self._running(), {"n": self._next(), **order}, ANSWER_S)
        except _Gone as e:
            raise JobError(f"the janitor {e}: close it, and make another one") from None

    # -- its life -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        environ = {name: value for name, value in os.environ.items() if name != MARK}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gapless.chaos.drill.means.janitor_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environ,  # without a mark of ours: a kill by mark does not kill the janitor
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class _Gone(Exception):
    """The janitor has ended, or does not answer."""


def _answer(process: subprocess.Popen[bytes], order: dict[str, Any], timeout_s: float) -> list[str]:
    """What is left, as the janitor answers an order. Answers to orders before it, for which nobody
    has waited, are passed over.
    """
    if process.stdin is None or process.stdout is None:
        raise Bug("the janitor was started without pipes")
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
    except BrokenPipeError:
        raise _Gone("has ended") from None
    until = time.monotonic() + timeout_s
    while select.select([process.stdout], [], [], max(until - time.monotonic(), 0))[0]:
        line = process.stdout.readline()
        if not line:
            raise _Gone("has ended")
        answer = json.loads(line)
        if answer["n"] == order["n"]:
            left: list[str] = answer["left"]
            return left
    raise _Gone(f"has not answered within {timeout_s:g} s")


def _check(left: list[str]) -> None:
    if left:
        raise JobError(f"the janitor could not take away: {'; '.join(left)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process, which has nothing more to do."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)
    finally:
        if process.stdout is not None:
            process.stdout.close()
