"""The server: a sidecar that listens, reports its health, and stops in order.

    starting --> serving --SIGTERM, Drain--> draining --> stopped
                    '----- directory taken over ------------^

Health (grpc.health.v1) answers SERVING where the data path is whole: streams are open, none is
lost, and the loop that merges turns. While draining, producers are sent away first, then what was
taken in is made durable and journals are closed with a base, so that a restart is quick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gapless.protocol.errors import Misuse
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import Definition
from gapless.sidecar.options import channel_options
from gapless.sidecar.server import grpc_server, reflection
from gapless.sidecar.server.access import Access
from gapless.sidecar.server.counters import Counters
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.peer_outputs import Peer
from gapless.sidecar.server.registry import STOPS, Registry
from gapless.sidecar.server.service import NAME, Service
from gapless.sidecar.server.setup import DRAIN_S, StreamRetention

PINGS_MIN_MS = 5_000
"""A client may ask the same of us, no more often: more is an attack."""
HEADER_BYTES_MAX = 16 << 10
"""Of a call's headers: a token, and some names."""
HEALTH_S = 0.25
"""Between two looks at the data path."""
GRACE_S = 2.0
"""For calls that are under way when the server stops, once their streams have ended."""

_log = logging.getLogger("gapless.sidecar")


class Server:
    """One sidecar. Made and used on the loop's thread."""

    def __init__(
        self,
        data: str | Path,
        *,
        limits: Limits | None = None,
        retention: StreamRetention | None = None,
        access: Access | None = None,
        reflects: bool = True,
        drain_s: float = DRAIN_S,
        streams: Sequence[Definition] = (),
        peer: Peer | None = None,
    ) -> None:
        """Takes the directory over. Raises `GaplessError`: `Misuse` where it cannot write there."""
        self.limits = limits or Limits()
        self.counters = Counters()
        try:
            self.registry = Registry(data, self.limits, retention or StreamRetention())
        except OSError as e:
            raise Misuse(f"data = {str(data)!r}: cannot be written to: {e.strerror or e}") from None
        self.registry.setup.drain_s = drain_s
        self.registry.setup.peer = peer
        self._defined = tuple(streams)
        self.service = Service(self.registry, access or Access(), self.counters)
        self.health = health.aio.HealthServicer()
        self._server = grpc_server.server(
            [
                *channel_options(self.limits.frame_bytes_max),
                ("grpc.so_reuseport", 0),
                ("grpc.max_metadata_size", HEADER_BYTES_MAX),
                ("grpc.http2.min_ping_interval_without_data_ms", PINGS_MIN_MS),
            ]
        )
        grpc_server.register(self._server, NAME, self.service.methods())
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        if reflects:
            if NAME not in {f"{pb.DESCRIPTOR.package}.{s}" for s in pb.DESCRIPTOR.services_by_name}:
                raise Misuse(f"the protocol has no service {NAME}")
            reflection.add(self._server, [NAME, health.SERVICE_NAME])
        self._watching: asyncio.Task[None] | None = None
        self._is_stopping = False

    def listen(self, address: str, credentials: Any = None) -> int:
        """Takes an address, "127.0.0.1:0" for any free port; the port. Raises `Misuse`."""
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError:  # gRPC has written its reason to stderr, and does not hand it out
            raise Misuse(
                f"cannot listen on {address}: another program does, or it is none of this machine"
            ) from None
        return int(port)

    async def start(self) -> None:
        """Makes the streams that settings name, and begins to answer. Raises `Refusal`."""
        self.registry.start()
        for definition in self._defined:
            await self.registry.define(definition)
        await self._server.start()
        self._watching = asyncio.create_task(self._watch(), name="health")

    @property
    def problem(self) -> str | None:
        """Why the data path is not whole; None where it is."""
        registry = self.registry
        if registry.setup.fenced is not None:
            return f"another sidecar has the directory: {registry.setup.fenced}"
        if registry.is_draining or self._is_stopping:
            return "it drains"
        if not registry.is_open:
            return "it opens its streams"
        missing = [name for name in registry.names if name not in registry.streams]
        if missing:
            return f"stream {missing[0]} is not open"
        return None

    async def _watch(self) -> None:
        """Tells the health service how the data path is."""
        serving = health_pb2.HealthCheckResponse.SERVING
        failing = health_pb2.HealthCheckResponse.NOT_SERVING
        while True:
            status = serving if self.problem is None else failing
            for name in ("", NAME):
                await self.health.set(name, status)
            await asyncio.sleep(HEALTH_S)

    async def run(self, stop: asyncio.Event) -> str:
        """Serves until somebody sets `stop`, calls Drain or takes the directory, or gRPC ends by
        itself; says why.
        """
        waits = {
            asyncio.create_task(stop.wait()): "it was asked to stop",
            asyncio.create_task(self.service.drain_asked.wait()): "Drain was called",
            asyncio.create_task(self.registry.ended.wait()): "",
            asyncio.create_task(self._broken()): "gRPC broke down: nobody can call any more",
        }
        done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        reason = waits[done.pop()]
        if not reason:
            reason = self.registry.setup.fenced or "its streams have ended"
        await self.stop()
        return reason

    async def _broken(self) -> None:
        """Returns once gRPC itself has ended."""
        ended = asyncio.ensure_future(self._server.wait_for_termination())
        try:
            await asyncio.shield(ended)  # who cancels that cancels what stopping waits for
        except Exception as e:  # noqa: BLE001  # whatever it is, it serves no more
            _log.error("gRPC broke down: %s: %s", type(e).__name__, e)

    async def stop(self) -> None:
        """Drains: sends producers away, makes all durable, closes journals, ends all calls."""
        if self._is_stopping:
            return
        self._is_stopping = True
        registry = self.registry
        registry.is_draining = True
        for stream in registry.streams.values():
            stream.send_producers_away(STOPS)
        await registry.drain()
        if self._watching is not None:
            self._watching.cancel()
        await self.health.enter_graceful_shutdown()
        await self._server.stop(GRACE_S)
        await registry.close()

    async def kill(self) -> None:
        """Ends at once, as a process that dies does, except for what the kernel would close."""
        self._is_stopping = True
        if self._watching is not None:
            self._watching.cancel()
        await self._server.stop(None)
        await self.registry.close()
