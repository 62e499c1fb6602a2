"""The client of a sidecar, for programs: `from gapless.client import Consumer, Producer`."""

from gapless.sidecar.client import (
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Credentials,
    Delivered,
    Denied,
    Producer,
    table,
)

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
