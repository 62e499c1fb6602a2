"""A network of our own: hosts in network namespaces, joined by a switch that can break anything.

    with NetworkSwitch(hosts=4) as switch, LocalNodes(3, network=switch) as nodes:
        switch.rule(2, 3, Rule(drop=True))            one way: n3 hears nothing of n2
        switch.rule(1, 2, Rule(delay_ms=20, jitter_ms=5))
        switch.reset(1, 2)                            their connections end, now
        switch.clear()

    machine's own namespace       namespace 2            namespace 3
    driver, head   10.x.y.1       node n2   10.x.y.2     node n3   10.x.y.3
           |                          |                      |
           '------- TUN --------> the switch's process <-----'      rules for each ordered pair

Host 1 is in the machine's own namespace, so that programs outside reach the cluster. All of it is
held by one process, which ends when its maker does, and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from gapless.chaos.drill.means.devices import TUN, new_namespace
from gapless.chaos.drill.means.rules import PacketCounts, Rule
from gapless.protocol.errors import Bug, JobError, Misuse

HOSTS_MAX = 64
"""Each is a namespace, and rules are of pairs."""
ANSWER_S = 30.0
"""How long the process may take for an answer: it has no more to do than to make its devices, or to
let go of what waits; on a machine with much else to do.
"""
CLOSE_S = 5.0
"""How long the process may take to end, until it is killed: it has nothing to tidy up."""
_TAIL_CHARS = 2_000
_NEEDED = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
_TRIED = bytes([10, 0, 0, 2])


@cache
def why_not() -> str | None:
    """Why this machine cannot have a switch, and what to do about that; None where it can. It is
    tried, in a namespace that is gone at once.
    """
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's: run it there, or in a container"
    if lacking := _lacking():
        return f"needs root ({', '.join(lacking)}): use sudo, or a container with --privileged"
    if not Path(TUN).exists():
        return f"there is no {TUN}: `modprobe tun`, or give a container `--device {TUN}`"
    errors: list[str] = []
    thread = threading.Thread(target=_try, args=(errors,))  # a namespace is a thread's
    thread.start()
    thread.join()
    return errors[0] if errors else None


def _lacking() -> list[str]:
    status = Path("/proc/self/status").read_text("ascii", "replace")
    words = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    has = int(words.split()[1], 16)
    return [name for bit, name in _NEEDED.items() if not has >> bit & 1]


def _try(errors: list[str]) -> None:
    try:
        for fd in new_namespace(_TRIED):
            os.close(fd)
    except OSError as e:
        errors.append(f"no network namespace with a TUN device can be made here: {e}")


class NetworkSwitch:
    """A network of so many hosts. A context manager; several threads may use it."""

    def __init__(self, hosts: int = 8, seed: int = 0) -> None:
        """`seed`: which packets are lost and held back."""
        if not 2 <= hosts <= HOSTS_MAX:
            raise Misuse(f"{hosts} hosts: from 2 to {HOSTS_MAX} can be joined")
        self._hosts = hosts
        self._seed = seed
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._prefix = ""
        self._namespaces: list[int | None] = []

    # -- who is there -------------------------------------------------------------------------

    @property
    def hosts(self) -> int:
        """How many, from 1 on."""
        return self._hosts

    def address(self, host: int) -> str:
        """Of a host, from 1 on."""
        self._check(host)
        self._running()
        return f"{self._prefix}.{host}"

    def namespace(self, host: int) -> str | None:
        """A path to enter a host's namespace by (setns(2)); None of host 1, which is here."""
        self._check(host)
        pid = self._running().pid
        number = self._namespaces[host - 1]
        return None if number is None else f"/proc/{pid}/fd/{number}"

    # -- breaking it --------------------------------------------------------------------------

    def rule(self, a: int, b: int, rule: Rule) -> None:
        """For packets from a to b, from now on; `Rule()` lifts it. What waits by an earlier rule
        goes on at once, or is dropped where the new one drops.
        """
        self._ask("rule", a, b, rule=asdict(rule))

    def clear(self) -> None:
        """Lifts all rules."""
        self._ask("clear")

    def reset(self, a: int, b: int) -> int:
        """Ends every TCP connection between two hosts, on both sides; how many."""
        return int(self._ask("reset", a, b)["ended"])

    def counts(self) -> Mapping[tuple[int, int], PacketCounts]:
        """By sender and receiver, what has happened to the packets so far."""
        rows = self._ask("counts")["counts"]
        return {(a, b): PacketCounts(*numbers) for a, b, *numbers in rows}

    # -- its life -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Makes the network. Raises `Misuse` where this machine cannot have one."""
        if why := why_not():
            raise Misuse(f"no switch on this machine: {why}")
        if self._process is not None:
            raise Misuse("this switch is open already: make another one")
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # until close()
        module = "gapless.chaos.drill.means.switch_process"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(self._hosts), str(self._seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        try:
            hello = self._answer(self._process)
        except BaseException:
            self.close()
            raise
        self._prefix, self._namespaces = hello["prefix"], hello["namespaces"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the network. Processes in it must have ended before, or have none from now on."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                _end(process)
            if self._log is not None:
                self._log.close()
                self._log = None

    # -- talking to the process ---------------------------------------------------------------

    def _ask(self, what: str, a: int = 1, b: int = 2, **rest: Any) -> dict[str, Any]:
        self._check(a)
        self._check(b)
        if a == b:
            raise Misuse(f"from host {a} to itself: packets of one host pass no switch")
        with self._lock:
            process = self._running()
            if process.stdin is None:
                raise JobError("the switch has no pipe")
            try:
                process.stdin.write(json.dumps({"do": what, "from": a, "to": b, **rest}) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                raise JobError(f"the switch's process has ended:\n{self._said()}") from None
            return self._answer(process)

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        if process.stdout is None:
            raise Bug("the switch was started without a pipe")
        if not select.select([process.stdout], [], [], ANSWER_S)[0]:
            raise JobError(f"the switch has not answered within {ANSWER_S:g} s: close it")
        line = process.stdout.readline()
        if not line:
            raise JobError(f"the switch's process has ended:\n{self._said()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JobError(f"the switch: {answer['error']}")
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise Misuse(
                "this switch is not open, or closed: use `with NetworkSwitch(...) as switch`"
            )
        return self._process

    def _check(self, host: int) -> None:
        if not 1 <= host <= self._hosts:
            raise Misuse(f"host {host}: there are 1 to {self._hosts}; make a switch of more")

    def _said(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read()[-_TAIL_CHARS:].strip()


def _end(process: subprocess.Popen[str]) -> None:
    """Closes its pipe, upon which it ends."""
    if process.stdin is not None:
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, with an order that it had not read
    if process.stdout is not None:
        if not select.select([process.stdout], [], [], CLOSE_S)[0]:  # its end, or an answer
            process.kill()
        process.stdout.close()
    process.wait()
