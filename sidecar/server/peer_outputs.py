"""Peering: what this sidecar's output lacks, read from another sidecar's.

    ReadPeer(since)   the first: subscribe from that time on --> a reset: every event since then
                      later:     the next delivery of that call, or nothing yet
    ClosePeer         the producers can lead the output on again

A sidecar that was away for longer than producers wait is told less than it needs. The merger sees
that nobody can lead its output on, and asks for its peer's (failover/merger/backfill.py), which
describes
the same table. A call that breaks is made again from the last token on: nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from gapless.failover.merger import effects as ask
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import BadData, GaplessError, Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.assembly import Assembler, Delivered
from gapless.sidecar.client.connection import (
    NOBODY,
    SERVICE,
    Credentials,
    client_options,
    tls_credentials,
)

WAIT_S = 0.05
"""How long a read waits for the next delivery before it answers that there is none yet."""
AGAIN_S = 0.5
"""Before a call that broke is made again."""


@dataclass(frozen=True)
class Peer:
    """Another sidecar, and what it is shown."""

    address: str
    shown: Credentials = NOBODY

    @staticmethod
    def of_settings(
        address: str, ca: str, token_file: str, certificate: str, key: str
    ) -> Peer | None:
        """As settings say; None where they name none. Raises `Misuse`, also where what is shown
        does not read or may not be sent there.
        """
        if not address:
            return None
        try:
            token = Path(token_file).read_text().strip() if token_file else None
        except (OSError, UnicodeError) as e:
            raise Misuse(f"peer_token_file: {e}") from None
        shown = Credentials(token, ca or None, certificate or None, key or None)
        client_options(address, shown)
        if shown.ca is not None:
            tls_credentials(shown)
        return Peer(address, shown)

    def channel(self) -> Any:
        """A channel of the loop that runs."""
        options = client_options(self.address, self.shown)
        if self.shown.ca is None:
            return grpc.aio.insecure_channel(self.address, options)
        return grpc.aio.secure_channel(self.address, tls_credentials(self.shown), options)


class PeerOutputs:
    """One stream's reads of its peer. On the loop's thread; one read is under way at a time."""

    def __init__(
        self,
        peer: Peer,
        stream: str,
        happens: Callable[[ask.PeerRead], None],
        alarm: Callable[[str], None],
    ) -> None:
        self._peer = peer
        self._stream = stream
        self._happens = happens
        self._alarm = alarm
        self._channel: Any = None
        self._call: Any = None
        self._pending: asyncio.Task[Any] | None = None
        self._assembler = Assembler()
        self._token = ""
        self._join_at = BEGIN
        self._again_at = 0.0
        self._said = ""
        self._reading: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def read(self, effect: ask.ReadPeer) -> None:
        """Begins a read; its answer is an event."""
        self._reading = asyncio.create_task(self._read(effect), name=f"peer of {self._stream}")

    def close(self) -> None:
        """Reads no more; what is asked next begins anew."""
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._drop()
        self._token, self._said = "", ""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._closing = asyncio.create_task(channel.close())

    async def _read(self, effect: ask.ReadPeer) -> None:
        delivered: Delivered | None = None
        try:
            delivered = await self._next(effect.since)
        except (grpc.aio.AioRpcError, GaplessError) as e:
            what = e.details() if isinstance(e, grpc.aio.AioRpcError) else str(e)
            self._drop()
            self._again_at = asyncio.get_running_loop().time() + AGAIN_S
            if what != self._said:
                self._said = what
                self._alarm(f"its peer {self._peer.address} cannot be read: {what}")
        if delivered is None:
            self._happens(ask.PeerRead(effect.peer, None, self._join_at))
            return
        self._happens(ask.PeerRead(effect.peer, delivered.frame, self._join_at))

    async def _next(self, since: int) -> Delivered | None:
        if asyncio.get_running_loop().time() < self._again_at:
            await asyncio.sleep(WAIT_S)
            return None
        if self._call is None:
            self._open(since)
        while True:
            if self._pending is None:
                self._pending = asyncio.ensure_future(self._call.read())
            done, _ = await asyncio.wait({self._pending}, timeout=WAIT_S)
            if not done:
                return None
            delivery, self._pending = self._pending.result(), None
            if delivery is grpc.aio.EOF:
                await self._call.code()
                self._drop()
                return None
            delivered = self._assembler.take(delivery)
            if delivered is None:
                continue
            if delivered.reset and self._token:
                raise BadData("it has another journal than the one that was read so far")
            if delivered.reset:
                self._join_at = delivered.since
            self._token = delivered.token
            return delivered

    def _open(self, since: int) -> None:
        if self._channel is None:
            self._channel = self._peer.channel()
        request = pb.SubscribeRequest(stream=self._stream, subscriber="peer")
        if self._token:
            request.token = self._token
        elif since == BEGIN:
            request.edge = pb.EDGE_BEGIN
            self._join_at = BEGIN
        else:
            request.time = since
        self._assembler = Assembler()
        shown = self._peer.shown
        self._call = self._channel.unary_stream(
            f"{SERVICE}Subscribe", pb.SubscribeRequest.SerializeToString, pb.Delivery.FromString
        )(request, metadata=shown.metadata)

    def _drop(self) -> None:
        pending, self._pending = self._pending, None
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        if pending is not None:
            pending.cancel()
