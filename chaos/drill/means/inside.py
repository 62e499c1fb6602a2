"""What is planted in every process of a job, from outside: hooks that obey orders (orders.py).

    Ray's worker_process_setup_hook --> plant()       before anything of the job runs there

      Shell.__init__, Root.__init__    say who the process is; from then on it looks for orders
      Shell.hear, Root.hear            bytes that come: a bit flips
      Shell._take, Root._take          messages that come: mishaps.py
      os.fsync, os.fdatasync           a slow disk
      time.time, time.time_ns          a wall clock that is wrong

No file of the product knows of this. Where no order holds a hook costs one look at an attribute,
and the process one `stat` every LOOK_MS; a process that nobody has planted it in, nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from typing import Any

from gapless.actors.root import Root
from gapless.actors.shell import Shell
from gapless.actors.wire import Wire
from gapless.chaos.drill.means.mishaps import HeldMessages, Mishaps, is_of
from gapless.chaos.drill.means.orders import (
    BROKEN,
    FOLDER,
    ROOT,
    Effects,
    Order,
    orders_in,
    version_of,
)
from gapless.protocol.errors import DecodeError

LOOK_MS = 20.0
"""Between two looks for orders."""


def plant() -> None:
    """The hook: once in each process, as its environment says."""
    broken, folder = os.environ.get(BROKEN), os.environ.get(FOLDER)
    if broken is not None:
        from gapless.chaos.drill.means.builds import plant_build  # it loads the simulator

        plant_build(broken)
    if folder is not None:
        plant_orders(Path(folder))


def plant_orders(folder: Path) -> Callable[[], None]:
    """Has this process obey the orders of a folder. Returns what undoes it."""
    undo, inside = ExitStack(), Inside(folder)
    undo.callback(inside.end)

    def hook(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        real = getattr(owner, name)
        undo.callback(setattr, owner, name, real)
        setattr(owner, name, wraps(real)(make(real)))

    hook(Shell, "__init__", inside.shell_begins)
    hook(Root, "__init__", inside.root_begins)
    for kind in (Shell, Root):
        hook(kind, "hear", inside.hears)
        hook(kind, "_take", inside.takes)
    for name in ("fsync", "fdatasync"):
        hook(os, name, inside.syncs)
    hook(time, "time", partial(inside.tells_time, 0.001))
    hook(time, "time_ns", partial(inside.tells_time, 1e6))
    return undo.close


class Inside:
    """What one process does on orders."""

    def __init__(self, folder: Path) -> None:
        self.who = ""
        """Its slot; nobody, as long as it is a spare."""
        self.orders: Mapping[int, Order] = {}
        """Those that it obeys now."""
        self.clock_ms = 0.0
        """By how much its clock is wrong."""
        self._folder = folder
        self._version = 0
        self._effects = Effects(folder)
        self._waiting = HeldMessages(lambda: time.monotonic() * 1_000)
        self._mishaps = Mishaps(self._waiting, self._effects.note)
        self._ends = threading.Event()

    # -- orders -------------------------------------------------------------------------------

    def begin(self, who: str) -> None:
        """It is known who this process is: orders count from now on."""
        self.who = who
        self.look()
        threading.Thread(target=self._run, name="orders", daemon=True).start()

    def end(self) -> None:
        """Obeys no more."""
        self._ends.set()
        self._waiting.came.set()
        self._obey({})

    def _run(self) -> None:
        while not self._ends.is_set():
            self._waiting.came.wait(self._waiting.due_in_ms(LOOK_MS) / 1_000)
            self._waiting.came.clear()
            self._waiting.give_due()
            self.look()

    def look(self) -> None:
        """Looks whether orders have changed."""
        version = version_of(self._folder)
        if version != self._version:
            self._version = version
            found = orders_in(self._folder)
            self._obey({n: order for n, order in found.items() if order.is_for(self.who)})

    def _obey(self, orders: Mapping[int, Order]) -> None:
        self.orders = self._mishaps.orders = orders
        self.clock_ms = sum(order.ms for order in orders.values() if order.what == "clock")
        self._waiting.let_go(orders)

    def _of(self, what: str) -> list[tuple[int, Order]]:
        return [(number, order) for number, order in self.orders.items() if order.what == what]

    # -- hooks: each takes what is really called, and returns what is called instead ----------

    def shell_begins(self, real: Callable[..., None]) -> Callable[..., None]:
        """A process becomes a life."""

        def begins(shell: Shell, setup: Any, *rest: Any) -> None:
            self.begin(setup.life.slot)
            real(shell, setup, *rest)

        return begins

    def root_begins(self, real: Callable[..., None]) -> Callable[..., None]:
        """A process becomes the root."""

        def begins(*all_of_it: Any, **named: Any) -> None:
            self.begin(ROOT)
            real(*all_of_it, **named)

        return begins

    def hears(self, real: Callable[[Any, bytes], None]) -> Callable[[Any, bytes], None]:
        """Bytes that come, in one call."""

        def hear(actor: Shell | Root, data: bytes) -> None:
            if self.orders:
                data = self._damaged(actor, data)
            real(actor, data)

        return hear

    def _damaged(self, actor: Shell | Root, data: bytes) -> bytes:
        for number, order in self._of("corrupt"):
            if self._is_among(actor, data, order) and self._mishaps.happens(number, order):
                at = self._mishaps.draw(number, order).randrange(8 * len(data))
                flipped = bytearray(data)
                flipped[at // 8] ^= 1 << at % 8
                data = bytes(flipped)
                self._effects.note(number)
        return data

    @staticmethod
    def _is_among(actor: Shell | Root, data: bytes, order: Order) -> bool:
        """Whether a call has a message of those that an order names."""
        if order.messages == "all":
            return True
        wire: Wire | None = getattr(actor, "wire", None)
        if wire is None:
            return False  # the root: frames and feedback do not pass it
        try:
            return any(is_of(message, order.messages) for message in wire.decode(data))
        except DecodeError:
            return False  # another order has damaged it already

    def takes(self, real: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """A message that came, on the thread of its machine."""

        def take(actor: Any, message: Any) -> None:
            if not self.orders:
                real(actor, message)
                return
            pump = actor.pump if isinstance(actor, Shell) else actor._pump  # noqa: SLF001  # hooks know both

            def later(one: Any) -> None:
                pump.do(lambda: real(actor, one))

            self._mishaps.arrives(message, partial(real, actor), later)

        return take

    def syncs(self, real: Callable[[int], None]) -> Callable[[int], None]:
        """A sync of a file."""

        def sync(fd: int) -> None:
            if self.orders:
                for number, order in self._of("slow disk"):
                    if self._mishaps.happens(number, order):
                        self._effects.note(number)
                        threading.Event().wait(order.ms / 1_000)
            real(fd)

        return sync

    def tells_time(self, one_ms: float, real: Callable[[], Any]) -> Callable[[], Any]:
        """A look at the wall clock. `one_ms`: in its unit."""

        def tell() -> Any:
            if not self.clock_ms:
                return real()
            for number, _ in self._of("clock"):
                self._effects.note(number)
            told = real()
            return told + type(told)(self.clock_ms * one_ms)

        return tell
