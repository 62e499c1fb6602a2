"""Debezium's envelopes: a row before and after each change, and back.

    op   before    after     ts_ms        changes
    r              (k, a)    1            +I (k, a)               read by the first snapshot
    c              (k, a)    1            +I (k, a)
    u    (k, a)    (k, b)    5            -U (k, a)   +U (k, b)
    u              (k, b)    5            +U (k, b)               for `Upserts` alone
    d    (k, b)              9            -D (k, b)
    null                                  nothing: the tombstone that Kafka keeps after a delete

`before` and `after` are struct columns. A log that its connector has flattened (`__op`, `__ts_ms`
beside the row's columns) needs none of this: `Changes.of(batch, schema, kind="__op",
time="__ts_ms")` reads it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Changes,
    Rows,
    column,
    payload_of,
    plain,
    times_of,
)
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import ChangeError, Misuse, SchemaError
from gapless.protocol.frame import Mask
from gapless.protocol.schema import StreamSchema

OPS = pa.array(["c", "r", "u", "d"])
_CREATE, _READ, _UPDATE, _DELETE = range(4)
_UPPER = {"t": "a truncate says not which rows go: delete them, or begin a new stream"}
TIME_OF_UNIT = {"ms": "ts_ms", "us": "ts_us", "ns": "ts_ns"}
"""Debezium's columns for when a change happened, by the schema's unit of time."""


def from_debezium(
    batch: pa.RecordBatch,
    schema: StreamSchema,
    *,
    time: str | None = None,
    op: str = "op",
    before: str = "before",
    after: str = "after",
    keyed: bool = True,
) -> Changes:
    """The changes in a batch of envelopes, in their order.

    `keyed`: they are for `Upserts`, which know rows by their key, so an update may lack its
    `before`. For `Retractions` say False: then such an update is refused. `time`: the column of
    the change's time; by default the one of the schema's unit.
    """
    name = time or TIME_OF_UNIT.get(schema.time_unit)
    if name is None:
        raise Misuse(f"time= names the column of times: Debezium has none in {schema.time_unit}")
    words = column(batch, op)
    ops = _ops(words, op)
    there = ops >= 0
    old, has_old = _image(batch, before, schema)
    new, has_new = _image(batch, after, schema)
    need_old = (ops == _DELETE) | ((ops == _UPDATE) & (not keyed))
    need_new = there & (ops != _DELETE)
    _check(need_old & ~has_old, before, "log whole rows (REPLICA IDENTITY FULL), or read by key")
    _check(need_new & ~has_new, after, "c, r and u say what the row is now")
    rows = there.nonzero()[0]
    held = column(batch, name)
    times = np.zeros(len(ops), np.int64)
    try:
        times[rows] = times_of(held.filter(pa.array(there)), name, schema.time_unit)
    except ChangeError as e:
        raise ChangeError(int(rows[e.row]), e.reason, "each change says when it happens") from None
    _check_times(times, name)
    minus = there & has_old & ((ops == _DELETE) | (ops == _UPDATE))
    n = minus.astype(np.int64) + need_new
    origin = np.repeat(np.arange(len(ops)), n)
    first = np.ones(len(origin), np.bool_)
    first[1:] = origin[1:] != origin[:-1]
    goes = first & minus[origin]
    updates = ops[origin] == _UPDATE
    kinds = np.where(
        goes,
        np.where(updates, UPDATE_BEFORE, DELETE),
        np.where(updates, UPDATE_AFTER, INSERT),
    ).astype(np.int8)
    payload = _picked(old, new, goes, origin)
    return Changes(schema, kinds, times[origin], payload, origin=origin)


def to_debezium(
    changes: Changes,
    *,
    time: str | None = None,
    op: str = "op",
    before: str = "before",
    after: str = "after",
) -> pa.RecordBatch:
    """The same changes as envelopes: before, after, op, time. A -U with the +U behind it is one."""
    if changes.ends is not None:
        raise Misuse("an envelope says when a change happens, not how long its row lives")
    name = time or TIME_OF_UNIT.get(changes.schema.time_unit, "ts")
    kinds, times = changes.kinds, changes.times
    goes = kinds == UPDATE_BEFORE
    joined = np.zeros(len(kinds), np.bool_)  # the second row of an envelope
    joined[1:] = goes[:-1] & (kinds[1:] == UPDATE_AFTER) & (times[1:] == times[:-1])
    alone = goes & ~np.append(joined[1:], False)
    if alone.any():
        row = int(alone.argmax())
        raise Misuse(f"change {row} is a -U, and its +U is not behind it: write it as a -D")
    rows = (~joined).nonzero()[0]
    ops = np.array([_CREATE, _UPDATE, _UPDATE, _DELETE])[kinds[rows]]
    second = rows + np.append(joined[1:], False)[rows] if len(rows) else rows
    has_old, has_new = ~changes.is_plus[rows], changes.is_plus[second]
    columns = {
        before: _struct(changes, rows, has_old),
        after: _struct(changes, second, has_new),
        op: OPS.take(pa.array(ops)),
        name: pa.array(times[rows]),
    }
    return pa.RecordBatch.from_pydict(columns)


def _struct(changes: Changes, rows: Rows, there: Mask) -> pa.Array:
    payload = take_rows(changes.payload, rows)
    fields = [field.with_nullable(True) for field in changes.schema.payload]
    return pa.StructArray.from_arrays(payload.columns, fields=fields, mask=pa.array(~there))


def _ops(words: pa.Array, name: str) -> Rows:
    """Places in `OPS`; -1 for a tombstone."""
    if pa.types.is_null(words.type):
        return np.full(len(words), -1, np.int64)
    words = plain(words)
    if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        raise SchemaError(f"column {name!r} is {words.type}: Debezium's op is a string")
    places = pc.index_in(words.cast(pa.string()), OPS).fill_null(-1)
    found: Rows = places.to_numpy().astype(np.int64)
    wrong = (found < 0) & words.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        row = int(wrong.argmax())
        word = words[row].as_py()
        raise ChangeError(row, f"{name} is {word!r}", _UPPER.get(word, "it is c, r, u or d"))
    return found


def _image(batch: pa.RecordBatch, name: str, schema: StreamSchema) -> tuple[pa.RecordBatch, Mask]:
    """The payload that a struct column holds, and where it holds one."""
    held = column(batch, name)
    if pa.types.is_null(held.type):
        columns = [pa.nulls(len(held), field.type) for field in schema.payload]
        empty = pa.RecordBatch.from_arrays(columns, schema=schema.payload)
        return empty, np.zeros(len(held), np.bool_)
    if not pa.types.is_struct(held.type):
        raise SchemaError(f"column {name!r} is {held.type}: it is a struct of the row's columns")
    rows = pa.RecordBatch.from_arrays(held.flatten(), names=[field.name for field in held.type])
    return payload_of(rows, schema), held.is_valid().to_numpy(zero_copy_only=False)


def _picked(old: pa.RecordBatch, new: pa.RecordBatch, goes: Mask, origin: Rows) -> pa.RecordBatch:
    both = pa.Table.from_batches([old, new]).combine_chunks().to_batches()
    if not both:
        return old
    return take_rows(both[0], np.where(goes, origin, origin + old.num_rows))


def _check(lacks: Mask, name: str, advice: str) -> None:
    if lacks.any():
        raise ChangeError(int(lacks.argmax()), f"no {name}", advice)


def _check_times(times: Rows, name: str) -> None:
    bad = (times == BEGIN) | (times == INF)
    if bad.any():
        row = int(bad.argmax())
        raise ChangeError(row, f"{name} is {times[row]}", "give a finite time")
