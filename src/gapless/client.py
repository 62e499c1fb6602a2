"""The client of a sidecar: push one copy of a stream, or read the merged stream.

    from gapless.client import Consumer, Producer, table

Programs in other languages use gRPC: protocol/gapless.proto, and docs/sidecar.md for every byte.
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
