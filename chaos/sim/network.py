"""The network of a simulation: what becomes of a message between two processes.

Every message is delayed, and by different times, so they overtake each other; some are lost, some
come twice. Beyond that each *link*, a pair of sender and receiver, can be in trouble:

    cut      nothing comes through, in this direction
    clogged  everything waits until the link is free again, and comes then

Who cuts links says which: of one process, both ways or one way; between two nodes; a single one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Pair = tuple[str, str]
"""Sender and receiver, by the names of their lives; "*" stands for anybody."""

ANYBODY = "*"
CLOGGED_MAX = 10_000
"""Messages that wait at clogged links; what comes beyond is lost, as in a full buffer."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is as a whole."""

    delay_ms: int
    """The most; a message takes 1 ms at least."""
    loss: float
    repeat: float


STORM = Weather(delay_ms=150, loss=0.4, repeat=0.3)
"""As bad as it gets without being down."""


@dataclass(slots=True)
class Network:
    """Decides the fate of messages; the simulation carries them."""

    rng: random.Random
    weather: Weather
    storms: int = 0
    """How many faults make the network a bad one."""
    cut: dict[Pair, int] = field(default_factory=dict)
    """How many faults cut a link."""
    clogged: dict[Pair, int] = field(default_factory=dict)
    _waiting: list[tuple[Pair, Callable[[], None]]] = field(default_factory=list)

    def send(self, link: Pair, carry: Callable[[int], None]) -> str | None:
        """Lets `carry` take place after each delay that a copy has; why nobody gets it, or None."""
        if self.cut and self._is(self.cut, link):
            return "cut off"
        if self.clogged and self._is(self.clogged, link):
            if len(self._waiting) >= CLOGGED_MAX:
                return "lost at a clogged link"
            delay_ms = 1 + self.rng.randrange(self.weather.delay_ms)
            self._waiting.append((link, lambda: carry(delay_ms)))
            return None
        weather = STORM if self.storms else self.weather
        draw = self.rng.random
        if weather.loss and draw() < weather.loss:
            return "lost"
        carry(1 + int(draw() * weather.delay_ms))
        if weather.repeat and draw() < weather.repeat:
            carry(1 + int(draw() * weather.delay_ms))
        return None

    def _is(self, troubled: dict[Pair, int], link: Pair) -> bool:
        sender, receiver = link
        return link in troubled or (sender, ANYBODY) in troubled or (ANYBODY, receiver) in troubled

    def trouble(self, kind: dict[Pair, int], links: list[Pair]) -> Callable[[], None]:
        """Puts links into trouble (`cut` or `clogged`); what is given back ends it."""
        for link in links:
            kind[link] = kind.get(link, 0) + 1

        def end() -> None:
            for link in links:
                kind[link] -= 1
                if not kind[link]:
                    del kind[link]
            self._release()

        return end

    def _release(self) -> None:
        """Sends on what waited at links that are free now."""
        waiting, self._waiting = self._waiting, []
        for link, carry in waiting:
            if self.clogged and self._is(self.clogged, link):
                self._waiting.append((link, carry))
            else:
                carry()
