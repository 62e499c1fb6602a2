"""Rows with a key and a lifetime each: one side of a temporal join.

    rows = LiveRows(schema)
    ids = rows.add(batch, keys, vs, ve)           the lowest free ids, one a row
    end, met = rows.meet(keys, vs, ve)            who has that key, and is alive then?
    met.asked, met.id, met.vs, met.ve             one entry for each answer
    rows.equals(keys, vs, ve)                     who has that key, and exactly that lifetime?
    rows.rows(ids), rows.lives(ids)               the columns back; their keys and lifetimes
    rows.set_ends(ids, ve), rows.release(ids)

A key is an id of a `KeyTable`; a negative one asks for no row. Rows are not compared: two equal
ones are two, which is what makes this cheaper than a table and `Chains`. Answers come in the order
of what was asked, and for one key in the order in which its rows were added.

Both are bounded: they stop behind the row with which there are `most` answers or more, and say how
far they came, so a key that many rows have is met with piece by piece.

Errors are those of `keys.py`. There is a native one and a twin, as of everything here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.kernels import KERNEL
from gapless.kernels.twin_live_rows import EVER, NO_BOUND, Lives, Met

if TYPE_CHECKING or KERNEL == "native":
    from gapless.kernels.native_live_rows import LiveRows
else:
    from gapless.kernels.twin_live_rows import LiveRows

__all__ = ["EVER", "NO_BOUND", "LiveRows", "Lives", "Met"]
