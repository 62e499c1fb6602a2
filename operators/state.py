"""An operator's state as data: named Arrow record batches, and nothing else.

    {"facts": stable | wanted      one row of int64s
     "cells": pane | src | n | ...}

A snapshot crosses processes and lies in files, so what comes back is checked: a table that is
missing, of another schema, or of no known name is a `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from gapless.protocol.errors import DecodeError

State = Mapping[str, pa.RecordBatch]

FACTS = "facts"


def facts(**numbers: int) -> pa.RecordBatch:
    """Single numbers as a batch of one row."""
    return pa.record_batch({name: pa.array([n], pa.int64()) for name, n in numbers.items()})


def read_facts(state: State, *names: str) -> list[int]:
    """The numbers that `facts` stored under these names."""
    batch = table(state, FACTS, pa.schema([(name, pa.int64()) for name in names]))
    if batch.num_rows != 1 or any(column.null_count for column in batch.columns):
        raise DecodeError("snapshot.facts", f"{batch.num_rows} rows, or a null", "one row")
    return [column[0].as_py() for column in batch.columns]


def table(state: State, name: str, schema: pa.Schema) -> pa.RecordBatch:
    """The batch of this name; raises unless it is there and has this schema."""
    batch = state.get(name)
    if batch is None:
        raise DecodeError("snapshot", f"has no table {name!r}", f"among {sorted(state)}")
    if not batch.schema.equals(schema):
        raise DecodeError(f"snapshot.{name}", f"has columns {batch.schema}", schema)
    return batch


def check_names(state: State, *names: str) -> None:
    """Raises unless these are the tables."""
    if set(state) != set(names):
        raise DecodeError("snapshot", f"has tables {sorted(state)}", sorted(names))


def check_no_state(state: State) -> None:
    """Raises unless there is nothing: the snapshot of what keeps nothing."""
    check_names(state)


def part(state: State, prefix: str) -> State:
    """The tables whose names begin with `prefix` and a dot, without it: an inner part's own."""
    start = f"{prefix}."
    return {n.removeprefix(start): b for n, b in state.items() if n.startswith(start)}


def as_part(state: State, prefix: str) -> State:
    """The inverse of `part`."""
    return {f"{prefix}.{name}": batch for name, batch in state.items()}
