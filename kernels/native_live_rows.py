"""LiveRows over the C++ module: checks and result arrays here, the work there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels import _native
from gapless.kernels.keys import Gate, Ids, Mask, as_int64, encode_again, plain_schema
from gapless.kernels.twin_live_rows import EVER, NO_BOUND, Lives, Met


class LiveRows:
    """Rows of one schema with keys and lifetimes; see `gapless.kernels.live_rows`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._gate = Gate(schema)
        self._plain = plain_schema(schema)
        self._encodes = not self._plain.equals(schema)
        self._rows = _native.LiveRows(schema)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._gate.schema

    def add(self, batch: pa.RecordBatch, keys: Any, vs: Any, ve: Any, since: int = EVER) -> Ids:
        """Stores the rows that end at `since` or later; their ids, -1 for those not stored.

        `ValueError` for a negative key or a row that does not end after it starts.
        """
        self._gate.check(batch)
        ids = np.empty(batch.num_rows, np.int64)
        lives = as_int64("keys", keys), as_int64("vs", vs), as_int64("ve", ve)
        self._rows.add(batch, *lives, since, ids)
        return ids

    def meet(
        self, keys: Any, vs: Any, ve: Any, start: int = 0, most: int = NO_BOUND
    ) -> tuple[int, Met]:
        """Stored rows of the same key and with an instant in common, from row `start` on.

        Stops behind the row with which there are `most` or more; the first is where.
        """
        lives = as_int64("keys", keys), as_int64("vs", vs), as_int64("ve", ve)
        end, met = self._rows.meet(*lives, start, most)
        return end, Met(*met)

    def equals(
        self, keys: Any, vs: Any, ve: Any, start: int = 0, most: int = NO_BOUND
    ) -> tuple[int, Met]:
        """The same for stored rows of the same key with exactly the same lifetime."""
        lives = as_int64("keys", keys), as_int64("vs", vs), as_int64("ve", ve)
        end, met = self._rows.equals(*lives, start, most)
        return end, Met(*met)

    def lives(self, ids: Any) -> Lives:
        """Keys and lifetimes of live ids."""
        ids = as_int64("ids", ids)
        lives = Lives(*(np.empty(len(ids), np.int64) for _ in Lives._fields))
        self._rows.lives(ids, *lives)
        return lives

    def set_ends(self, ids: Any, ve: Any) -> None:
        """Lets live rows end at other times. `ValueError` unless those are after their starts."""
        self._rows.set_ends(as_int64("ids", ids), as_int64("ve", ve))

    def rows(self, ids: Any) -> pa.RecordBatch:
        """The rows of live ids, in the order asked for."""
        _capsule, address = self._rows.rows(as_int64("ids", ids))
        batch = pa.RecordBatch._import_from_c(address, self._plain)
        if not self._encodes:
            return batch
        schema = self._gate.schema
        columns = [
            encode_again(column, field.type, field.name)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def release(self, ids: Any) -> None:
        """Forgets rows; their ids will be used again. `ValueError` unless all are live, once."""
        self._rows.release(as_int64("ids", ids))

    @property
    def ids(self) -> Ids:
        """The live ids, from the lowest on."""
        mask: Mask = np.empty(self.capacity, np.bool_)
        self._rows.live(mask)
        return mask.nonzero()[0]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def capacity(self) -> int:
        """One above the largest live id: how long an array over the ids has to be."""
        return self._rows.capacity

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        self._rows.validate()
