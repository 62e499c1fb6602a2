"""Running: one sidecar as a process, from its settings to its end.

settings --> server, HTTP --> serves --SIGTERM, Ctrl-C, Drain--> drains --> 0
'--the directory is another's---------> 2
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

from gapless.protocol.errors import Fenced
from gapless.sidecar.server.access import Access
from gapless.sidecar.server.http import Http
from gapless.sidecar.server.metrics import Metrics
from gapless.sidecar.server.peer_outputs import Peer
from gapless.sidecar.server.server import Server
from gapless.sidecar.server.settings import SidecarSettings
from gapless.sidecar.server.tls import Certificates

SWITCH_S = 0.001
"""How long one thread keeps another from running: the loop should not wait five milliseconds for
its turn, as by Python's default, whenever a thread has read the disk."""


async def serve(settings: SidecarSettings, started: Callable[[int, int | None], None]) -> str:
    """Serves until it is told to stop; why it did. `started` is called with the ports of gRPC and
    HTTP. Raises `GaplessError`, `Fenced` where another sidecar has taken the directory.
    """
    sys.setswitchinterval(SWITCH_S)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = Server(
        settings.data,
        limits=settings.limits,
        retention=settings.retention,
        access=Access(settings.tokens),
        reflects=settings.reflection,
        drain_s=settings.drain_s,
        streams=settings.streams,
        peer=Peer.of_settings(
            settings.peer,
            settings.peer_ca,
            settings.peer_token_file,
            settings.peer_certificate,
            settings.peer_key,
        ),
    )
    credentials = None
    if settings.tls_certificate:
        certificates = Certificates(
            settings.tls_certificate, settings.tls_key, settings.tls_client_ca
        )
        credentials = certificates.credentials()
    port = server.listen(settings.listen, credentials)
    http = Http(
        Metrics(server.registry, server.counters, lambda: server.problem), lambda: server.problem
    )
    http_port = await http.listen(settings.http) if settings.http else None
    await server.start()
    started(port, http_port)
    try:
        reason = await server.run(stop)
    finally:
        http.close()
    if server.registry.setup.fenced is not None:
        raise Fenced(f"another sidecar has taken {settings.data}: {server.registry.setup.fenced}")
    return reason
