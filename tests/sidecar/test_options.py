"""What both ends of a connection agree on: room for a frame, keepalive, and what is local."""

from __future__ import annotations

import pytest

from gapless.sidecar.options import (
    KEEPALIVE_ANSWER_MS,
    KEEPALIVE_MS,
    channel_options,
    is_loopback,
)


def test_a_message_has_room_for_the_largest_frame_and_what_is_around_it() -> None:
    options = dict(channel_options(1 << 20))
    assert options["grpc.max_receive_message_length"] >= (1 << 20) + (64 << 10)


def test_an_idle_connection_is_asked_and_waits_less_for_the_answer_than_for_the_question() -> None:
    options = dict(channel_options(1))
    assert options["grpc.keepalive_time_ms"] == KEEPALIVE_MS
    assert options["grpc.keepalive_timeout_ms"] == KEEPALIVE_ANSWER_MS < KEEPALIVE_MS
    assert options["grpc.keepalive_permit_without_calls"]


@pytest.mark.parametrize(
    "address", ["localhost:1", "127.0.0.1:50051", "127.8.9.10:1", "[::1]:50051", "::1:50051"]
)
def test_an_address_of_this_machine_is_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0:50051",
        "[::]:50051",
        "10.0.0.1:50051",
        "localhost.evil.example:50051",
        "127.0.0.1.evil.example:50051",
        "sidecar:50051",
        ":50051",
    ],
)
def test_an_address_that_may_be_of_another_machine_is_not(address: str) -> None:
    assert not is_loopback(address)
