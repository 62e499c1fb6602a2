"""Answers that are held until the next one: events without an end yet, by group.

    hold(groups [A], since [5], rows [(A, 2)])      ins((A,2),5,inf)
    ended(groups [A], at [9])                       adj((A,2),5,inf,9)

What was put out is kept as it was, so that its end is that of the very same event.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.memory import Memory
from gapless.operators.payloads import Payloads
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema


class AnswersHeld:
    """By group since when an answer is held, and which."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema
        self._payloads = Payloads(schema.payload)
        self._since = Column(BEGIN)  # BEGIN where none is held
        self._payload = Column(0)

    def limited(self, memory: Memory) -> None:
        """Rows are asked for."""
        self._payloads.memory = memory

    def has(self, groups: Ids) -> Mask:
        """Of which groups an answer is held."""
        since = self._since.values
        held: Mask = since[np.minimum(groups, len(since) - 1)] > BEGIN
        held &= groups < len(since)
        return held

    @property
    def groups(self) -> Ids:
        """All groups of which an answer is held."""
        found: Ids = (self._since.values > BEGIN).nonzero()[0]
        return found

    def ended(self, groups: Ids, at: Times) -> Frame:
        """The answers of these groups, which have one each, end at these times."""
        vs, payload = self._since.values[groups], self._payload.values[groups]
        rows = self._payloads.rows(payload)
        self._payloads.drop(payload)
        self._since.values[groups] = BEGIN
        self._payload.values[groups] = 0
        return Frame.made(self._schema, vs, at, rows.columns, np.full(len(vs), INF))

    def hold(self, groups: Ids, since: Times, columns: Sequence[pa.Array], capacity: int) -> None:
        """From now on these are held; of none of the groups one is. They are below `capacity`."""
        rows = pa.RecordBatch.from_arrays(list(columns), schema=self._schema.payload)
        payload = self._payloads.intern(rows)
        self._payloads.use(payload)
        self._since.fit(capacity)[groups] = since
        self._payload.fit(capacity)[groups] = payload

    @property
    def events(self) -> tuple[Ids, pa.RecordBatch]:
        """All that are held, by group: the groups, and the events."""
        groups = self.groups
        vs = self._since.values[groups]
        rows = self._payloads.rows(self._payload.values[groups])
        return groups, Frame.from_columns(self._schema, vs, np.full(len(vs), INF), rows).batch

    @property
    def nbytes(self) -> int:
        """Bytes of the answers."""
        return self._since.nbytes + self._payload.nbytes + self._payloads.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._payloads.validate(self._payload.values[self.groups])
        if len(self._since.values) != len(self._payload.values):
            raise Bug("an answer without its row, or a row without its answer")
