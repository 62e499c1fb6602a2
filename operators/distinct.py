"""Distinct: each payload once, where it is there at all.

    ins(A,0,5) ins(A,3,9) ins(B,4,6) stable(7)     ->  ins(A,0,9) ins(B,4,6) stable(7)
    ins(A,9,12) stable(20)                         ->  adj(A,0,9,12) stable(20)

Lifetimes are as long as they can be, which is the normal form of a set: a distinct that put out
the pieces as they came would tell another table for another order, and a join of two distincts
another one than the distinct of their join.
"""

from __future__ import annotations

import numpy as np

from gapless.operators.per_snapshot import PerSnapshot
from gapless.operators.pieces import Pieces, Rows, Spans
from gapless.protocol.schema import StreamSchema


class Distinct(PerSnapshot):
    """The set of payloads alive at each instant."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema, None)

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        there = spans.covered(len(pieces), self._events.count.values[spans.event]).nonzero()[0]
        return Rows(there, pieces.group[there], np.ones(len(there), np.int64))
