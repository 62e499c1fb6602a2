"""Calls of a disk that fail: whatever a real one raises, wherever it may raise it.

    at 310 ms: EIO at sync              from then on the next sync of any process fails, once
    at 90 ms: a peer's output, EIO      the next call of a merger that reads the other's output
    written by producers                never: they are no part of the job

Beside what a simulated disk does anyway (it is full, it tears, bits flip), in a small share of the
runs single calls raise an error out of the blue. What the job makes of it is up to its
interpreters (failover/io/) and to those that start processes.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal.disk import Mapped
from gapless.protocol.errors import JournalError

SHARE = 0.1
"""Of all runs, those in which calls fail."""
ERRORS_MAX = 4
"""Calls that fail in such a run: each ends a life, mostly."""
PEER_SHARE = 0.3
"""Of all runs, those in which a merger that reads the other's output fails to once. Few have to."""
FIRST_MS = 60

Call = Literal[
    "size",
    "exists",
    "create",
    "append",
    "write_ahead",
    "sync",
    "put",
    "read",
    "map",
    "expect",
    "truncate",
    "link",
    "unlink",
    "list",
    "free_bytes",
    "close",
]
CALLS: tuple[Call, ...] = get_args(Call)
"""Of the interface: journal/disk.py."""
Kind = Literal["EIO", "ENOSPC", "JournalError", "DiskFull", "Fenced"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What may come of a disk at work, or of what stands on it."""

_NO_ROOM = "it takes no room"
_APPEND_ALONE = "a disk says so of an append alone, of which it could not take a part back"
_OF_JOURNALS = "no disk says so: journals make it of ENOSPC, which is raised here"
_OF_WRITERS = "no disk knows who writes: journals find another's epoch, as takeovers make them"
CANNOT_BE: Mapping[tuple[Call, Kind], str] = {
    **dict.fromkeys(
        [(c, "ENOSPC") for c in ("size", "exists", "read", "map", "expect", "list", "free_bytes")],
        _NO_ROOM,
    ),
    ("truncate", "ENOSPC"): _NO_ROOM,
    ("expect", "EIO"): "of sources whose partitions Spark has written: no workload has such",
    **{(call, "JournalError"): _APPEND_ALONE for call in CALLS if call != "append"},
    **{(call, "DiskFull"): _OF_JOURNALS for call in CALLS},
    **{(call, "Fenced"): _OF_WRITERS for call in CALLS},
}
"""By call, which errors no process of a simulated job sees, and why."""
CAN_BE = [(call, kind) for call in CALLS for kind in KINDS if (call, kind) not in CANNOT_BE]
"""All others."""


class DiskError(NamedTuple):
    """One call that fails: the first of its kind from a time on."""

    at: int
    call: Call
    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind} at the next {self.call} from {self.at} on"

    def made(self, name: str) -> Exception:
        """What is raised."""
        match self.kind:
            case "EIO":
                return OSError(errno.EIO, f"{self.call} has failed", name)
            case "ENOSPC":
                return OSError(errno.ENOSPC, f"there is no room for {self.call}", name)
        return JournalError(f"{name}: a part of what was appended cannot be cut off again")


def drawn(seed: int, until: int) -> Sequence[DiskError]:
    """Those of a seed's run, in the order of their times; none in most."""
    rng = random.Random(f"disk errors {seed}")
    if rng.random() >= SHARE:
        return ()
    count = rng.randint(1, ERRORS_MAX)
    times = sorted(rng.randint(FIRST_MS, max(FIRST_MS, until)) for _ in range(count))
    return [DiskError(at, *rng.choice(CAN_BE)) for at in times]


def fails_for_a_peer(seed: int) -> bool:
    """Whether a merger of a seed's run fails to read the other's output, the first time."""
    return random.Random(f"peer errors {seed}").random() < PEER_SHARE


class Errors:
    """Those of a run, until each was raised."""

    def __init__(
        self,
        errors: Sequence[DiskError],
        now_ms: Callable[[], int],
        on_error: Callable[[DiskError, str], None],
    ) -> None:
        """`on_error` hears each, and the file, before it is raised."""
        self._left = list(errors)
        self._now_ms = now_ms
        self._on_error = on_error
        self.raised: list[DiskError] = []
        """Those that were."""

    def next(self, call: Call, name: str) -> Exception | None:
        """What a call is to raise now, if anything."""
        for error in self._left:
            if error.call == call and error.at <= self._now_ms():
                self._left.remove(error)
                self.raised.append(error)
                self._on_error(error, name)
                return error.made(name)
        return None


class FailingDisk:
    """A simulated disk as the processes of a job reach it: some calls fail."""

    def __init__(self, disk: SimulatedDisk, errors: Errors) -> None:
        self._disk = disk
        self._errors = errors

    def _may(self, call: Call, name: str) -> None:
        if (error := self._errors.next(call, name)) is not None:
            raise error

    # -- the interface ------------------------------------------------------------------------

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        self._may("size", name)
        return self._disk.size(name)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        self._may("exists", name)
        return self._disk.exists(name)

    def create(self, name: str, data: bytes) -> None:
        """Makes a file that is not there."""
        self._may("create", name)
        self._disk.create(name, data)

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, all or none, or it cannot be brought back to that."""
        if (error := self._errors.next("append", name)) is not None:
            if isinstance(error, JournalError):
                self._disk.append(name, data[: len(data) // 2])
            raise error
        return self._disk.append(name, data)

    def write_ahead(self, name: str, size: int) -> None:
        """Zeros behind the end of a file, safe with all before them."""
        self._may("write_ahead", name)
        self._disk.write_ahead(name, size)

    def sync(self, name: str) -> None:
        """Nothing appended so far can be lost any more, nor the name."""
        self._may("sync", name)
        self._disk.sync(name)

    def put(self, name: str, data: bytes) -> None:
        """Overwrites the start of a file."""
        self._may("put", name)
        self._disk.put(name, data)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        self._may("read", name)
        return self._disk.read(name, offset, length)

    def map(self, name: str, length: int) -> Mapped:
        """The first bytes, not copied."""
        self._may("map", name)
        return self._disk.map(name, length)

    def expect(self, name: str) -> None:
        """Memory is as near as it gets."""
        self._may("expect", name)
        self._disk.expect(name)

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes."""
        self._may("truncate", name)
        self._disk.truncate(name, size)

    def link(self, source: str, name: str) -> None:
        """Both names mean one file from now on."""
        self._may("link", name)
        self._disk.link(source, name)

    def unlink(self, name: str) -> None:
        """Takes a name away."""
        self._may("unlink", name)
        self._disk.unlink(name)

    def list(self, folder: str) -> list[str]:
        """The names in a folder, in order."""
        self._may("list", folder)
        return self._disk.list(folder)

    def free_under(self, prefix: str) -> int:
        """What may still be written under a prefix."""
        self._may("free_bytes", prefix)
        return self._disk.free_under(prefix)

    def free_bytes(self) -> int:
        """What fits beside what is there."""
        return self.free_under("")

    def close(self, name: str) -> None:
        """Nothing is kept open."""
        self._may("close", name)
        self._disk.close(name)
