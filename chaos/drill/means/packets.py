"""IPv4 and TCP as far as a switch needs them: who speaks to whom, what a segment says, and RSTs.

    0       8      9         12      16      20 (or later: options)
    +-------+------+---------+-------+-------+--------------------------------------
    | ...   | ttl  | protocol| from  | to    | ports, seq, ack, flags, ... | payload
    +-------+------+---------+-------+-------+--------------------------------------

A RST is believed only where its number is exactly what its receiver expects next (RFC 5961): an
answer to a segment has it, as the segment's own ack says what its sender expects.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

TCP = 6
"""The protocol's number in the IP header."""
FIN, SYN, RST, ACK = 1, 2, 4, 16
"""Flags of a segment."""
NUMBERS = 1 << 32
"""Sequence numbers are modulo this."""
MTU_BYTES = 65_000
"""Of the devices: just below the most that IPv4 has, so that big messages are few packets."""

_IP = struct.Struct("!BBHHHBBH4s4s")
_TCP = struct.Struct("!HHIIBBHHH")
_FRAGMENT = struct.Struct("!6xH")
_OFFSET = 0x1FFF
_NO_FRAGMENTS = 0x4000
_TTL = 64


@dataclass(frozen=True, slots=True)
class Segment:
    """What a TCP segment says, without its payload."""

    from_port: int
    to_port: int
    seq: int
    ack: int
    """What its sender expects next, where flags have ACK."""
    flags: int
    payload_bytes: int

    @property
    def end(self) -> int:
        """The number after its last: SYN and FIN count as one each."""
        extra = bool(self.flags & SYN) + bool(self.flags & FIN)
        return (self.seq + self.payload_bytes + extra) % NUMBERS


def segment_of(packet: memoryview | bytes) -> Segment | None:
    """The segment in an IPv4 packet; None of another protocol, a later fragment, or what is cut."""
    ip_bytes = (packet[0] & 15) * 4
    if packet[9] != TCP or len(packet) < ip_bytes + _TCP.size:
        return None
    if _FRAGMENT.unpack_from(packet)[0] & _OFFSET:
        return None
    from_port, to_port, seq, ack, offset, flags, *_ = _TCP.unpack_from(packet, ip_bytes)
    payload = len(packet) - ip_bytes - (offset >> 4) * 4
    if payload < 0:
        return None
    return Segment(from_port, to_port, seq, ack, flags, payload)


def reset(source: bytes, target: bytes, from_port: int, to_port: int, seq: int, ack: int) -> bytes:
    """A packet that ends its receiver's side of a connection, if `seq` is what that expects."""
    return tcp_packet(source, target, Segment(from_port, to_port, seq, ack, RST | ACK, 0))


def reset_answering(source: bytes, target: bytes, segment: Segment) -> bytes | None:
    """The RST that the sender of a segment (`source`) gets in answer, as if `target` had no such
    connection. A RST gets none.
    """
    if segment.flags & RST:
        return None
    seq = segment.ack if segment.flags & ACK else 0
    return reset(target, source, segment.to_port, segment.from_port, seq, segment.end)


def tcp_packet(source: bytes, target: bytes, segment: Segment, payload: bytes = b"") -> bytes:
    """A whole IPv4 packet, with its checksums. Addresses are four bytes each."""
    head = (segment.from_port, segment.to_port, segment.seq, segment.ack, 5 << 4, segment.flags)
    tcp = _TCP.pack(*head, 0, 0, 0) + payload
    pseudo = source + target + struct.pack("!BBH", 0, TCP, len(tcp))
    tcp = _TCP.pack(*head, 0, checksum(pseudo + tcp), 0) + payload
    size = _IP.size + len(tcp)
    start = (4 << 4 | 5, 0, size, 0, _NO_FRAGMENTS, _TTL, TCP)
    ip = _IP.pack(*start, 0, source, target)
    return _IP.pack(*start, checksum(ip), source, target) + tcp


def checksum(data: bytes) -> int:
    """The internet's (RFC 1071); 0 over data that holds a right one."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def is_later(number: int, than: int) -> bool:
    """Whether a sequence number comes after another, around the wrap."""
    return 0 < (number - than) % NUMBERS < NUMBERS // 2
