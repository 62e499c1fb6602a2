"""The slow twin's cases: what they have in common, and the three that take inserts in order.

A case gets every element and gives the elements that go out. `reference.py` has the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gapless.merge.policy import Policy
from gapless.protocol.elements import BEGIN, INF, Adjust, Insert, Payload, Stable
from gapless.protocol.errors import StreamViolation
from gapless.protocol.text import format_element

OUT = -1
"""The output, where a node lists the ends of inputs by number (the paper's hash key ∞)."""

Key = tuple[int, Payload]
Row = Insert | Adjust


@dataclass
class Input:
    """What is known of one input, whatever the case."""

    number: int
    join_at: int
    stable: int = BEGIN
    last_vs: int = BEGIN
    """Of its newest row."""
    highest: int = BEGIN
    """The largest `vs` that it ever inserted."""
    held: list[Row] = field(default_factory=list)
    """Rows that are not taken in yet: in r0 to r2, until it qualifies."""


def final(ve: int, r: Input) -> bool:
    """Whether an end that input `r` gives is fully frozen there."""
    return ve < r.stable or r.stable == INF


def violation(e: Row | Stable, rule: str) -> StreamViolation:
    """The error for a bad element."""
    return StreamViolation(format_element(e), rule)


class Case(ABC):
    """What is to be done with each kind of element."""

    holds_back = False
    """Whether the rows of an input wait until it qualifies."""

    def __init__(self, policy: Policy, inputs: Mapping[int, Input]) -> None:
        self.policy, self.inputs = policy, inputs
        self.max_stable = BEGIN
        """The output's stable (the paper's MaxStable)."""
        self.divergences = 0
        self.questions: dict[tuple[int, Key], tuple[int, int]] = {}
        """(input, settled key): the end that the input gives it, and the output's."""
        self.favours = False
        """Whether the policy lets the inserts of this frame go out."""
        self.follows = False
        """Whether the policy lets the new ends of this frame go out."""

    @abstractmethod
    def check(self, rows: Sequence[Row], r: Input) -> None:
        """Raises where `r` may not say `rows`; changes nothing."""

    @abstractmethod
    def insert(self, y: Insert, r: Input) -> list[Row]:
        """Takes in an insert; what goes out."""

    def adjust(self, y: Adjust, r: Input) -> list[Row]:
        """Takes in an adjust; what goes out."""
        raise NotImplementedError

    def stable(self, t: int, r: Input) -> list[Row]:  # noqa: ARG002  # nothing to put right
        """Freezes the output to `t` as the acting input says; what goes out."""
        self.max_stable = t
        return []

    def excuse(self, number: int) -> None:
        """An input need not tell settled events to their end: it hears its feedback, or leaves."""
        self.questions = {q: ends for q, ends in self.questions.items() if q[0] != number}

    def answer(self) -> None:
        """Whose stable has made its end final, and that is not the output's, has diverged."""
        for (number, key), (theirs, ours) in list(self.questions.items()):
            if final(theirs, self.inputs[number]):
                self.divergences += theirs != ours
                del self.questions[number, key]

    def half_froze(self, r: Input) -> list[Row]:  # noqa: ARG002  # it keeps no events
        """Policy half_frozen: what goes out once `r` has promised its stable."""
        return []

    def limit(self, r: Input) -> int:  # noqa: ARG002  # it keeps no events
        """Policy fully_frozen: how far `r` may freeze the output."""
        return INF

    def unfrozen(self, r: Input) -> int:  # noqa: ARG002  # it keeps no events
        """How many events with `vs` at or above the output's stable `r` holds."""
        return 0

    def forget_input(self, number: int) -> None:
        """Frees what an input has said."""
        self.excuse(number)


# -- inserts only, in order -------------------------------------------------------------------


class R0(Case):
    """Strictly rising starts: what does not raise the largest is known."""

    max_vs = BEGIN
    holds_back = True

    def check(self, rows: Sequence[Row], r: Input) -> None:
        """Inserts only, in order, also across frames."""
        last = r.last_vs
        for y in rows:
            if not isinstance(y, Insert) or not self.in_order(last, y.vs):
                raise violation(y, "inserts only, in order of vs")
            last = y.vs

    def in_order(self, last: int, vs: int) -> bool:
        """Whether `vs` may follow `last`."""
        return last < vs

    def insert(self, y: Insert, r: Input) -> list[Row]:  # noqa: ARG002  # all inputs are alike
        """Goes out if it raises the largest start."""
        if y.vs < self.max_stable or y.vs <= self.max_vs:
            return []
        self.max_vs = y.vs
        return [y]


class R1(R0):
    """Ties come in the same order everywhere: the n-th at a start is the n-th of each input."""

    def __init__(self, policy: Policy, inputs: Mapping[int, Input]) -> None:
        super().__init__(policy, inputs)
        self.emitted: Counter[object] = Counter()
        self.count: dict[int, Counter[object]] = {}

    def what(self, y: Insert) -> object:  # noqa: ARG002  # R2 looks at it
        """What is counted at the newest start: here elements, whichever."""
        return "elements"

    def in_order(self, last: int, vs: int) -> bool:
        """Whether `vs` may follow `last`: ties may."""
        return last <= vs

    def insert(self, y: Insert, r: Input) -> list[Row]:
        """Goes out if its input has now said more at the newest start than was put out."""
        if y.vs < self.max_stable or y.vs < self.max_vs:
            return []
        if y.vs > self.max_vs:
            self.max_vs = y.vs
            self.emitted.clear()
            self.count.clear()
        mine = self.count.setdefault(r.number, Counter())
        mine[self.what(y)] += 1
        if mine[self.what(y)] <= self.emitted[self.what(y)]:
            return []
        self.emitted[self.what(y)] += 1
        return [y]

    def forget_input(self, number: int) -> None:
        """Frees its count; what it led to stays emitted."""
        super().forget_input(number)
        self.count.pop(number, None)


class R2(R1):
    """Ties in any order: equal events are counted."""

    def what(self, y: Insert) -> object:
        """What is counted at the newest start: equal events."""
        return y.payload, y.ve
