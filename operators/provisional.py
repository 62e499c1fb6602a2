"""Answers given before they are final, and what is said when they turn out otherwise.

    told       window 3: (A, 2)
    now        window 3: (A, 3) (B, 1)
    revision   removal of (A, 2), insert of (A, 3) and (B, 1)

The value of an answer is payload, so a revision is a removal and an insert, never a moved end. What
has not changed is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.operators.pick import Picks
from gapless.operators.state import State, table
from gapless.protocol.columns import take_rows
from gapless.protocol.frame import Mask

_WINDOW = "_window"


class Told:
    """The provisional answers that have been put out, by window."""

    def __init__(self, payload: pa.Schema) -> None:
        self._payload = payload
        self._schema = pa.schema([pa.field(_WINDOW, pa.int64(), nullable=False), *payload])
        self._told: dict[int, pa.RecordBatch] = {}
        self._keys = KeyTable(payload)  # to compare with; empty between
        self._picks = Picks(payload)

    @property
    def windows(self) -> list[int]:
        """Those of which something was told, ascending."""
        return sorted(self._told)

    def revise(
        self, window: int, now: pa.RecordBatch, final: bool
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """What to remove and what to insert so that a window is told as it is now."""
        before = self._told.pop(window, None)
        if not final and now.num_rows:
            self._told[window] = now
        if before is None:
            return now.slice(0, 0), now
        if before.equals(now):
            return now.slice(0, 0), now.slice(0, 0)
        stays, known = self._common(before, now)
        gone, new = (~stays).nonzero()[0], (~known).nonzero()[0]
        return self._picks.take(before, gone), self._picks.take(now, new)

    def _common(self, before: pa.RecordBatch, now: pa.RecordBatch) -> tuple[Mask, Mask]:
        """Which rows of each are in the other; no row is twice in either."""
        keys = self._keys
        ids, _ = keys.intern(before)
        found = keys.find(now)
        place = np.empty(keys.capacity, np.int64)
        place[ids] = np.arange(before.num_rows)
        keys.release(ids)
        known: Mask = found >= 0
        stays = np.zeros(before.num_rows, np.bool_)
        stays[place[found[known]]] = True
        return stays, known

    def forget(self, windows: Iterable[int]) -> None:
        """Drops what was told about these."""
        for window in windows:
            self._told.pop(window, None)

    def snapshot(self) -> pa.RecordBatch:
        """Everything told, as rows."""
        batches = [
            pa.RecordBatch.from_arrays(
                [pa.array(np.full(told.num_rows, w, np.int64)), *told.columns], schema=self._schema
            )
            for w, told in sorted(self._told.items())
        ]
        none = [pa.nulls(0, field.type) for field in self._schema]
        empty = pa.RecordBatch.from_arrays(none, schema=self._schema)
        return pa.concat_batches([empty, *batches])

    def restore(self, state: State, name: str) -> None:
        """Takes it back."""
        rows = table(state, name, self._schema)
        windows = rows.column(0).to_numpy()
        payload = pa.RecordBatch.from_arrays(rows.columns[1:], schema=self._payload)
        for window in np.unique(windows).tolist():
            self._told[window] = take_rows(payload, windows == window)

    @property
    def nbytes(self) -> int:
        """Bytes of what is held."""
        return sum(told.nbytes for told in self._told.values())
