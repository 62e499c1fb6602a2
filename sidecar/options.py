"""What both ends of every connection know: how large a message is, keepalive, and what is here."""

from __future__ import annotations

import ipaddress

KEEPALIVE_MS = 10_000
"""A connection on which nothing comes is asked whether it is there, after so long, ..."""
KEEPALIVE_ANSWER_MS = 5_000
"""... and is closed where it does not answer within that."""


def channel_options(frame_bytes_max: int) -> list[tuple[str, int]]:
    """Of both ends of every connection."""
    room = frame_bytes_max + (64 << 10)  # what is around a body
    return [
        ("grpc.max_receive_message_length", room),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT is of this machine, for sure: a name may be anybody's, whatever it begins
    with.
    """
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
