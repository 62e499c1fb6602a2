"""Some rows of a record batch, for the path that every push of a merger takes.

    picker = Picker(schema)
    picker.take(batch, positions)      # what batch.take(positions) gives, or None

Arrow's `take` serves every type, but costs over a microsecond a column before its first row: for
frames of a hundred rows that is most of it. Batches whose columns are all of a fixed width and hold
no null are gathered by the kernel; for others, and on the twin, the answer is None.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KERNEL
from gapless.kernels.keys import Ids

if KERNEL == "native":
    from gapless.kernels import _native


def _width_bytes(t: pa.DataType) -> int:
    """Bytes of a value of type `t`; 0 where that is no whole number, or not a fixed one."""
    if not (pa.types.is_primitive(t) or pa.types.is_decimal(t)):
        return 0
    return 0 if t.bit_width % 8 else int(t.bit_width) // 8


class Picker:
    """Takes rows out of batches of one schema."""

    __slots__ = ("_schema", "_widths")

    def __init__(self, schema: pa.Schema) -> None:
        widths = [_width_bytes(field.type) for field in schema]
        serves = KERNEL == "native" and all(widths)
        self._schema = schema
        self._widths = np.array(widths, np.int64) if serves else None

    def take(self, batch: pa.RecordBatch, positions: Ids) -> pa.RecordBatch | None:
        """The rows at `positions`, in that order; None where this batch is not of the plain kind.

        `ValueError` for a position that is not a row's.
        """
        if self._widths is None or not batch.schema.equals(self._schema):
            return None
        gathered = _native.gather(batch, positions, self._widths)
        if gathered is None:
            return None
        # Through the capsule's public way Arrow would parse the schema again for each batch, which
        # costs as much as all the rest; by address it takes the array from the capsule likewise.
        _capsule, address = gathered
        return pa.RecordBatch._import_from_c(address, self._schema)
