"""The copies of one stream: which producers push it, which tokens hold their names, and when
producers are let go.

    join --> connected --leave--> away --absent_s--> let go          a life, by its name and number
               |                                        ^
               '------- detach, Remove -----------------'

A producer's name belongs to the token that came with it first, for as long as it is remembered: of
one name the largest incarnation counts, so a token that may use a name may shut out all others of
it. A token whose settings list the name may take it over (access.py). What one token may fill of
the places of a stream is bounded, so that others find one.

Names are remembered for the sake of the fences behind them, which keep dead lives out. They are
`NAMES_MAX` at most: of those that nobody uses the oldest is forgotten.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from gapless.failover.merger.machine import Merger
from gapless.failover.messages import Fence, Life, Message
from gapless.sidecar.lives import life_after
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import Refusal

NAMES_MAX = 4_096
"""Producers' names that a stream remembers: each is a fence, some hundred bytes. A program that
takes another name at each start uses one a start; it has fewer starts in a year."""
ORDER_TERM = 1
"""Of all orders: there is no supervisor but this process."""


class User(Protocol):
    """An attachment or a subscription."""

    def hear(self, message: Message) -> None:
        """Takes a message of the merger."""

    def lost(self, refusal: Refusal) -> None:
        """The stream is over for it."""


class Copies:
    """All producers of one stream. Used on the loop's thread."""

    def __init__(
        self,
        stream: str,
        machine: Merger,
        limits: Limits,
        happens: Callable[[Fence], None],
        forget: Callable[[str], None],
        names_max: int = NAMES_MAX,
    ) -> None:
        """`forget` makes the machine forget a producer."""
        self._stream = stream
        self._machine = machine
        self._limits = limits
        self._happens = happens
        self._forget_in_machine = forget
        self._names_max = names_max
        self._connected: dict[str, User] = {}  # by life
        self._away: dict[Life, float] = {}  # inputs without a call, and since when
        self._absent: dict[str, Life] = {}  # by slot, the life that was let go for that
        self._holders: OrderedDict[str, str] = OrderedDict()  # by slot; the last used last

    def __len__(self) -> int:
        """How many are connected now."""
        return len(self._connected)

    def find(self, life: str) -> User | None:
        """The attachment that what is sent to a life is for."""
        return self._connected.get(life)

    def everybody(self) -> list[User]:
        """All that are connected."""
        return list(self._connected.values())

    def is_connected(self, life: Life) -> bool:
        """Whether a life has a call under way."""
        return str(life) in self._connected

    # -- coming -------------------------------------------------------------------------------

    def check_name(self, producer: str, holder: str, *, may_take_over: bool) -> None:
        """Raises `Refusal` where another token holds a producer's name. `holder` is empty where
        nobody shows a token.
        """
        known = self._holders.get(producer)
        if known is not None and known != holder and not may_take_over:
            raise Refusal(
                "PERMISSION_DENIED",
                f"another token pushes to {self._stream} as {producer}: use a name of your own, "
                f"or have it listed in the `producers` of {holder!r}",
            )

    def join(self, life: Life, attachment: User, holder: str) -> None:
        """Adds an attachment of this life, which gets the merger's messages from now on. An earlier
        one of the same life ends.
        """
        before = self._connected.get(str(life))
        if before is None:
            self._check_places(life, holder)
        self._connected[str(life)] = attachment
        self._holders[life.slot] = holder
        self._holders.move_to_end(life.slot)
        self._away.pop(life, None)
        if before is not None:
            before.lost(
                Refusal("FAILED_PRECONDITION", f"another call has attached {life.slot} anew")
            )
        if len(self._holders) > self._names_max:
            self._forget_oldest()

    def _check_places(self, life: Life, holder: str) -> None:
        limits = self._limits
        if len(self._connected) >= limits.producers_max:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"{limits.producers_max} producers push to {self._stream}: stop one, or raise "
                "producers_max",
            )
        if not holder:
            return
        used = self._used()
        mine = [slot for slot in used if self._holders.get(slot) == holder and slot != life.slot]
        if len(mine) >= limits.token_producers_max:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"the token {holder!r} has {len(mine)} producers of {self._stream}: stop one, wait "
                "until those that are away are let go, or raise token_producers_max",
            )

    def _used(self) -> set[str]:
        """The names that feed the output, or are about to."""
        connected = {life.rpartition("/")[0] for life in self._connected}
        return connected | {life.slot for life in self._machine.attached}

    def _forget_oldest(self) -> None:
        used = self._used()
        for slot in self._holders:
            if slot not in used:
                self._forget(slot)
                return

    def _forget(self, slot: str) -> None:
        self._forget_in_machine(slot)
        self._holders.pop(slot, None)
        self._absent.pop(slot, None)

    # -- going --------------------------------------------------------------------------------

    def fence(self, life: Life) -> None:
        """Lives before this one in its slot feed the output no more."""
        self._happens(Fence(ORDER_TERM, life))
        self._away = {old: at for old, at in self._away.items() if not self._machine.is_fenced(old)}

    def leave(self, life: Life, attachment: User) -> None:
        """Removes an attachment. What its producer has pushed counts for a while longer."""
        if self._connected.get(str(life)) is attachment:
            del self._connected[str(life)]
            if life in self._machine.attached:  # else it was refused or fenced: it counts no more
                self._away[life] = time.monotonic()

    def let_go(self, life: Life) -> None:
        """What a life has pushed no longer counts, and it may not come back."""
        self.fence(life_after(life))

    def let_absent_go(self, now_s: float) -> list[Life]:
        """Lets those go that were away for too long; returns them."""
        gone = [life for life, at in self._away.items() if now_s - at >= self._limits.absent_s]
        for life in gone:
            self._absent[life.slot] = life
            self.let_go(life)
        return gone

    def was_absent(self, life: Life) -> bool:
        """Whether a life was let go because it was away for too long."""
        return self._absent.get(life.slot) == life

    def remove(self, producer: str) -> None:
        """Nothing that this producer has pushed counts any more, and the next one of its name
        begins anew, with any incarnation. Raises `Refusal` where it is unknown.
        """
        lives = [life for life in self._machine.attached if life.slot == producer]
        if not lives and producer not in self._holders:
            raise Refusal("NOT_FOUND", f"stream {self._stream} knows no producer {producer!r:.70}")
        refusal = Refusal("NOT_FOUND", f"producer {producer} was removed from {self._stream}")
        for name in [name for name in self._connected if name.rpartition("/")[0] == producer]:
            self._connected.pop(name).lost(refusal)
        for life in lives:
            self.let_go(life)
        self._forget(producer)
