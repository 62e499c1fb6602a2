"""What all streams of one sidecar share: who it is, its clock, its limits, how much it keeps."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

from gapless.journal.segment import SEGMENT_BYTES
from gapless.journal.writer import BASE_BYTES
from gapless.protocol.errors import Misuse
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.peer_outputs import Peer

DRAIN_S = 10.0
"""How long a stream may take to make durable what it holds and to close."""
PIECES = 4
"""Of `retain_bytes`, how many segments there are: a part of one more than is wanted is kept."""
PIECE_BYTES_MIN = 1 << 20
"""Of such a segment: smaller ones cost more files than they save bytes."""


@dataclass(frozen=True, slots=True)
class StreamRetention:
    """How much of an output stays on disk; without either, all of it."""

    seconds: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("retain_s", self.seconds), ("retain_bytes", self.bytes)):
            if value is not None and (type(value) is not int or value < 1):
                raise Misuse(f"{name} {value!r}: a whole number, 1 or more")

    @property
    def is_wanted(self) -> bool:
        """Whether anything may ever go."""
        return self.seconds is not None or self.bytes is not None

    @property
    def segment_bytes(self) -> int:
        """How large a segment is; whole ones go, so a small output has small ones."""
        if self.bytes is None:
            return SEGMENT_BYTES
        return min(SEGMENT_BYTES, max(PIECE_BYTES_MIN, self.bytes // PIECES))

    @property
    def base_bytes(self) -> int:
        """How much there is from one base to the next: what lies before a base may go."""
        return BASE_BYTES if self.bytes is None else min(BASE_BYTES, self.segment_bytes)


def now_ms() -> int:
    """The clock of all machines: it never goes back."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970: what journals say of when they were written."""
    return time.time_ns() // 1_000_000


def process_token() -> str:
    """A name that no other process of any machine has."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid4().hex[:12]}"


@dataclass(slots=True)
class Setup:
    """What a stream is opened with."""

    slot: str
    """The sidecar's name, which stays as long as its directory does."""
    term: int
    """Which life of the sidecar it is."""
    limits: Limits
    retention: StreamRetention
    at_lost: Callable[[str, str], None]
    """Called with a stream's name and the reason, on the loop's thread, once it has ended."""
    token: str = field(default_factory=process_token)
    now_ms: Callable[[], int] = now_ms
    wall_ms: Callable[[], int] = wall_ms
    drain_s: float = DRAIN_S
    peer: Peer | None = None
    """A sidecar with the same streams, from which this one catches up."""
    fenced: str | None = None
    """Why this sidecar's directory is not its own any more."""
    _lives: count[int] = field(default_factory=lambda: count(1))
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def next_life(self) -> int:
        """The number of the next life of any stream's merger; for any thread."""
        with self._guard:
            return next(self._lives)
