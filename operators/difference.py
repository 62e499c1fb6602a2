"""Difference: each payload as often as it is alive left more than right.

    left   ins(A,0,9) ins(A,2,9) stable(12)
    right  ins(A,4,6) stable(12)             ->  ins(A,0,4) ins(A,2,9) ins(A,6,9) stable(12)

    copies     [0,2) 1   [2,4) 2   [4,6) 2 - 1   [6,9) 2

Where the right has more, there is nothing: what it has too much is not owed later.
"""

from __future__ import annotations

import numpy as np

from gapless.operators.per_snapshot import PerSnapshot
from gapless.operators.pieces import Pieces, Rows, Spans
from gapless.protocol.schema import StreamSchema

LEFT, RIGHT = 0, 1


class Difference(PerSnapshot):
    """At each instant the multiset of payloads of input 0, less that of input 1."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema, None, inputs=2)

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        count = self._events.count.values[spans.event]
        signed = np.where(self._events.input.values[spans.event] == LEFT, count, -count)
        more = spans.covered(len(pieces), signed)
        there = (more > 0).nonzero()[0]
        return Rows(there, pieces.group[there], more[there])
