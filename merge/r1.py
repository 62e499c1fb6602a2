"""LMerge, case R1: inserts only, in order, ties in the same order in every input.

    newest = 8, emitted = 2       input 0 said A, B at 8: count 2
                                  input 1 said A at 8:    count 1
    input 1: ins(B,8,9) ins(C,8,9)   count 3: B is its second, known; C its third, goes out

The n-th element at a start is the same in all inputs, so counting is enough: one goes out when its
input's count at the newest start exceeds what has been emitted there. The emitted count is kept
apart from the inputs' counts, for an input may leave and what it led to stays.
"""

from __future__ import annotations

from typing import Any

from gapless.merge.divergence import Divergences
from gapless.merge.in_order import InOrder
from gapless.merge.policy import Policy
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema


class R1(InOrder):
    """Ties in a fixed order, counted."""

    name = "r1"

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        super().__init__(schema, policy, divergences)
        self.emitted = 0
        """Elements put out at the newest start."""
        self.counts: dict[int, int] = {}
        """Elements that each input has said at the newest start."""

    def attach(self, number: int) -> None:
        """Opens the state of an input."""
        super().attach(number)
        self.counts[number] = 0

    def detach(self, number: int) -> None:
        """Frees the state of an input; what it led to stays emitted."""
        super().detach(number)
        del self.counts[number]

    def _pass(self, number: int, frame: Frame, vs: Times) -> list[Frame]:
        n = len(vs)
        start = int(vs.searchsorted(max(self.newest, self.stable)))
        if start < n and vs[start] == self.newest:
            behind = n if vs[-1] == self.newest else int(vs.searchsorted(self.newest + 1))
            said = self.counts[number] + behind - start
            start = min(start + max(0, self.emitted - self.counts[number]), behind)
            self.counts[number] = said
            self.emitted = max(self.emitted, said)
        if start == n:
            return []
        if vs[-1] > self.newest:
            self.newest = int(vs[-1])
            self.emitted = n - int(vs.searchsorted(self.newest))
            self.counts = dict.fromkeys(self.counts, 0)
            self.counts[number] = self.emitted
        return [frame.slice(start) if start else frame.with_stable(None)]

    @property
    def nbytes(self) -> int:
        """Bytes of state: a count more for each input."""
        return super().nbytes + 8 * (1 + len(self.counts))

    def validate(self) -> None:
        """Every input has a count, and none has said more than was put out."""
        super().validate()
        if set(self.counts) != self.inputs or max(self.counts.values(), default=0) > self.emitted:
            raise Bug(f"counts {self.counts}, emitted {self.emitted}")

    def adopt_output(self, live: Frame) -> None:
        """Goes on behind the newest rows."""
        super().adopt_output(live)
        self.emitted = int((live.vs == self.newest).sum())

    def adopt_input(self, number: int, told: Frame) -> None:
        """Counts what the input said at the newest start."""
        super().adopt_input(number, told)
        self.counts[number] = int((told.vs == self.newest).sum())

    def facts(self) -> dict[str, Any]:
        """The counts, too."""
        counts = [[n, count] for n, count in self.counts.items()]
        return {**super().facts(), "emitted": self.emitted, "counts": counts}

    def adopt_facts(self, facts: dict[str, Any]) -> None:
        """Takes `facts()` back."""
        super().adopt_facts(facts)
        self.emitted = facts["emitted"]
        self.counts = dict(facts["counts"])
