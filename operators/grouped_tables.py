"""Cells in snapshots: place, group columns; and beside them a batch of sub-aggregates a state.

    cells      _place | src          cells.0   count         cells.1   sum | ...
                 7    | A                        2                      11
                 7    | B                        1                       3

Ids of groups mean nothing elsewhere, so a snapshot says the groups themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.groups import Groups
from gapless.operators.state import State, table
from gapless.protocol.errors import DecodeError
from gapless.protocol.frame import Times

PLACE = "_place"


def write_cells(
    name: str,
    places: Times,
    groups: Ids,
    partials: Sequence[pa.RecordBatch],
    known: Groups,
) -> State:
    """Cells as tables."""
    schema = _schema(known)
    keys = pa.RecordBatch.from_arrays([pa.array(places), *known.columns(groups)], schema=schema)
    return {name: keys, **{f"{name}.{i}": partial for i, partial in enumerate(partials)}}


def read_cells(
    name: str, state: State, states: Sequence[Accumulator], known: Groups
) -> tuple[Times, Ids, list[pa.RecordBatch]]:
    """The inverse, with ids of groups as `known` gives them; raises `DecodeError`."""
    keys = table(state, name, _schema(known))
    partials = [table(state, f"{name}.{i}", s.partial_schema) for i, s in enumerate(states)]
    if any(partial.num_rows != keys.num_rows for partial in partials):
        raise DecodeError(f"snapshot.{name}", "tables of different lengths", "a row a cell")
    places = keys.column(0).to_numpy()
    if (np.diff(places) < 0).any():
        raise DecodeError(f"snapshot.{name}", "places out of order", "ascending")
    return places, known.intern(keys.columns[1:], keys.num_rows), partials


def _schema(known: Groups) -> pa.Schema:
    return pa.schema([pa.field(PLACE, pa.int64(), nullable=False), *known.schema])
