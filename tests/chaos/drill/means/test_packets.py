"""Packets are read as they were built, RSTs have the number that is expected, sums are right."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gapless.chaos.drill.means.packets import (
    ACK,
    FIN,
    NUMBERS,
    RST,
    SYN,
    Segment,
    checksum,
    is_later,
    reset_answering,
    segment_of,
    tcp_packet,
)

A, B = bytes([10, 1, 2, 1]), bytes([10, 1, 2, 2])

numbers = st.integers(0, NUMBERS - 1)
ports = st.integers(0, 65_535)


def slow_checksum(data: bytes) -> int:
    """RFC 1071 as it is told: add with carry, word by word, then the complement."""
    total = 0
    for at in range(0, len(data), 2):
        total += data[at] << 8 | (data[at + 1] if at + 1 < len(data) else 0)
        if total > 0xFFFF:
            total -= 0xFFFF
    return ~total & 0xFFFF


def pseudo(packet: bytes) -> bytes:
    """What TCP's checksum is taken over."""
    return packet[12:20] + bytes([0, 6]) + (len(packet) - 20).to_bytes(2, "big") + packet[20:]


@given(st.binary(max_size=200))
def test_the_checksum_is_that_of_its_definition(data: bytes) -> None:
    assert checksum(data) == slow_checksum(data)


def test_the_checksum_of_the_rfcs_example() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF & ~0xDDF2


@given(ports, ports, numbers, numbers, st.integers(0, 63), st.binary(max_size=50))
def test_a_packet_is_read_as_it_was_built(
    source: int, target: int, seq: int, ack: int, flags: int, payload: bytes
) -> None:
    segment = Segment(source, target, seq, ack, flags, len(payload))
    packet = tcp_packet(A, B, segment, payload)
    assert segment_of(packet) == segment == segment_of(memoryview(packet))
    assert slow_checksum(packet[:20]) == 0
    assert slow_checksum(pseudo(packet)) == 0


@given(st.data())
def test_a_packet_with_a_flipped_bit_has_a_wrong_sum(data: st.DataObject) -> None:
    packet = bytearray(tcp_packet(A, B, Segment(1, 2, 3, 4, ACK, 5), b"hello"))
    bit = data.draw(st.integers(0, len(packet) * 8 - 1))
    packet[bit // 8] ^= 1 << bit % 8
    assert slow_checksum(bytes(packet[:20])) != 0 or slow_checksum(pseudo(bytes(packet))) != 0


def test_what_is_no_whole_tcp_segment_is_none() -> None:
    packet = tcp_packet(A, B, Segment(1, 2, 3, 4, ACK, 0))
    udp = bytearray(packet)
    udp[9] = 17
    later = bytearray(packet)
    later[7] = 1  # a fragment's offset
    long_head = bytearray(packet)
    long_head[32] = 15 << 4
    assert segment_of(bytes(udp)) is None
    assert segment_of(bytes(later)) is None
    assert segment_of(bytes(long_head)) is None
    assert segment_of(packet[:39]) is None


@given(numbers, numbers, st.booleans())
def test_an_answering_reset_has_the_number_that_its_receiver_expects(
    seq: int, ack: int, is_first: bool
) -> None:
    sent = Segment(40, 22, seq, 0 if is_first else ack, SYN if is_first else ACK, 0)
    answer = reset_answering(A, B, sent)
    assert answer is not None
    assert answer[12:20] == B + A
    found = segment_of(answer)
    assert found is not None
    assert (found.from_port, found.to_port, found.flags) == (22, 40, RST | ACK)
    assert found.seq == (0 if is_first else ack), "RFC 793: the ack of the segment, or 0"
    assert found.ack == (seq + is_first) % NUMBERS, "a SYN is acked as one byte"


def test_a_reset_is_not_answered() -> None:
    assert reset_answering(A, B, Segment(40, 22, 1, 2, RST | ACK, 0)) is None


@given(numbers, st.integers(1, NUMBERS // 2 - 1))
def test_later_is_later_around_the_wrap(number: int, by: int) -> None:
    assert is_later((number + by) % NUMBERS, number)
    assert not is_later(number, (number + by) % NUMBERS)
    assert not is_later(number, number)


@pytest.mark.parametrize(("flags", "end"), [(ACK, 5), (SYN, 6), (FIN | ACK, 6)])
def test_syn_and_fin_count_as_a_byte(flags: int, end: int) -> None:
    assert Segment(1, 2, NUMBERS - 5, 0, flags, 10).end == end
