"""TUN devices: network interfaces of which the other end is a file descriptor of ours.

    host 2 (a namespace)                                 the switch
    socket --- kernel's TCP/IP --- gl0 10.201.7.2/24 === fd: read a packet, write a packet

Devices and namespaces have no names outside and live by their descriptors: when the process that
holds them ends, however it does, the kernel removes them.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

from gapless.actors.namespaces import OWN, enter, leave_for_a_new_one
from gapless.chaos.drill.means.packets import MTU_BYTES
from gapless.protocol.errors import Misuse

TUN = "/dev/net/tun"
ROUTES = Path("/proc/net/route")
"""Of the reading process's namespace."""
_SET_TUN = 0x400454CA  # TUNSETIFF
_IS_TUN, _NO_HEADER = 0x0001, 0x1000  # IFF_TUN, IFF_NO_PI
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_SET_ADDRESS, _SET_MASK, _SET_MTU = 0x8916, 0x891C, 0x8922
_UP = 0x1
_NAME = struct.Struct("16sH22x")


def opened(address: bytes) -> int:
    """A new device in this thread's namespace, up, with an address in a network of 256; its file
    descriptor, which does not block.
    """
    tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        made = fcntl.ioctl(tun, _SET_TUN, _NAME.pack(b"gl%d", _IS_TUN | _NO_HEADER))
        name = made[:16]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            _set(control, _SET_ADDRESS, name, _address(address))
            _set(control, _SET_MASK, name, _address(b"\xff\xff\xff\x00"))
            _set(control, _SET_MTU, name, struct.pack("i20x", MTU_BYTES))
            _raise_up(control, name)
    except BaseException:
        os.close(tun)
        raise
    return tun


def new_namespace(address: bytes) -> tuple[int, int]:
    """A namespace with `lo` and a device; their file descriptors. This thread stays where it is."""
    own = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        leave_for_a_new_one()
        try:
            namespace = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                _raise_up(control, b"lo")
            return namespace, opened(address)
        finally:
            enter(own)
    finally:
        os.close(own)


def free_prefix() -> tuple[bytes, socket.socket]:
    """Three bytes of a network 10.x.y.0/24 that no route of this machine leads to, and what holds
    it against other switches as long as it is open.
    """
    taken = _routes()
    for number in range(os.getpid(), os.getpid() + (1 << 16)):
        x, y = (number >> 8) % 256, number % 256
        if any(_leads_to(route, 10 << 24 | x << 16 | y << 8) for route in taken):
            continue
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(f"\0gapless-switch-10.{x}.{y}")  # abstract: gone with its last descriptor
        except OSError:
            lock.close()
            continue
        return bytes([10, x, y]), lock
    raise Misuse("all of 10.0.0.0/8 is routed on this machine: no network is free for a switch")


def _routes() -> list[tuple[int, int]]:
    """Network and mask of each, except for the default."""
    found = []
    for line in ROUTES.read_text("ascii").splitlines()[1:]:
        words = line.split()
        network, mask = (socket.ntohl(int(words[at], 16)) for at in (1, 7))
        if mask:
            found.append((network, mask))
    return found


def _leads_to(route: tuple[int, int], network: int) -> bool:
    """Whether a route and a network of 256 share an address."""
    shared = route[1] & 0xFFFFFF00
    return route[0] & shared == network & shared


def _address(address: bytes) -> bytes:
    return struct.pack("=HH4s16x", socket.AF_INET, 0, address)


def _set(control: socket.socket, what: int, name: bytes, value: bytes) -> None:
    fcntl.ioctl(control, what, struct.pack("16s24s", name, value))


def _raise_up(control: socket.socket, name: bytes) -> None:
    asked = fcntl.ioctl(control, _GET_FLAGS, struct.pack("16s24x", name))
    (flags,) = struct.unpack_from("16xH", asked)
    _set(control, _SET_FLAGS, name, struct.pack("H22x", flags | _UP))
