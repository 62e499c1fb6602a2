"""Orders to the processes of a job: who loses, doubles, delays, damages what, from now on.

    orders = Orders(folder)
    ray.init(runtime_env=orders.runtime_env())      each process plants hooks (inside.py)
    number = orders.give(Order("lose", who="m*", share=0.2))
    ...
    orders.take_back(number)
    assert orders.struck(number)                    a fault without effect has proved nothing

      folder/orders              all that holds now; replaced whole, looked at every LOOK_MS
      folder/effects/PID-...     of each process: how often each order had an effect there

A process counts in pages that it shares with its file: a count is there as soon as it is made, and
stays when the process is killed in the next moment.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any, Literal, get_args

from gapless.protocol.errors import Misuse

What = Literal["lose", "double", "delay", "reorder", "corrupt", "stale", "slow disk", "clock"]
"""What goes wrong:

lose, double    messages, on their way to the process
delay           they come `ms` later, and others may overtake them
reorder         a message comes behind the next one
corrupt         a bit of a call's bytes flips
stale           a merger gets frames again that an earlier life of a replica's slot has sent
slow disk       each sync takes `ms` longer
clock           the wall clock is wrong by `ms`, which may be negative
"""
Messages = Literal["frames", "feedback", "all"]
"""frames: what replicas tell mergers; feedback: what mergers tell replicas."""

EVERYBODY, ROOT = "*", "root"
"""Names of those that are no one slot: all processes of a job, and its root."""
ORDERS_MAX = 4_096
"""That one harness gives: more than a scenario can have faults."""
MS_MAX = 7 * 24 * 3_600_000
"""A week: a clock that is wrong by more is not looked at here."""
SETUP_HOOK = "gapless.chaos.drill.means.inside.plant"
FOLDER, BROKEN = "GAPLESS_ORDERS", "GAPLESS_PLANTED"
"""Variables of the environment that tell the hook the folder, and which broken build to run."""

_ORDERS, _EFFECTS = "orders", "effects"
_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Order:
    """One thing that goes wrong, while the order holds."""

    what: What
    who: str = EVERYBODY
    """The slot of the process that it acts in: "m0.0", "r0.1", "root"; "m*", "r*", "*"."""
    messages: Messages = "all"
    """Of mishaps to messages: to which."""
    share: float = 1.0
    """Of the messages, or syncs, that it happens to."""
    ms: float = 0
    seed: int = 0
    """Draws which they are."""

    def __post_init__(self) -> None:
        for field, value, known in (
            ("what", self.what, get_args(What)),
            ("messages", self.messages, get_args(Messages)),
        ):
            if value not in known:
                raise Misuse(f"order: {field} {value!r}; there are: {', '.join(known)}")
        if not self.who:
            raise Misuse('order: who is ""; "*" is everybody')
        if not 0 < self.share <= 1:
            raise Misuse(f"order: share {self.share}; it lies in (0, 1]")
        least = -MS_MAX if self.what == "clock" else 0
        if not least <= self.ms <= MS_MAX:
            raise Misuse(f"order: {self.ms} ms; they lie in [{least}, {MS_MAX}]")
        if self.what in {"delay", "slow disk", "clock"} and not self.ms:
            raise Misuse(f"order: {self.what} by 0 ms changes nothing")

    def is_for(self, who: str) -> bool:
        """Whether a process of that slot obeys. The root is no replica: "r*" is without it."""
        return self.who in {who, EVERYBODY} or (who != ROOT and fnmatchcase(who, self.who))


class Orders:
    """The harness's side. For any thread of one process."""

    def __init__(self, folder: Path) -> None:
        """`folder`: all processes see it under this path, and it is this harness's alone."""
        self._folder = folder.absolute()
        self._lock = threading.Lock()
        self._orders: dict[int, Order] = {}
        self._numbers = count(1)
        self._version = 0
        (self._folder / _EFFECTS).mkdir(parents=True, exist_ok=True)
        if (self._folder / _ORDERS).exists():
            raise Misuse(f"{folder}: orders of another run are there; take a new directory")
        self._write()

    def runtime_env(self, broken: str | None = None) -> dict[str, Any]:
        """Ray's settings of all processes of the cluster or the job; `broken`: the build of
        chaos/planted/builds.py whose machines they run. Raises `Misuse` where there is no such
        build.
        """
        variables = {FOLDER: str(self._folder)}
        if broken is not None:
            from gapless.chaos.drill.means.builds import build_named  # it loads the simulator

            build_named(broken)
            variables[BROKEN] = broken
        return {"worker_process_setup_hook": SETUP_HOOK, "env_vars": variables}

    def give(self, order: Order) -> int:
        """From now on, until it is taken back. Returns its number."""
        with self._lock:
            number = next(self._numbers)
            if number >= ORDERS_MAX:
                raise Misuse(f"more than {ORDERS_MAX} orders: the counts of one run hold no more")
            self._orders[number] = order
            self._write()
            return number

    def take_back(self, number: int) -> None:
        """From now on no more; what it keeps waiting is delivered. Once is enough."""
        with self._lock:
            if self._orders.pop(number, None) is not None:
                self._write()

    def struck(self, number: int) -> int:
        """How often it had an effect, over all processes, also those that have died since."""
        return sum(_counted(path, number) for path in (self._folder / _EFFECTS).iterdir())

    def _write(self) -> None:
        self._version += 1
        draft = self._folder / f"{_ORDERS}.new"
        draft.write_text(json.dumps({n: asdict(order) for n, order in self._orders.items()}))
        os.utime(draft, (self._version, self._version))
        draft.replace(self._folder / _ORDERS)


# -- in the processes -------------------------------------------------------------------------


def version_of(folder: Path) -> int:
    """Of the orders that hold: another one whenever they change; 0 where there is no harness any
    more. Its file's time of change is its number, as a clock may stand still for two changes.
    """
    try:
        return os.stat(folder / _ORDERS).st_mtime_ns  # noqa: PTH116  # as often as it is looked at
    except FileNotFoundError:
        return 0


def orders_in(folder: Path) -> Mapping[int, Order]:
    """The orders that hold, by number."""
    try:
        text = (folder / _ORDERS).read_text()
    except FileNotFoundError:
        return {}
    return {int(number): Order(**fields) for number, fields in json.loads(text).items()}


class Effects:
    """The counts of one process. For any thread."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        fd, _ = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder / _EFFECTS)
        try:
            os.ftruncate(fd, ORDERS_MAX * _COUNT_BYTES)
            self._counts = memoryview(mmap.mmap(fd, ORDERS_MAX * _COUNT_BYTES)).cast("q")
        finally:
            os.close(fd)

    def note(self, number: int) -> None:
        """An order had an effect again."""
        with self._lock:
            self._counts[number] += 1


def _counted(path: Path, number: int) -> int:
    with path.open("rb") as f:
        f.seek(number * _COUNT_BYTES)
        return int.from_bytes(f.read(_COUNT_BYTES), "little")
