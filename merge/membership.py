"""Who feeds an LMerge: inputs attach, join at a time, qualify, and leave for good.

    attach() ----------------> qualified ---+
    attach(join_at=t) -> waiting            +--> detached (reason); its number is never used again
                           |                |
                           +-> qualified ---+
                    output's stable >= t

An input that joined at t promises the right table from t on: every event with ve >= t. What it
lacks below t means nothing. So until the output's stable has reached t the input may hand in
events, and its stables are recorded, but it may not *act*: freezing the output to its own table
would remove events that it simply does not know. This is the *join gate*; tests/merge/test_r3.py
holds it.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from operator import index
from typing import Any

import numpy as np

from gapless.merge.case import violation
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import GaplessError, Misuse, StreamViolation
from gapless.protocol.frame import Frame

REASONS_MAX = 1024
"""Inputs that have left and are still reported, the latest; a replica may come and go for years."""
INPUTS_MAX = 1024
"""Inputs attached at once. Each costs a column of live keys; replicas are counted in ones."""


class DetachedInput(Misuse):
    """The input has left; its number never comes back. Attach again and use the new number."""


@dataclass(slots=True)
class Input:
    """What membership knows of one input."""

    number: int
    join_at: int = BEGIN
    """It holds every event with ve >= join_at."""
    stable: int = BEGIN
    """The last stable that it promised."""
    highest: int = BEGIN
    """The largest vs that it inserted."""
    elements: int = 0
    """Rows and stables that it sent."""
    dropped: int = 0
    """Rows that said nothing new."""
    led: int = 0
    """Times that the output was frozen to it."""

    def qualifies(self, output_stable: int) -> bool:
        """Whether it may act, now that the output is stable up to `output_stable`."""
        return self.join_at <= output_stable

    def check(self, frame: Frame) -> None:
        """Raises `StreamViolation` where a frame breaks what the input has promised."""
        stable = self.stable
        if stable == BEGIN:
            return
        if frame.stable is not None and frame.stable < stable:
            text = f"stable({format_time(frame.stable)})"
            raise StreamViolation(text, f"stables never go back, and {self._promised()}")
        if not len(frame) or (frame.insert_only and np.minimum.reduce(frame.vs) >= stable):
            return
        floor = np.where(frame.is_insert, frame.vs, np.minimum(frame.was, frame.ve))
        bad = floor < stable
        if bad.any():
            raise violation(frame, int(bad.argmax()), self._promised())

    def _promised(self) -> str:
        return f"input {self.number} promised stable({format_time(self.stable)})"


@dataclass(slots=True)
class Membership:
    """The inputs of one merger, by number."""

    attached: dict[int, Input] = field(default_factory=dict)
    detached: dict[int, GaplessError | None] = field(default_factory=dict)
    """Who left lately and why; None where the caller asked for it."""
    latest_join: int = BEGIN
    """The largest `join_at` of the attached: all qualify once the output is there."""
    _next: int = 0

    def attach(self, join_at: int = BEGIN) -> Input:
        """A new input under a number that was never used."""
        if not BEGIN <= _as_time(join_at) <= INF:
            raise Misuse(f"join_at {join_at}: needs an int64 time")
        if len(self.attached) >= INPUTS_MAX:
            raise Misuse(f"{INPUTS_MAX} inputs are attached; detach one first")
        entry = Input(self._next, join_at)
        self.attached[entry.number] = entry
        self._next += 1
        self.latest_join = max(self.latest_join, join_at)
        return entry

    def detach(self, number: int, reason: GaplessError | None) -> None:
        """Ends an input for good."""
        self.get(number)
        del self.attached[number]
        self.latest_join = max((i.join_at for i in self.attached.values()), default=BEGIN)
        self.detached[number] = reason
        if len(self.detached) > REASONS_MAX:
            del self.detached[next(iter(self.detached))]

    def get(self, number: int) -> Input:
        """The attached input of that number; raises `DetachedInput` or `Misuse`."""
        entry = self.attached.get(number)
        if entry is not None:
            return entry
        if 0 <= number < self._next:
            reason = self.detached.get(number)
            why = "it was asked to leave" if reason is None else str(reason)
            raise DetachedInput(f"input {number} is detached ({why}); attach again")
        raise Misuse(f"input {number} was never attached")

    @property
    def total(self) -> int:
        """How many have ever attached."""
        return self._next

    def to_plain(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "next": self._next,
            "attached": [list(astuple(entry)) for entry in self.attached.values()],
            "detached": [[n, None if e is None else str(e)] for n, e in self.detached.items()],
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Membership:
        """The inverse of `to_plain`; reasons come back as plain errors."""
        entries = [Input(*values) for values in plain["attached"]]
        return Membership(
            {entry.number: entry for entry in entries},
            {n: None if why is None else GaplessError(why) for n, why in plain["detached"]},
            max((entry.join_at for entry in entries), default=BEGIN),
            plain["next"],
        )

    def waiting_for(self, output_stable: int) -> str | None:
        """Why nobody can act; None while somebody can."""
        if not self.attached:
            return "an input: none is attached"
        if any(i.qualifies(output_stable) for i in self.attached.values()):
            return None
        first = min(self.attached.values(), key=lambda i: i.join_at)
        return (
            f"an input that knows the time from {format_time(output_stable)} on: the earliest, "
            f"input {first.number}, joined at {format_time(first.join_at)}"
        )


def _as_time(join_at: int) -> int:
    try:
        return index(join_at)
    except TypeError:
        raise Misuse(f"join_at {join_at!r}: a time is an integer") from None
