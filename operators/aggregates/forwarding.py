"""An accumulator over another one's state: what one looks like that changes only what comes in.

count(where=(len > 0))     forwards all calls to a count's accumulator, `add` with fewer rows
arg_max(src, len)          to that of a largest value, of (len, src) pairs
"""

from __future__ import annotations

import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, Unanswerable
from gapless.protocol.frame import Times


class Forwarding(Accumulator):
    """Forwards every call; the state is the inner accumulator's."""

    def __init__(self, inner: Accumulator) -> None:
        self.inner = inner
        self.differential = inner.differential
        self.may_diverge = inner.may_diverge
        self.repeats = inner.repeats
        self.added = inner.added
        self.partial_schema = inner.partial_schema

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self.inner.fit(capacity)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts rows."""
        self.inner.add(ids, rows, times)

    def take(self, ids: Ids) -> pa.RecordBatch:
        """Sub-aggregates."""
        return self.inner.take(ids)

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Adds sub-aggregates."""
        self.inner.merge(ids, partial)

    def unmerge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Subtracts sub-aggregates."""
        self.inner.unmerge(ids, partial)

    def clear(self, ids: Ids) -> None:
        """Back to no rows."""
        self.inner.clear(ids)

    def results(self, ids: Ids) -> pa.Array:
        """The answers."""
        return self.inner.results(ids)

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        """Which ids have no answer."""
        return self.inner.unanswerable(ids)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self.inner.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.inner.validate()
