"""Top and heavy: which rows of a window are said, and in which order.

    Top 2 by n             the largest first, with their ranks, from 1; of each group, if `within`
    Heavy, share 0.05      those whose count is 5 % of all counts of the window, or more

Ranks follow `rank_order.py`, so every replica says the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids
from gapless.operators.aside import Aside
from gapless.operators.rank_keys import RankKey
from gapless.operators.rank_order import Ranking, by_places, places_of_values
from gapless.protocol.columns import int64s
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

MILLION = 1_000_000
"""Shares are counted in millionths."""


class Top:
    """The k rows that come first by `keys`, with their ranks in a column more."""

    def __init__(
        self,
        schema: StreamSchema,
        k: int,
        keys: Sequence[RankKey],
        within: Sequence[str],
        rank: str,
        aside: Aside,
    ) -> None:
        self.schema = ranked_schema(schema, rank)
        self._k = k
        self._ranks = Ranking("top", keys, aside)
        self._groups = [schema.names.index(name) for name in within]

    def usable(self, frame: Frame) -> Frame:
        """Rows that `keys` cannot rank go aside."""
        return self._ranks.usable(frame)

    def choose(self, starts: Times, rows: pa.RecordBatch) -> tuple[Ids, list[pa.Array]]:
        """The first k of each window, or of each group in it, by rank."""
        at, ranks, places = self._ranked(starts, rows)
        order = np.lexsort((places, ranks, starts[at]))
        return at[order], [int64s(ranks[order])]

    def thinned(self, starts: Times, rows: pa.RecordBatch) -> Ids | None:
        """A row that is not among the first k now will not be later."""
        return np.sort(self._ranked(starts, rows)[0])

    def _ranked(self, starts: Times, rows: pa.RecordBatch) -> tuple[Ids, Ids, Ids]:
        """The first k of each window and group, their ranks, and their places among all rows."""
        best = self._ranks.best_first(rows)
        groups = self._group_of(rows)[best]
        order = np.lexsort((groups, starts[best]))  # stable: in each group the best first
        at, groups = best[order], groups[order]
        new = np.ones(len(at), np.bool_)
        new[1:] = (starts[at][1:] != starts[at][:-1]) | (groups[1:] != groups[:-1])
        number = np.arange(len(at))
        ranks = number - np.maximum.accumulate(np.where(new, number, 0)) + 1
        kept = ranks <= self._k
        return at[kept], ranks[kept], order[kept]

    def _group_of(self, rows: pa.RecordBatch) -> Ids:
        if not self._groups:
            return np.zeros(rows.num_rows, np.int64)
        columns = rows.select(self._groups)
        return KeyTable(columns.schema).intern(columns)[0]


class Heavy:
    """The rows whose count is no less than a share of all counts of their window."""

    def __init__(self, schema: StreamSchema, column: str, share: float) -> None:
        self.schema = schema
        self._place = schema.names.index(column)
        self._millionths = millionths(share)

    def usable(self, frame: Frame) -> Frame:
        """All rows."""
        return frame

    def choose(self, starts: Times, rows: pa.RecordBatch) -> tuple[Ids, list[pa.Array]]:
        """The largest counts first."""
        counts = rows.column(self._place)
        n = counts.to_numpy()
        windows, of = np.unique(starts, return_inverse=True)
        totals = np.zeros(len(windows), np.int64)
        np.add.at(totals, of, n)
        best = by_places(places_of_values(counts, largest=True), rows)
        heavy = best[n[best] * MILLION >= totals[of[best]] * self._millionths]
        return heavy[np.argsort(starts[heavy], kind="stable")], []

    def thinned(self, starts: Times, rows: pa.RecordBatch) -> Ids | None:
        """Every count is part of the sum."""
        return None


def ranked_schema(schema: StreamSchema, rank: str) -> StreamSchema:
    """The columns of rows, and that of their ranks."""
    ranks = pa.field(rank, pa.int64(), nullable=False)
    return StreamSchema(pa.schema([*schema.payload, ranks]), schema.time_unit)


def millionths(share: float) -> int:
    """A share in millionths, rounded down, so that none is missed; it must be of (0, 1]."""
    given: object = share
    known = isinstance(given, int | float) and not isinstance(given, bool)
    if not known or not 1 / MILLION <= share <= 1:
        raise Misuse(
            f"heavy: share={share!r}: the part of a window's rows that makes a value heavy, above "
            "0 and at most 1, as in share=0.05 for 5 %; a millionth is the least"
        )
    return int(Fraction(repr(float(share))) * MILLION)
