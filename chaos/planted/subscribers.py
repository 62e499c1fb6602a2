"""Subscribers that break one rule each: of offsets, of resets, of what is final."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gapless.failover.messages import Delivery, Token
from gapless.failover.subscriber.cursor import Cursor
from gapless.failover.subscriber.effects import Emit, SubscriberEffect
from gapless.failover.subscriber.finals import Finals
from gapless.failover.subscriber.machine import Subscriber
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame, Mask, Times


class TakesAnyDelivery(Subscriber):
    """Does not look at where a delivery begins."""

    class CURSOR(Cursor):
        """Takes whatever its merger sends."""

        def accepts(self, event: Delivery) -> bool:
            """Always, while it reads."""
            return self.state == "reading" and event.token.merger == self.merger


class AsksOnce(Subscriber):
    """Asks a merger once, and waits for the answer for ever."""

    class CURSOR(Cursor):
        """Never repeats a question."""

        def is_due(self, now: int) -> bool:  # noqa: ARG002  # it does not look at that
            """Never."""
            return False


class ReusesOffsets(Subscriber):
    """Goes on at one merger with the offset of another."""

    def _exact(self, token: Token, mergers: tuple[str, ...]) -> Token | None:
        is_one = self._deliver == "changes" and len(mergers) == 1 and token.merger
        return token._replace(merger=mergers[0]) if is_one else None


class ResetsReplaceNothing(Subscriber):
    """Hands a reset to the program as if it were more of the same."""

    def _begin(self, now: int) -> list[SubscriberEffect]:
        effects = super()._begin(now)
        return [replace(e, reset=False) if isinstance(e, Emit) else e for e in effects]


class PromisesTheFarthest(Subscriber):
    """Promises what one shard has promised, and others have not."""

    def _least(self) -> int:
        return max(self._stables.values())


class GivesAgain(Subscriber):
    """Gives events again on resume that were final before."""

    class FINALS(Finals):
        """Knows of nothing that it was given before."""

        def was_given(self, table: Frame, since: int) -> Mask:  # noqa: ARG002  # it does not look at that
            """Nothing was."""
            return np.zeros(len(table), np.bool_)


class GivesTooEarly(Subscriber):
    """Takes an event for final that has begun for good, though its end may change."""

    class FINALS(Finals):
        """Looks at starts only."""

        def is_final(self, vs: Times, ve: Times, stable: int) -> Mask:  # noqa: ARG002  # it does not look at that
            """What begins before the stable."""
            final: Mask = np.less(vs, stable) | (stable == INF)
            return final
