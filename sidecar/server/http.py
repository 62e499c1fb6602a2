"""The HTTP side: /metrics, /healthz and /readyz, for those who watch processes.

    GET /healthz    200 as long as the loop turns: who restarts processes asks this
    GET /readyz     200 where the data path is whole, else 503 and why: load balancers ask this
    GET /metrics    the numbers (metrics.py)

Each connection asks once and is closed. There is nothing here that changes anything.

A client that connects and does not ask, or does not read, harms nobody: while all places are taken
the one that has been there longest makes room for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gapless.protocol.errors import Misuse
from gapless.sidecar.server.metrics import CONTENT_TYPE, Metrics

REQUEST_BYTES_MAX = 8 << 10
"""Of a request with its headers: a longer one is none of ours."""
REQUEST_S = 5.0
"""How long it may take to come, and its answer to be read."""
CONNECTIONS_MAX = 64
"""At once; for one more the oldest is closed. A request is answered within milliseconds, so it
is one that does not ask."""
_TEXT = "text/plain; charset=utf-8"
_WORDS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class Http:
    """Answers on one address."""

    def __init__(self, metrics: Metrics, problem: Callable[[], str | None]) -> None:
        self._metrics = metrics
        self._problem = problem
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # the oldest first

    async def listen(self, address: str) -> int:
        """Begins to answer; the port. Raises `Misuse`."""
        host, _, port = address.rpartition(":")
        try:
            self._server = await asyncio.start_server(
                self._serve, host.strip("[]"), int(port), limit=REQUEST_BYTES_MAX
            )
        except OSError as e:
            raise Misuse(f"cannot listen on {address}: {e}") from None
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    def close(self) -> None:
        """Answers no more."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # for the type checker: this runs in one
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            self._open.pop(oldest).transport.abort()  # its task finds that it is closed, and ends
        self._open[task] = writer
        try:
            async with asyncio.timeout(REQUEST_S):
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return  # the client has not asked anything, or does not read the answer
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, b"only GET\n", _TEXT)
        if path == b"/healthz":
            return _response(200, b"ok\n", _TEXT)
        if path == b"/readyz":
            problem = self._problem()
            if problem is None:
                return _response(200, b"ready\n", _TEXT)
            return _response(503, f"{problem}\n".encode(), _TEXT)
        if path == b"/metrics":
            return _response(200, self._metrics.text(), CONTENT_TYPE)
        return _response(404, b"/metrics, /healthz, /readyz\n", _TEXT)


def _response(status: int, body: bytes, kind: str) -> bytes:
    words = _WORDS.get(status, "Service Unavailable")
    head = (
        f"HTTP/1.1 {status} {words}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
