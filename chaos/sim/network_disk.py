"""A simulated disk that several machines reach over a network: what a client of NFS does to it.

    m0.1 on alpha      is epoch 4 there?  no             ... still no: alpha remembers the answer
    m0.1 on beta                          makes epoch 4

A client remembers for a while that there is no such name, and does not ask again. The server is
asked each time, as by NFS, what is in a file that is there (close-to-open), what a folder has
(listing it opens it, and what was believed of its names is forgotten), and whether a name may be
made. And an answer may be lost: then the client asks again, and hears that the name, which it has
just made, is taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from gapless.chaos.sim.disk import Files, Names, View
from gapless.journal.disk import Mapped

SHARE = 0.5
"""Of all runs, those whose outputs are on such a disk."""
STALE_MS = (20, 300, 60_000)
"""How long a client believes that a name is not there; the last is NFS's own default, and longer
than most runs."""
LOST_SHARES = (0.0, 0.05, 0.5)
"""Of names that are made, those whose answer is lost."""


class Reach(NamedTuple):
    """How machines reach a disk."""

    stale_ms: int
    lost_share: float

    @staticmethod
    def drawn(rng: random.Random) -> Reach:
        """That of one run; a local disk, where nothing is stale or lost, among them."""
        if rng.random() >= SHARE:
            return Reach(0, 0.0)
        return Reach(rng.choice(STALE_MS), rng.choice(LOST_SHARES))


class Client:
    """One machine, and what it believes of a disk."""

    def __init__(
        self, disk: Files, reach: Reach, rng: random.Random, now_ms: Callable[[], int]
    ) -> None:
        self.disk = disk
        self.reach = reach
        self._rng = rng
        self._now_ms = now_ms
        self._absent: dict[str, int] = {}  # names that are not there, it believes, until then
        self.stale_answers = 0
        """That said of a name, which was there, that it is not."""
        self.lost_answers = 0

    def view(self, prefix: str) -> ClientView:
        """A folder of the disk, as this machine sees it."""
        return ClientView(self, prefix)

    def forget(self) -> None:
        """The machine starts anew."""
        self._absent.clear()

    def misses(self, name: str) -> bool:
        """Whether it says of a name, without asking or after it has asked, that it is not there."""
        is_there = self.disk.exists(name)
        if self._now_ms() < self._absent.get(name, 0):
            self.stale_answers += is_there
            return True
        if is_there:
            self._absent.pop(name, None)
        else:
            self._absent[name] = self._now_ms() + self.reach.stale_ms
        return not is_there

    def knows(self, name: str) -> None:
        """It has asked the server to make a name, or to open one to write: it is there now."""
        self._absent.pop(name, None)

    def has_listed(self, folder: str) -> None:
        """It has opened a folder: of what is in it nothing is believed any more."""
        start = f"{folder}/"
        for name in [n for n in self._absent if n.startswith(start)]:
            del self._absent[name]

    def loses_answer(self) -> bool:
        """Whether the answer to what was just made is lost on its way."""
        is_lost = self._rng.random() < self.reach.lost_share
        self.lost_answers += is_lost
        return is_lost


class ClientView(View):
    """A folder of a simulated disk, over the network."""

    __slots__ = ("client",)

    def __init__(self, client: Client, prefix: str) -> None:
        super().__init__(client.disk, prefix)
        self.client = client

    def exists(self, name: str) -> bool:
        """Whether there is such a file, as far as this machine knows."""
        return not self.client.misses(self._start + name)

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        return 0 if self.client.misses(self._start + name) else super().size(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        return b"" if self.client.misses(self._start + name) else super().read(name, offset, length)

    def map(self, name: str, length: int) -> Mapped:
        """The first bytes, not copied."""
        if self.client.misses(self._start + name):
            raise FileNotFoundError(name)
        return super().map(name, length)

    def create(self, name: str, data: bytes) -> None:
        """Makes a file that is not there."""
        self.client.knows(self._start + name)
        super().create(name, data)
        if self.client.loses_answer():
            self.is_asked_again(name)

    def link(self, source: str, name: str) -> None:
        """Both names mean one file from now on."""
        self.client.knows(self._start + name)
        super().link(source, name)
        if self.client.loses_answer():
            self.is_asked_again(name)

    def is_asked_again(self, name: str) -> None:
        """The server says that the name is taken; by this very file, as the inode shows: one that
        looks takes it for its own. One that does not look raises here.
        """

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, all or none; returns the new size."""
        self.client.knows(self._start + name)
        return super().append(name, data)

    def write_ahead(self, name: str, size: int) -> None:
        """Nothing gained over a network; on a local disk zeros behind the end of a file."""
        if not self.client.reach.stale_ms:
            super().write_ahead(name, size)

    def put(self, name: str, data: bytes) -> None:
        """Overwrites the start of a file."""
        self.client.knows(self._start + name)
        super().put(name, data)

    def list(self, folder: str) -> Names:
        """The names in a folder, in order."""
        self.client.has_listed(self._start + folder if folder else self.prefix)
        return super().list(folder)
