"""A thread in another network namespace for a while: what it starts and opens meanwhile is there.

    with inside("/proc/4711/fd/9"):      a file descriptor of a namespace that somebody holds
        subprocess.Popen(...)            it and its children see that network, for good

A namespace is a thread's, and new threads and processes inherit it from the one that starts them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

NEW_NETWORK = 0x40000000
"""CLONE_NEWNET, for setns(2) and unshare(2)."""
OWN = "/proc/thread-self/ns/net"
"""The namespace of the process that opens it."""
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(path: str | None) -> Iterator[None]:
    """Has this thread in the namespace at a path; with None it stays where it is. Raises `OSError`
    where it may not enter, or the namespace is gone.
    """
    if path is None:
        yield
        return
    own = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter(other)
        finally:
            os.close(other)
        try:
            yield
        finally:
            enter(own)
    finally:
        os.close(own)


def enter(namespace: int) -> None:
    """Moves this thread into a namespace, by its file descriptor."""
    _checked(_LIBC.setns(namespace, NEW_NETWORK))


def leave_for_a_new_one() -> None:
    """Moves this thread into a network namespace that nobody else has, empty."""
    _checked(_LIBC.unshare(NEW_NETWORK))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
