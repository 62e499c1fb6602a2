"""Some rows of batches of one schema: what every push of many an operator takes.

    picks = Picks(schema)
    picks.take(batch, positions)       # as batch.take(positions), of every payload type

Plain columns are gathered by the kernel, for short frames in a quarter of Arrow's time.
"""

from __future__ import annotations

import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.kernels.pick import Picker
from gapless.protocol.columns import take_rows


class Picks:
    """Takes rows out of batches of one schema."""

    __slots__ = ("_picker",)

    def __init__(self, schema: pa.Schema) -> None:
        self._picker = Picker(schema)

    def take(self, batch: pa.RecordBatch, positions: Ids) -> pa.RecordBatch:
        """The rows at `positions`, in that order."""
        picked = self._picker.take(batch, positions)
        return take_rows(batch, positions) if picked is None else picked
