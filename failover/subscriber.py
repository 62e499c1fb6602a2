"""A subscriber: pulls the output from where its token stands, and never sees a frame twice.

The token names an offset of the output journal. A delivery counts only if it starts exactly at
that offset, so lost, repeated and reordered messages change nothing: what is lost is fetched
again after silence, what is repeated starts elsewhere. An offset means something in one merger's
journal only, so a token of another merger is refused, and its deliveries are not looked at.
"""

from __future__ import annotations

from gapless.failover.messages import Delivery, Effect, Emit, Event, Fetch, Send, Start, Tick, Token
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, Misuse

FETCH_AFTER_MS = 200
"""Silence after which a fetch is sent again: the merger may have died, or a message."""


class Subscriber:
    """Reads one merger's output, every change. Pure: the shell does what the effects say."""

    def __init__(self, name: str, merger: str, token: Token | None = None) -> None:
        if token is not None and token.merger != merger:
            raise Misuse(
                f"the token is of merger {token.merger}, whose offsets {merger} cannot read"
            )
        self.name = name
        self.token = token or Token(merger, 0, 0, BEGIN)
        self._merger = merger
        self._asked_at = 0

    def on(self, event: Event, now: int) -> list[Effect]:
        """What follows from `event` at time `now`, in milliseconds."""
        match event:
            case Start():
                return [self._fetch(now)]
            case Tick() if now - self._asked_at >= FETCH_AFTER_MS:
                return [self._fetch(now)]
            case Delivery() if (event.token.merger, event.after) == self._awaited:
                stable = max(self.token.stable, event.token.stable)
                self.token = event.token._replace(stable=stable)
                return [Emit(event.frame, self.token), self._fetch(now)]
        return []

    @property
    def _awaited(self) -> tuple[str, int]:
        return self._merger, self.token.offset

    def validate(self) -> None:
        """Raises `Bug` where its token is of another merger, or of no place."""
        if self.token.merger != self._merger or self.token.offset < 0:
            raise Bug(f"the token {self.token} is not of {self._merger}")

    def _fetch(self, now: int) -> Send:
        self._asked_at = now
        return Send(self._merger, Fetch(self.name, self.token))
