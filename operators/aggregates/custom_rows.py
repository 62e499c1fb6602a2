"""What a user's function without `merge` needs: every value, or row, of a group with its count.

    aggregate("len", fn)              values      9 9 40               nulls do not count
    aggregate(("len", "src"), fn)     rows        (12:00, 40, "a") (12:01, 9, null) ...

A group of no rows, or of nulls alone where nulls do not count, is null, without a call.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.custom import Custom, Said
from gapless.operators.aggregates.function import Unanswerable, place_of
from gapless.operators.aggregates.inputs import present_rows
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.operators.aggregates.tally import Tally
from gapless.protocol.columns import take
from gapless.protocol.frame import Times


class CustomRows(OfParts):
    """Counted values or rows, and the answers of the ids that were asked for last.

    `results` and `unanswerable` come in pairs, and a call of a user's function costs what it likes:
    answers are kept until something changes.
    """

    differential = True

    def __init__(self, custom: Custom, schema: pa.Schema) -> None:
        self._custom = custom
        self._reads = [place_of(custom, schema, name) for name in custom.names]
        self._types = [schema.field(place).type for place in self._reads]
        kept = [pa.field(str(i), plain_type(t)) for i, t in enumerate(self._types)]
        time = pa.field("time", pa.int64(), nullable=False)
        self._row = pa.struct([time, *kept]) if custom.of_rows else kept[0].type
        self._tally = Tally(self._row)
        self._asked: tuple[bytes, pa.Array, Unanswerable | None] | None = None
        super().__init__(self._tally)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts each value, or each row at its time."""
        self._asked = None
        if self._custom.of_rows:
            columns = [plain_values(rows.column(place)) for place in self._reads]
            fields = [pa.array(times), *columns]
            self._tally.add(ids, pa.StructArray.from_arrays(fields, fields=list(self._row)))
        else:
            ids, column = present_rows(ids, rows.column(self._reads[0]))
            self._tally.add(ids, plain_values(column))

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Adds counts."""
        self._asked = None
        super().merge(ids, partial)

    def unmerge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Subtracts counts."""
        self._asked = None
        super().unmerge(ids, partial)

    def clear(self, ids: Ids) -> None:
        """Back to no rows."""
        self._asked = None
        super().clear(ids)

    def results(self, ids: Ids) -> pa.Array:
        """What the function says."""
        return self._answers(ids)[0]

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        """Where it raised, or gave what does not fit."""
        return self._answers(ids)[1]

    def _answers(self, ids: Ids) -> tuple[pa.Array, Unanswerable | None]:
        key = ids.tobytes()
        if self._asked is None or self._asked[0] != key:
            self._asked = (key, *self._custom.column(self._called(ids)))
        return self._asked[1:]

    def _called(self, ids: Ids) -> Iterator[Said | None]:
        """Calls the function once for each id that has rows."""
        positions, values, counts = self._tally.in_order(ids)
        repeated = np.repeat(np.arange(len(counts)), counts)
        rows = take(values, pa.array(repeated))
        of_rows = self._custom.of_rows
        kept = [rows.field(1 + i) for i in range(len(self._types))] if of_rows else [rows]
        columns = [restored(c, t) for c, t in zip(kept, self._types, strict=True)]
        ends = np.searchsorted(positions[repeated], np.arange(len(ids)), side="right")
        begin = 0
        for end in ends.tolist():
            part = [column.slice(begin, end - begin) for column in columns]
            yield self._custom.ask(part) if end > begin else None
            begin = end
