"""Mergers that say what a test has them say, when it lets them: a feed without a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gapless.actors.feed import Feed
from gapless.actors.pump import Pump
from gapless.actors.subscription import Subscription
from gapless.failover.messages import Declined, Delivery, Fetch, Message, Open, Opened, Token
from gapless.failover.subscriber.machine import Subscriber
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA, parse

WAIT_S = 20.0


def frame(text: str = "") -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


class Told:
    """The mergers of a job: each has the same rows, and answers as far as `let` has let it."""

    def __init__(self, frames: list[Frame], slots: tuple[str, ...] = ("m0.0",)) -> None:
        self.frames = frames
        self.slots = slots
        self.asked: list[Message] = []
        self.allowed = 0
        self.calls: list[Future[Any]] = []
        self._waiting: dict[str, Message] = {}
        self._changed = threading.Condition()
        self._pump: Pump | None = None
        self._answered: Callable[[str, list[Message]], None]
        self.left: Callable[[], None]

    def begin(
        self,
        pump: Pump,
        answered: Callable[[str, list[Message]], None],
        changed: Callable[[], None],  # noqa: ARG002  # nobody moves
        left: Callable[[], None],
    ) -> None:
        self._pump, self._answered, self.left = pump, answered, left

    def end(self) -> None:
        pass

    @property
    def under_way(self) -> list[Future[Any]]:
        return self.calls

    def ask(self, slot: str, question: Message) -> bool:
        with self._changed:
            if slot in self._waiting:
                return False
            self.asked.append(question)
            self._waiting[slot] = question
            self._changed.notify_all()
        assert self._pump is not None
        self._pump.do(self._answer)
        return True

    def let(self, frames: int) -> None:
        """So many more frames are there."""
        with self._changed:
            self.allowed += frames
        if self._pump is not None:
            self._pump.do(self._answer)

    def wait_asked(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= count, WAIT_S)

    def _answer(self) -> None:
        for slot, question in list(self._waiting.items()):
            said = self._said(slot, question)
            if said is not None:
                del self._waiting[slot]
                self._answered(slot, [said])

    def _said(self, slot: str, question: Message) -> Message | None:
        frames = self.frames[: self.allowed]
        ends = [sum(len(f) for f in frames[: i + 1]) for i in range(len(frames))]
        if isinstance(question, Open):
            if not frames:
                return None
            stable = frames[0].stable or BEGIN
            since = stable if question.since is None else question.since
            return Opened(question.attempt, since, frames[0], Token(slot, 1, ends[0], stable))
        assert isinstance(question, Fetch)
        token = question.token
        if token.merger != slot:
            return Declined(slot, token, "elsewhere", "another's")
        for found, end in zip(frames, ends, strict=True):
            start = end - len(found)
            stable = token.stable if found.stable is None else max(token.stable, found.stable)
            if start == token.offset and (len(found) or stable > token.stable):
                return Delivery(start, found, Token(slot, 1, end, stable))
        return None


def subscribed(
    told: Told, path: Path = Path("nowhere"), start: Any = "earliest", **how: Any
) -> Subscription:
    """A subscription of one shard that these mergers tell."""
    mergers: Mapping[str, tuple[str, ...]] = {"0": told.slots}
    machine = Subscriber("s-test", mergers, DEFAULT_SCHEMA, start=start, **how)
    feed = Feed(machine, told.slots, DEFAULT_SCHEMA, path, told)  # type: ignore[arg-type]  # a fake
    return Subscription(feed)
