"""The process of a switch: it holds namespaces and devices, and moves packets between them.

    owner --- orders, a JSON document a line ---> epoll --- hub.py
          <-- answers, likewise ---------------    ^ |
                                                   | v
                        the devices of host 1, host 2, ...

When its pipe ends, be it that its owner has closed it or was killed, the process ends; and with it
all that it holds. `python -m gapless.chaos.drill.means.switch_process HOSTS SEED` starts it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

from gapless.chaos.drill.means.devices import free_prefix, new_namespace, opened
from gapless.chaos.drill.means.hub import Hub
from gapless.chaos.drill.means.packets import MTU_BYTES
from gapless.chaos.drill.means.rules import Rule
from gapless.protocol.errors import BadData

PACKETS_AT_ONCE = 64
"""Of one host, until the next has its turn."""
ORDER_BYTES_MAX = 64 << 10
"""Of a line: a rule takes a few hundred."""
READ_BYTES = 4 << 10
NICENESS = -10
"""A network is no slower where machines are busy; without the right to ask, none is set."""


class SwitchProcess:
    """A hub with its devices. Only `main` makes one."""

    def __init__(self, hosts: int, seed: int) -> None:
        self._prefix, self._lock = free_prefix()
        self._namespaces: list[int | None] = [None]
        self._devices = [opened(self._prefix + b"\x01")]
        for host in range(2, hosts + 1):
            namespace, device = new_namespace(self._prefix + bytes([host]))
            self._namespaces.append(namespace)
            self._devices.append(device)
        self._host_of = {device: host for host, device in enumerate(self._devices, 1)}
        self._hub = Hub(hosts, self._prefix, self._write, seed)
        self._buffer = memoryview(bytearray(MTU_BYTES + 1))
        self._line = b""

    def hello(self) -> dict[str, Any]:
        """What the owner has to know."""
        prefix = ".".join(str(each) for each in self._prefix)
        return {"prefix": prefix, "namespaces": self._namespaces}

    def run(self) -> None:
        """Until the pipe ends."""
        poll = select.epoll()
        orders = sys.stdin.fileno()
        for fd in (orders, *self._devices):
            poll.register(fd, select.EPOLLIN)
        hub, clock = self._hub, time.monotonic
        while True:
            left_s = hub.next_s - clock()
            ready = poll.poll(max(left_s, 0.0) if left_s < float("inf") else None)
            for fd, _ in ready:
                if fd != orders:
                    self._read(fd, clock())
                elif not self._obey():
                    return
            hub.release(clock())

    # -- packets ------------------------------------------------------------------------------

    def _read(self, device: int, now_s: float) -> None:
        buffer, host, packet = self._buffer, self._host_of[device], self._hub.packet
        into = [buffer]
        try:
            for _ in range(PACKETS_AT_ONCE):
                packet(host, buffer[: os.readv(device, into)], now_s)
        except BlockingIOError:
            return

    def _write(self, host: int, packet: memoryview | bytes) -> bool:
        try:
            os.write(self._devices[host - 1], packet)
        except OSError:
            return False  # the kernel has no room for it, or takes it for none: as a network loses
        return True

    # -- orders -------------------------------------------------------------------------------

    def _obey(self) -> bool:
        """Does what has been said; whether there is anybody still."""
        said = os.read(sys.stdin.fileno(), READ_BYTES)
        if not said:
            return False
        *lines, self._line = (self._line + said).split(b"\n")
        if len(self._line) > ORDER_BYTES_MAX:
            raise BadData(f"an order of more than {ORDER_BYTES_MAX} bytes")
        for line in lines:
            try:
                answer = self._do(json.loads(line))
            except Exception as e:  # noqa: BLE001  # whatever it is, the owner is to be told
                answer = {"error": f"{type(e).__name__}: {e}"}
            _answer(answer)
        return True

    def _do(self, order: dict[str, Any]) -> dict[str, Any]:
        hub = self._hub
        match order["do"]:
            case "rule":
                hub.rule(order["from"], order["to"], Rule(**order["rule"]))
            case "clear":
                hub.clear()
            case "reset":
                return {"ended": hub.reset(order["from"], order["to"])}
            case "counts":
                return {"counts": [[*pair, *c.numbers()] for pair, c in hub.counts().items()]}
            case what:
                return {"error": f"there is no order {what!r}"}
        return {}


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(hosts: int, seed: int) -> None:
    """Moves packets until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person's Ctrl-C is for the owner
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except PermissionError:
        pass  # see NICENESS
    try:
        process = SwitchProcess(hosts, seed)
    except Exception as e:  # noqa: BLE001  # whatever it is, the owner is to be told
        _answer({"error": f"{type(e).__name__}: {e}"})
        return
    try:
        _answer(process.hello())
        process.run()
    except BrokenPipeError:
        pass  # the owner is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
