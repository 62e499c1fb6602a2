"""A program on a host of a switch, told what to do line by line: `python peer.py NAMESPACE`.

It echoes whatever comes on TCP, keeps the numbers of datagrams, connects, and times what it does.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from typing import Any

from gapless.actors.namespaces import inside

QUIET_S = 0.5
"""Without a datagram for so long, no more are expected."""


class Peer:
    """What one program has open."""

    def __init__(self) -> None:
        self._served: list[socket.socket] = []
        self._connection = socket.socket()
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def listen(self) -> dict[str, Any]:
        server = socket.create_server(("", 0))
        threading.Thread(target=self._serve, args=(server,), daemon=True).start()
        self._datagrams.bind(("", 0))
        return {"tcp": server.getsockname()[1], "udp": self._datagrams.getsockname()[1]}

    def _serve(self, server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            self._served.append(connection)
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()

    def connect(self, host: str, port: int, timeout_s: float = 5.0) -> dict[str, Any]:
        self._connection.close()
        self._connection = socket.socket()
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.settimeout(timeout_s)
        self._connection.connect((host, port))
        return {"port": self._connection.getsockname()[1]}

    def echo(self, size: int, timeout_s: float = 5.0) -> dict[str, Any]:
        """Sends so much and waits for all of it to come back."""
        self._connection.settimeout(timeout_s)
        sent = bytes(number % 251 for number in range(size))
        threading.Thread(target=_send, args=(self._connection, sent), daemon=True).start()
        came = bytearray()
        while len(came) < size:
            part = self._connection.recv(1 << 20)
            if not part:
                raise ConnectionAbortedError  # the sending thread has been told why
            came += part
        return {"right": bytes(came) == sent}

    def waits(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """Waits, and sends nothing, until the connection ends or something comes."""
        self._connection.settimeout(timeout_s)
        return {"came": len(self._connection.recv(1))}

    def served(self) -> dict[str, Any]:
        """What has become of the connections that it has accepted."""
        states = [c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] for c in self._served]
        return {"states": states}

    def send_numbers(self, host: str, port: int, count: int, pause_s: float) -> dict[str, Any]:
        for number in range(count):
            self._datagrams.sendto(struct.pack("!I", number), (host, port))
            time.sleep(pause_s)
        return {}

    def numbers(self) -> dict[str, Any]:
        self._datagrams.settimeout(QUIET_S)
        found: list[int] = []
        try:
            while True:
                found += struct.unpack("!I", self._datagrams.recv(4))
        except TimeoutError:
            return {"numbers": found}


def _send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:
        return  # the one who receives is told, too


def _echo(connection: socket.socket) -> None:
    try:
        while data := connection.recv(1 << 20):
            connection.sendall(data)
    except OSError:
        return  # that is what a test wants to see at the other end


def main(namespace: str | None) -> None:
    with inside(namespace):
        peer = Peer()
        for line in sys.stdin:
            order = json.loads(line)
            start_s = time.monotonic()
            try:
                answer = getattr(peer, order.pop("do"))(**order)
            except OSError as e:
                answer = {"error": type(e).__name__}
            answer["took_s"] = time.monotonic() - start_s
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1] or None)
