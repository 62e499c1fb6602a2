"""The HTTP side: a client that connects and does not ask keeps nobody from asking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gapless.sidecar.server import http
from gapless.sidecar.server.http import Http

PLACES = 4
Talk = Callable[[int], Awaitable[None]]
LARGE = b"x" * (16 << 20)
HEALTH = b"GET /healthz HTTP/1.1\r\n\r\n"


class Numbers:
    """What stands for the metrics: an answer that is larger than what a socket holds."""

    def text(self) -> bytes:
        return LARGE


async def opened(port: int, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def asked(port: int, request: bytes = HEALTH) -> bytes:
    reader, writer = await opened(port, request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def with_http(talk: Talk) -> Http:
    """Talks to one, and gives what is left of it."""

    async def run() -> Http:
        metrics: Any = Numbers()
        one = Http(metrics, lambda: None)
        try:
            await talk(await one.listen("127.0.0.1:0"))
        finally:
            one.close()
        for _ in range(100):
            if not one._open:
                break
            await asyncio.sleep(0)
        return one

    return asyncio.run(run())


@pytest.mark.parametrize(
    "half", [b"", b"GET /healthz HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\n\r\n"]
)
def test_connections_that_do_not_ask_or_read_make_room_for_who_does(
    half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", PLACES)

    async def talk(port: int) -> None:
        held = [await opened(port, half) for _ in range(2 * PLACES)]
        assert (await asked(port)).endswith(b"ok\n")
        ends = [reader.read(1) for reader, _ in held[:PLACES] if half == b""]
        assert all(
            end in (b"", None) for end in await asyncio.gather(*ends, return_exceptions=False)
        )
        for _, writer in held:
            writer.transport.abort()

    assert not with_http(talk)._open


def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 0.02)

    async def talk(port: int) -> None:
        for half in (b"", b"GET /hea", b"GET /metrics HTTP/1.1\r\n\r\n"):
            reader, writer = await opened(port, half)
            if half.endswith(b"\r\n\r\n"):  # it never reads its answer: cut off, not kept
                await asyncio.sleep(0.1)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await asyncio.wait_for(reader.readexactly(64 << 20), 10)
            writer.transport.abort()

    assert not with_http(talk)._open


def test_a_request_that_is_longer_than_any_of_ours_is_closed() -> None:
    async def talk(port: int) -> None:
        try:
            assert await asked(port, b"GET /" + b"x" * (2 * http.REQUEST_BYTES_MAX)) == b""
        except ConnectionError:
            return  # closed before it had sent all

    with_http(talk)
