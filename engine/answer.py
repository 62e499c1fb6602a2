"""The answer at one time: what of a stream's table is alive then.

    frames        ins(A,0,10) ins(B,5,15) stable(8)   adj(B,5,15,20) ins(C,10,20) stable(inf)
    as of 7       A, B        known at stable(8): nothing that comes later can change it
    at the end    B, C        the last instant at which anything is alive is 19

An event counts as of t by whether `vs <= t < ve`, so an element adds or takes at most one, and once
the stable is beyond t the answer is final: no later insert starts at t or before, no later adjust
has an end at t or before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.operators.cleanse import Cleanse
from gapless.operators.order import by_time_and_payload
from gapless.protocol.columns import compact_batch, take
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, StreamViolation
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def answer(frames: Iterable[Frame], schema: StreamSchema, at: int) -> pa.Table:
    """The payloads alive at `at`, each as often as it is, in a fixed order.

    Reads no further than it must: until a stable is beyond `at`.
    """
    table = KeyTable(schema.payload)
    count = Column(0)
    for frame in frames:
        if len(frame):
            _count(table, count, frame, at)
        if frame.stable is not None and frame.stable > at:
            break
    ids = count.values.nonzero()[0]
    if (count.values < 0).any():
        raise StreamViolation("an adjust", "an adjust changes an event that is there")
    rows = table.rows(np.repeat(ids, count.values[ids]))
    return _in_order(rows, schema)


def _count(table: KeyTable, count: Column, frame: Frame, at: int) -> None:
    """Adds what starts to count and takes what no longer does."""
    vs, ve, was = frame.vs, frame.ve, frame.was
    started = vs <= at
    by = (started & (ve > at)).astype(np.int64) - (started & (was > at))
    rows = by.nonzero()[0]
    if not len(rows):
        return
    ids, _ = table.intern(frame.take(rows).payload)
    values = count.fit(table.capacity)
    np.add.at(values, ids, by[rows])
    gone = np.unique(ids[values[ids] == 0])
    if len(gone):
        table.release(gone)
        count.fit(table.capacity)


def last_answer(frames: Iterable[Frame], schema: StreamSchema, insert_only: bool) -> pa.Table:
    """The payloads alive at the last instant at which any is, in a fixed order.

    Reads everything. `insert_only`: no event is ever adjusted, so each is as it will stay.
    """
    cleanse = None if insert_only else Cleanse(schema)
    last = BEGIN
    kept: list[pa.RecordBatch] = []
    for given in frames:
        frame = given if cleanse is None else cleanse.push(0, given).frame
        if not len(frame):
            continue
        latest = int(frame.ve.max())
        if latest > last:
            last, kept = latest, []
        if latest == last:
            kept.append(compact_batch(frame.take(frame.ve == last).payload))
    rows = pa.Table.from_batches(kept, schema=schema.payload).combine_chunks().to_batches()
    return _in_order(rows[0] if rows else schema.empty_batch.select(schema.names), schema)


def _in_order(rows: pa.RecordBatch, schema: StreamSchema) -> pa.Table:
    zeros: Times = np.zeros(rows.num_rows, np.int64)
    order = pa.array(by_time_and_payload(zeros, zeros, rows))
    columns = [take(column, order) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=schema.payload)


def instant(at: Any, unit: str) -> int:
    """A time in a stream's unit: of an int, a text as ISO 8601 has them, a date, a datetime
    (without a zone: UTC), or an Arrow or numpy scalar. What is finer than the unit is rounded down.
    """
    if isinstance(at, str):
        at = _spoken(at, unit)
    if isinstance(at, np.datetime64):
        at = _scalar(at)
    if isinstance(at, pa.Scalar):
        at = _ticks(at, unit)
    elif isinstance(at, datetime):
        since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        microseconds = since // timedelta(microseconds=1)
        at = microseconds * _PER_SECOND[unit] // 1_000_000
    elif isinstance(at, date):
        at = (at - date(1970, 1, 1)).days * 86_400 * _PER_SECOND[unit]
    if isinstance(at, bool) or not isinstance(at, int | np.integer):
        raise Misuse(f"time {at!r:.100}: {_WRITTEN}, or an int, a count of {unit}")
    if not BEGIN < at < INF:
        raise Misuse(f"time {at}: it is a finite int64")
    return int(at)


_WRITTEN = "write it as '2024-05-01' or '2024-05-01T12:30:00Z', as a datetime"
_NANOSECONDS = re.compile(r"([.,][0-9]{6})([0-9]{1,3})(?![0-9])")
"""What a datetime cannot hold of a fraction of a second."""


def _spoken(text: str, unit: str) -> int:
    finer = _NANOSECONDS.search(text)
    try:
        at = datetime.fromisoformat(_NANOSECONDS.sub(r"\1", text))
    except ValueError:
        raise Misuse(f"time {text[:50]!r}: {_WRITTEN}, or an int, a count of {unit}") from None
    ticks = instant(at, unit)
    return ticks + int(finer[2].ljust(3, "0")) if finer and unit == "ns" else ticks


def _scalar(at: np.datetime64) -> pa.Scalar:
    try:
        return pa.scalar(at)
    except (pa.ArrowException, ValueError) as e:  # of years, or of no unit at all
        raise Misuse(f"time {at!r}: {e}; give it a unit, as in numpy.datetime64(t, 'ms')") from None


def _ticks(at: pa.Scalar, unit: str) -> Any:
    t = at.type
    if not at.is_valid:
        raise Misuse(f"time {at!r}: a null is no time")
    if pa.types.is_date(t):  # not by way of Python, whose dates end with the year 9999
        return (
            (at.value * 86_400_000 if t.bit_width == 32 else at.value) * _PER_SECOND[unit] // 1000
        )
    if not pa.types.is_timestamp(t):
        return at.as_py()
    return at.value * _PER_SECOND[unit] // _PER_SECOND[t.unit]
