"""What happens to messages that arrive at one process: lost, doubled, delayed, reordered, stale.

    arrives(message) --> lose --> double --> delay --> ...  --> taken now: none, one or more
                                              '--> held --(due, or the order taken back)--> taken

Each order that holds makes of every message those that are taken in its place. What waits is
bounded, and nothing waits for ever: an order that is taken back lets go of all that it holds.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.chaos.drill.means.orders import Order
from gapless.failover.messages import Ack, Attach, Data, Life, Refused

HELD_MAX = 4_096
"""Messages that wait in one process; what comes then is not held up: it would fill the memory."""
REORDER_MS = 250.0
"""How long a message waits for the next one at most, behind which it is to come."""
STALE_FRAMES = 64
"""Kept of each life, the last ones."""
STALE_LIVES = 16
"""Lives of which frames are kept, the latest ones."""

Take = Callable[[Any], None]


def is_of(message: object, messages: str) -> bool:
    """Whether a message is one of those that an order names."""
    kinds = {"frames": (Attach, Data), "feedback": (Ack, Refused)}.get(messages)
    return kinds is None or isinstance(message, kinds)


@dataclass(order=True, slots=True)
class HeldMessage:
    """A message that waits."""

    due_ms: float
    nth: int
    number: int = field(compare=False)
    """Of the order that holds it."""
    message: Any = field(compare=False)
    give: Take = field(compare=False)
    """Has its process take it; for any thread."""
    is_gone: bool = field(default=False, compare=False)


class HeldMessages:
    """Messages that wait until they are due. For any thread."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._held: list[HeldMessage] = []
        self._count = 0
        self.came = threading.Event()
        """Set when one waits that may be due before all others."""

    def hold(self, number: int, message: Any, ms: float, give: Take) -> HeldMessage | None:
        """Holds a message back for a while; None where too many wait already."""
        with self._lock:
            if len(self._held) >= HELD_MAX:
                return None
            self._count += 1
            held = HeldMessage(self._now_ms() + ms, self._count, number, message, give)
            heapq.heappush(self._held, held)
        self.came.set()
        return held

    def taken_out(self, held: HeldMessage) -> bool:
        """Whether it still waited; asking takes it."""
        with self._lock:
            waited, held.is_gone = not held.is_gone, True
            return waited

    def due_in_ms(self, most_ms: float) -> float:
        """Until the next is due, `most_ms` at most."""
        with self._lock:
            if not self._held:
                return most_ms
            return min(most_ms, max(0.0, self._held[0].due_ms - self._now_ms()))

    def give_due(self) -> None:
        """Has all that are due taken."""
        due = []
        with self._lock:
            now_ms = self._now_ms()
            while self._held and self._held[0].due_ms <= now_ms:
                due.append(heapq.heappop(self._held))
        self._give(due)

    def let_go(self, orders: Mapping[int, Order]) -> None:
        """Has all taken that wait for orders which do not hold any more."""
        with self._lock:
            free = [held for held in self._held if held.number not in orders]
            self._held = [held for held in self._held if held.number in orders]
            heapq.heapify(self._held)
        self._give(sorted(free))

    def _give(self, messages: list[HeldMessage]) -> None:
        for held in messages:
            if self.taken_out(held):
                held.give(held.message)


class Mishaps:
    """What orders do to the messages of one process. `arrives` is for its own thread alone."""

    def __init__(self, waiting: HeldMessages, note: Callable[[int], None]) -> None:
        """`note` counts an effect of an order."""
        self.orders: Mapping[int, Order] = {}
        """Those that hold; the owner replaces them."""
        self._waiting = waiting
        self._note = note
        self._draws: dict[int, random.Random] = {}
        self._behind: dict[int, HeldMessage] = {}  # by order, what is to come behind the next
        self._sent: dict[int, _Sent] = {}
        self._does: Mapping[str, Callable[[int, Order, Any, Take], list[Any]]] = {
            "lose": self._lose,
            "double": self._double,
            "delay": self._delay,
            "reorder": self._reorder,
            "stale": self._stale,
        }

    def arrives(self, message: Any, take: Take, later: Take) -> None:
        """A message has arrived. `take` takes one now, on this thread; `later` has this thread do
        so, from any.
        """
        now = [message]
        for number, order in self.orders.items():
            does = self._does.get(order.what)
            if does is not None and is_of(message, order.messages):
                now = [each for one in now for each in does(number, order, one, later)]
        for each in now:
            take(each)

    def draw(self, number: int, order: Order) -> random.Random:
        """Of one order in this process."""
        if number not in self._draws:
            self._draws[number] = random.Random(f"{order.seed} {order.what} {order.who}")
        return self._draws[number]

    def happens(self, number: int, order: Order) -> bool:
        """Whether it happens now."""
        return self.draw(number, order).random() < order.share

    def _lose(self, number: int, order: Order, message: Any, _: Take) -> list[Any]:
        if not self.happens(number, order):
            return [message]
        self._note(number)
        return []

    def _double(self, number: int, order: Order, message: Any, _: Take) -> list[Any]:
        if not self.happens(number, order):
            return [message]
        self._note(number)
        return [message, message]

    def _delay(self, number: int, order: Order, message: Any, later: Take) -> list[Any]:
        is_hit = self.happens(number, order)
        if not is_hit or self._waiting.hold(number, message, order.ms, later) is None:
            return [message]
        self._note(number)
        return []

    def _reorder(self, number: int, order: Order, message: Any, later: Take) -> list[Any]:
        held = self._behind.pop(number, None)
        if held is not None and self._waiting.taken_out(held):
            self._note(number)
            return [message, held.message]
        if self.happens(number, order):
            held = self._waiting.hold(number, message, REORDER_MS, later)
            if held is not None:
                self._behind[number] = held
                return []
        return [message]

    def _stale(self, number: int, order: Order, message: Any, _: Take) -> list[Any]:
        if not isinstance(message, Attach | Data):
            return [message]
        sent = self._sent.setdefault(number, _Sent())
        sent.add(message)
        if sent.is_any_stale and self.happens(number, order):
            self._note(number)
            return [message, sent.stale()]
        return [message]


class _Sent:
    """The last frames of each life, as a merger got them."""

    def __init__(self) -> None:
        self._by_life: dict[Life, deque[Attach | Data]] = {}
        self._latest: dict[str, Life] = {}
        self._again: deque[Attach | Data] = deque()

    def add(self, message: Attach | Data) -> None:
        life = message.session.life
        if life not in self._by_life and len(self._by_life) >= STALE_LIVES:
            del self._by_life[min(self._by_life, key=lambda each: each.incarnation)]
        self._by_life.setdefault(life, deque(maxlen=STALE_FRAMES)).append(message)
        self._latest[life.slot] = max(life, self._latest.get(life.slot, life))

    @property
    def is_any_stale(self) -> bool:
        """Whether a slot has had a later life."""
        return any(life != self._latest[life.slot] for life in self._by_life)

    def stale(self) -> Attach | Data:
        """One of an earlier life, each in its turn."""
        if not self._again:
            for life, frames in self._by_life.items():
                if life != self._latest[life.slot]:
                    self._again += frames
        return self._again.popleft()
