"""Top-k: within each group, at every instant, the k rows that come first by `keys`.

    k = 1, by = n       ins((A,5),0,9) ins((A,7),2,4) stable(9)
                    ->  ins((A,5),0,2) ins((A,7),2,4) ins((A,5),4,9) stable(9)

What makes it the same in every replica is that its order is total (`rank_order.py`). Equal rows are
several rows, and which of them are in does not show.

Rows are ranked once an evaluation. Each is then listed at the few nodes of the tree over the pieces
that make up its lifetime (`pieces.py`); level by level from the top, a node keeps the k best of its
list and hands them to both of its children. So n rows over p pieces cost about n log p + 2pk
entries sorted, not n times p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gapless.kernels.keys import Ids
from gapless.operators.aside import Aside
from gapless.operators.operator import Marks, Out, check_schema
from gapless.operators.per_snapshot import PerSnapshot
from gapless.operators.pieces import Pieces, Rows, Spans
from gapless.operators.rank_keys import RankKey, check_ordered
from gapless.operators.rank_order import Ranking
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

K_MAX = 1 << 20
"""Rows at one instant of one group. A ranking longer than this is a sort of the whole table."""


class TopK(PerSnapshot):
    """The k best rows of each group at each instant; rows that `keys` cannot rank go aside.

    within: the columns that rows of a group agree on; none: all rows are one group.
    """

    def __init__(
        self,
        schema: StreamSchema,
        k: int,
        keys: Sequence[RankKey],
        within: Sequence[str],
        aside: Aside,
    ) -> None:
        if not 1 <= k <= K_MAX:
            raise Misuse(f"top {k}: from 1 to {K_MAX} rows")
        for key in keys:
            check_ordered("top_k", key.by, key.by.type(schema.payload))
        super().__init__(schema, within)
        self._k = k
        self._ranks = Ranking("top_k", keys, aside)

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """Sets aside the rows that cannot be ranked; the others are taken in."""
        check_schema(frame, self.schema)
        if len(frame):
            frame = self._ranks.usable(frame)
        yield from super().parts(source, frame, marks)

    def _entries(self, pieces: Pieces, spans: Spans) -> Ids:
        alive = spans.covered(len(pieces), self._copies_of(spans))
        return np.minimum(alive, self._k)

    def _copies_of(self, spans: Spans) -> Ids:
        """Of equal events k matter at the most."""
        return np.minimum(self._events.count.values[spans.event], self._k)

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        spans = spans.repeated(self._copies_of(spans))
        best_first = self._ranking(spans)
        rank = np.empty(len(best_first), np.int64)
        rank[best_first] = np.arange(len(best_first))
        piece, ranks = _best(list(spans.nodes()), rank, self._k)
        payload = self._events.payload.values[spans.event[best_first[ranks]]]
        return Rows(piece, payload, np.ones(len(piece), np.int64))

    def _ranking(self, spans: Spans) -> Ids:
        """The places of the events in their order, whatever their groups."""
        payloads, at = np.unique(self._events.payload.values[spans.event], return_inverse=True)
        rows = self._events.payloads.rows(payloads)
        order = self._ranks.best_first(rows)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return np.argsort(place[at], kind="stable")


def _best(levels: list[tuple[Ids, Ids]], rank: Ids, k: int) -> tuple[Ids, Ids]:
    """Pairs (piece, rank) of the k least ranks of each piece; levels as of `Spans.nodes`."""
    nothing = np.zeros(0, np.int64)
    n = max(len(rank), 1)
    node, kept = nothing, nothing
    for nodes, places in reversed(levels):
        key = np.concatenate(
            [2 * node * n + kept, (2 * node + 1) * n + kept, nodes * n + rank[places]]
        )
        key.sort()
        node, kept = key // n, key % n
        begins = np.ones(len(node), np.bool_)
        begins[1:] = node[1:] != node[:-1]
        at = np.arange(len(node))
        within = at - np.maximum.accumulate(np.where(begins, at, 0)) < k
        node, kept = node[within], kept[within]
    return node, kept
