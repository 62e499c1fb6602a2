"""Rows of a frame as plain tuples, and how one event is written in a verdict.

Frames of a simulation have a handful of rows: what costs is the frame, not the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from gapless.protocol.elements import Payload
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event
from gapless.protocol.values import to_values

Row = tuple[int, int, int, Payload]
"""vs, ve, was, and the payload in its canonical form."""
Key = tuple[Payload, int]
"""A payload and a start."""

EVENTS_TOLD_MAX = 3
"""Events that a verdict names; the first ones show what it is about."""


def rows_of(frame: Frame) -> list[Row]:
    """The rows, in their order."""
    if not len(frame):
        return []
    vs, ve, was, *payload = frame.batch.columns
    readers = _readers(frame.schema.payload)
    values = [read(column) for read, column in zip(readers, payload, strict=True)]
    return list(
        zip(
            vs.to_pylist(),
            ve.to_pylist(),
            was.to_pylist(),
            zip(*values, strict=True) if values else [()] * len(frame),
            strict=True,
        )
    )


@lru_cache(maxsize=64)
def _readers(schema: pa.Schema) -> Sequence[Callable[[pa.Array], list[Any]]]:
    """For each column the quickest way to canonical values."""
    return [_plain if _is_plain(field.type) else to_values for field in schema]


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Python's own value is the canonical one, as it is."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind))


def told(keys: Sequence[tuple[Payload, int, int]]) -> str:
    """A few events, in words."""
    shown = ", ".join(str(Event(*key)) for key in sorted(keys, key=repr)[:EVENTS_TOLD_MAX])
    more = len(keys) - EVENTS_TOLD_MAX
    return f"{shown} and {more} more" if more > 0 else shown
