"""What r0, r1 and r2 share: inserts only, in order of their starts.

Such an output never revises anything, so a stable asks for no work: it is passed on. What an input
says after the output has gone past it is dropped, and what is put out are slices of the frames
that came in, not copies.

An input that joined ahead of the output is held back until it qualifies. It lacks what ends before
its join time, so its rows, taken in at once, would carry the output past events that the others are
still to tell.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from gapless.merge.case import Case, Favour, Taken, case_violation, violation
from gapless.merge.divergence import Divergences
from gapless.merge.policy import Policy
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import StreamSchema

HELD_ROWS_MAX = 1_000_000
"""Rows kept back of one input: one that joins further ahead than that had better join later."""


class InOrder(Case):
    """Inserts only, `vs` not falling; subclasses say what of a frame is new."""

    holds_back = True

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        if policy.keeps_events:
            raise Misuse(
                f"{self.name} keeps no events, so it has no {policy.insert} inserts and no "
                f"{policy.adjust} adjusts: use r3 or r4, or insert='first', adjust='at_stable'"
            )
        super().__init__(schema, policy, divergences)
        self.newest = BEGIN
        """The largest `vs` put out."""
        self._last: dict[int, int] = {}  # the largest `vs` of each input
        self._held: dict[int, list[Frame]] = {}
        self._held_rows: dict[int, int] = {}  # of each, counted once

    def attach(self, number: int) -> None:
        """Opens the state of an input."""
        self._last[number] = BEGIN

    def detach(self, number: int) -> None:
        """Frees the state of an input."""
        del self._last[number]
        self._held.pop(number, None)
        self._held_rows.pop(number, None)

    def hold(self, number: int, frame: Frame) -> None:
        """Checks the rows, and keeps them back."""
        rows = len(frame) + self.held_rows(number)
        if rows > HELD_ROWS_MAX:
            raise violation(frame, 0, f"at most {HELD_ROWS_MAX} rows before the output gets there")
        self._check(number, frame, frame.vs)
        self._last[number] = int(frame.vs[-1])
        self._held.setdefault(number, []).append(frame.with_stable(None))
        self._held_rows[number] = rows

    def held(self, number: int) -> list[Frame]:
        """What is kept back."""
        return self._held.get(number, [])

    def held_rows(self, number: int) -> int:
        """How much that is."""
        return self._held_rows.get(number, 0)

    def admit(self, number: int) -> list[Frame]:
        """Takes in what was kept back."""
        out = []
        self._held_rows.pop(number, None)
        for frame in self._held.pop(number, []):
            out += self._pass(number, frame, frame.vs)
        return out

    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:  # noqa: ARG002  # one policy
        """Passes on what is new of a frame."""
        vs = frame.vs
        self._check(number, frame, vs)
        self._last[number] = int(vs[-1])
        out = self._pass(number, frame, vs)
        passed = sum(map(len, out))
        return Taken(out, len(frame) - passed)

    def _check(self, number: int, frame: Frame, vs: Times) -> None:
        if not frame.insert_only:
            row = int((~frame.is_insert).argmax())
            raise case_violation(frame, row, f"{self.name} takes inserts only")
        rule = f"{self.name} takes inserts in order of vs"
        if vs[0] < self._last[number]:
            raise case_violation(frame, 0, rule)
        bad = self._out_of_order(vs[:-1], vs[1:])
        if np.count_nonzero(bad):
            raise case_violation(frame, int(bad.argmax()) + 1, rule)

    @staticmethod
    def _out_of_order(before: Times, vs: Times) -> Mask:
        return vs < before

    @abstractmethod
    def _pass(self, number: int, frame: Frame, vs: Times) -> list[Frame]:
        """What is new of a frame of checked rows."""

    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:  # noqa: ARG002  # see above
        """Nothing to put right: what is out never changes."""
        self.stable = t
        return []

    @property
    def inputs(self) -> set[int]:
        """The inputs it holds a place of."""
        return set(self._last)

    def __len__(self) -> int:
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of state: the newest start, one for each input, and what is held back."""
        held = sum(frame.nbytes for frames in self._held.values() for frame in frames)
        return 8 * (1 + len(self._last)) + held

    def validate(self) -> None:
        """No input is behind BEGIN, none holds more than it may."""
        if self.newest < BEGIN or min(self._last.values(), default=BEGIN) < BEGIN:
            raise Bug("a start below BEGIN")
        held = {number: sum(map(len, frames)) for number, frames in self._held.items()}
        if held != self._held_rows:
            raise Bug(f"held back are {held} rows, counted {self._held_rows}")

    def live(self) -> Frame:
        """The rows at the newest start, where the case keeps them."""
        return Frame.empty(self.schema)

    def told(self, number: int) -> Frame:  # noqa: ARG002  # kept by those that count
        """The rows of an input at the newest start, where the case keeps them."""
        return Frame.empty(self.schema)

    def adopt_output(self, live: Frame) -> None:
        """Goes on behind the newest row."""
        if not live.insert_only:
            row = int((~live.is_insert).argmax())
            raise case_violation(live, row, f"{self.name} holds inserts only")
        if len(live):
            self.newest = int(live.vs.max())

    def adopt_input(self, number: int, told: Frame) -> None:
        """Keeps the input's place in the order."""
        if len(told):
            self._last[number] = int(told.vs.max())

    def facts(self) -> dict[str, Any]:
        """Where the output and each input are."""
        return {"newest": self.newest, "last": [[n, vs] for n, vs in self._last.items()]}

    def adopt_facts(self, facts: dict[str, Any]) -> None:
        """Takes `facts()` back."""
        self.newest = facts["newest"]
        self._last = dict(facts["last"])
