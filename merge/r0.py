"""LMerge, case R0: inserts only, with strictly rising starts.

    input 0:  ins(A,6,9) ins(B,8,9)               newest = 8
    input 1:  ins(A,6,9) ins(B,8,9) ins(C,11,12)  -> ins(C,11,12), newest = 11

The paper's two variables, the largest start and the largest stable put out, are all there is: a row
that does not raise the first is dropped.
"""

from __future__ import annotations

from gapless.merge.case import case_violation
from gapless.merge.in_order import InOrder
from gapless.protocol.frame import Frame, Times


class R0(InOrder):
    """One element a start, the same in all inputs."""

    name = "r0"

    def _check(self, number: int, frame: Frame, vs: Times) -> None:
        last = self._last[number]
        super()._check(number, frame, vs)
        ties = vs[1:] == vs[:-1]
        if vs[0] == last or ties.any():
            row = 0 if vs[0] == last else int(ties.argmax()) + 1
            raise case_violation(frame, row, "r0 takes one insert for each vs")

    def _pass(self, number: int, frame: Frame, vs: Times) -> list[Frame]:  # noqa: ARG002  # all alike
        start = int(vs.searchsorted(max(self.newest + 1, self.stable)))
        if start == len(vs):
            return []
        self.newest = int(vs[-1])
        return [frame.slice(start) if start else frame.with_stable(None)]
