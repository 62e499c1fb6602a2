"""The client of a sidecar: push one copy of a stream, read the one that comes of all copies.

    from gapless.client import Consumer, Producer, table

Programs in other languages speak gRPC: protocol/gapless.proto, and docs/sidecar.md byte by byte.
"""

from gapless.sidecar.assembly import Delivered
from gapless.sidecar.client.async_client import AsyncConsumer, AsyncProducer
from gapless.sidecar.client.connection import Credentials, Denied
from gapless.sidecar.client.consumer import Consumer, table
from gapless.sidecar.client.producer import Producer

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "Credentials",
    "Delivered",
    "Denied",
    "Producer",
    "table",
]
