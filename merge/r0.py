"""LMerge, case R0: inserts only, with strictly rising starts.

    input 0:  ins(A,6,9) ins(B,8,9)               newest = 8
    input 1:  ins(A,6,9) ins(B,8,9) ins(C,11,12)  -> ins(C,11,12), newest = 11

The paper's two variables, the largest start and the largest stable put out, are all there is: a row
that does not raise the first is dropped.
"""

from __future__ import annotations

from gapless.merge.case import case_violation
from gapless.merge.in_order import InOrder
from gapless.protocol.frame import Frame, Mask, Times


class R0(InOrder):
    """One element a start, the same in all inputs."""

    name = "r0"

    def _check(self, number: int, frame: Frame, vs: Times) -> None:
        super()._check(number, frame, vs)
        if vs[0] == self._last[number]:
            raise case_violation(frame, 0, "r0 takes one insert for each vs")

    @staticmethod
    def _out_of_order(before: Times, vs: Times) -> Mask:
        return vs <= before

    def _pass(self, number: int, frame: Frame, vs: Times) -> list[Frame]:  # noqa: ARG002  # all alike
        start = int(vs.searchsorted(max(self.newest + 1, self.stable)))
        if start == len(vs):
            return []
        self.newest = int(vs[-1])
        return [frame.slice(start) if start else frame.with_stable(None)]
