"""Changelogs: what other engines push and read, as columns (LMerge paper, Example 2).

    kind   time   payload          which is to say
    +I     1      (k, a)           from 1 on the row (k, a) is there
    -U     5      (k, a)           from 5 on it is not, and another version of it
    +U     5      (k, b)           is there instead
    -D     9      (k, b)           from 9 on that is not there either

A *change* says of one row that it comes (+I, +U: a plus) or goes (-U, -D: a minus), and when. The
kinds are Flink's; open and close, + and -, and Debezium's letters are other words for them:

    +I   open   +   c   r   0          -U             1
    -D   close  -   d       3          +U   u         2

*Timed* changes say the whole lifetime: +(p, vs, ve) adds an event, -(p, vs, ve) takes it back. They
are what a frame says, in these words: an insert is a plus, an adjust a minus and a plus.

This module reads and writes the columns and keeps nothing. What a changelog means as a table takes
memory: the readers and the writer are in `operators/changelog/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.columns import has_views, take_rows, without_views
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import ChangeError, FrameError, Misuse, SchemaError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.nulls import check_nulls
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import payload_tuples

Kinds = npt.NDArray[np.int8]
Rows = npt.NDArray[np.int64]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Kinds, numbered as Flink's RowKind is. The even ones are pluses."""
KINDS = ("+I", "-U", "+U", "-D")
"""What Flink prints for them."""
WORDS = {
    **{word: kind for kind, word in enumerate(KINDS)},
    **dict.fromkeys(("open", "+", "c", "r"), INSERT),
    **dict.fromkeys(("close", "-", "d"), DELETE),
    "u": UPDATE_AFTER,
}
"""Every word that is read as a kind."""
WORDS_SHOWN = "+I, -U, +U, -D; open, close; +, -; c, r, u, d; or 0 to 3"

_WORDS = pa.array(list(WORDS), pa.string())
_KIND_OF_WORD = np.array(list(WORDS.values()), np.int8)


@dataclass(frozen=True, eq=False)
class Changes:
    """Some changes in the order of their log. Immutable, and checked when made by `of`: kinds are
    kinds, times are finite, a plus with an end is an event, payload columns are the schema's.
    """

    schema: StreamSchema
    kinds: Kinds
    times: Times
    """When each happens; of timed ones the start of the lifetime."""
    payload: pa.RecordBatch
    ends: Times | None = None
    """Ends of the lifetimes; None where changes are not timed."""
    origin: Rows | None = None
    """The row of the user's batch that each came from, for messages; None: its own place."""

    @staticmethod
    def of(
        batch: pa.RecordBatch,
        schema: StreamSchema,
        *,
        kind: str = "op",
        time: str = "ts",
        end: str | None = None,
    ) -> Changes:
        """The changes that a batch holds: in column `kind` one of `WORDS` or Flink's number, in
        `time` an int64 or a timestamp in the schema's unit; with `end`, they are timed.

        Payload columns are found by name; `time` may be one of them. Others are left out. Raises
        `SchemaError` for a column that is missing or of another type, `ChangeError` for a row.
        """
        if not isinstance(batch, pa.RecordBatch):
            raise Misuse(f"changes come as a pyarrow.RecordBatch, not {type(batch).__name__}")
        kinds = kinds_of(column(batch, kind), kind)
        times = times_of(column(batch, time), time, schema.time_unit)
        bad = (times == BEGIN) | (times == INF)
        if bad.any():
            row = int(bad.argmax())
            raise ChangeError(
                row, f"{time} is {format_time(int(times[row]))}", "give a finite time"
            )
        ends = None
        if end is not None:
            ends = times_of(column(batch, end), end, schema.time_unit)
            empty = ends <= times
            if empty.any():
                row = int(empty.argmax())
                life = f"[{times[row]}, {format_time(int(ends[row]))})"
                raise ChangeError(row, f"the lifetime {life} is empty", f"{end} is after {time}")
        return Changes(schema, kinds, times, payload_of(batch, schema), ends)

    @staticmethod
    def of_frame(frame: Frame) -> Changes:
        """What a frame's rows say, as timed changes: to be handed out at once, and revised later.

            ins(p,6,20)         +I [6,20)
            adj(p,6,20,30)      -U [6,20)  +U [6,30)
            adj(p,6,30,6)       -D [6,30)

        Reading them (`Revisions`) gives the same table at each frame's end. Nothing is kept and
        nothing is held back: the frame's stable is their watermark.
        """
        removes, inserts = frame.ve == frame.vs, frame.is_insert
        revises = ~(removes | inserts)
        rows = np.repeat(np.arange(len(frame)), 1 + revises)
        second = np.zeros(len(rows), np.bool_)
        second[1:] = rows[1:] == rows[:-1]
        kinds = np.where(removes, DELETE, np.where(inserts, INSERT, UPDATE_BEFORE))[rows]
        ends = np.where(inserts, frame.ve, frame.was)[rows]
        return Changes(
            frame.schema,
            np.where(second, UPDATE_AFTER, kinds).astype(np.int8),
            frame.vs[rows],
            take_rows(frame.payload, rows),
            np.where(second, frame.ve[rows], ends),
        )

    @staticmethod
    def none(schema: StreamSchema) -> Changes:
        """No changes."""
        empty = np.zeros(0, np.int64)
        return Changes(schema, np.zeros(0, np.int8), empty, schema.empty_payload)

    # -- looking at them ----------------------------------------------------------------------

    @property
    def is_plus(self) -> Mask:
        """True where a row comes, False where one goes."""
        plus: Mask = (self.kinds & 1) == 0
        return plus

    def row(self, i: int) -> int:
        """Where change `i` stood in the batch that the user gave."""
        return i if self.origin is None else int(self.origin[i])

    def take(self, rows: npt.NDArray[Any]) -> Changes:
        """Those that a mask or positions name; their origin stays."""
        places = np.arange(len(self)) if self.origin is None else self.origin
        ends = None if self.ends is None else self.ends[rows]
        payload = take_rows(self.payload, rows)
        return Changes(self.schema, self.kinds[rows], self.times[rows], payload, ends, places[rows])

    def at(self, times: Times) -> Changes:
        """The same changes at other times."""
        return replace(self, times=times)

    def check_pluses(self) -> None:
        """Raises `ChangeError` where a plus lacks a value that the schema requires. A minus may:
        a delete by key often has nothing but the key.
        """
        if not self.schema.required:
            return
        pluses = self.is_plus.nonzero()[0]
        rows = take_rows(self.payload, pluses)
        for i, field in self.schema.required_fields:
            if _passes(field, rows.column(i)):
                continue
            least, most = 0, rows.num_rows - 1  # rows up to `most` do not pass, up to `least` do
            while least < most:
                middle = (least + most) // 2
                if _passes(field, rows.column(i).slice(0, middle + 1)):
                    least = middle + 1
                else:
                    most = middle
            raise ChangeError(
                self.row(int(pluses[most])),
                f"no value in column {field.name}, which allows no null",
                "give one, or let the schema allow nulls",
            )

    def to_arrow(
        self, *, kind: str = "op", time: str = "ts", end: str = "end", words: str = "flink"
    ) -> pa.RecordBatch:
        """A batch as `of` reads it: kind, time, (end,) payload. Words: "flink", "open/close", "+/-"
        or "number".
        """
        if words not in _SPELLINGS:
            raise Misuse(f"words={words!r}: use one of {', '.join(_SPELLINGS)}")
        spelled = _SPELLINGS[words]
        kinds = pa.array(self.kinds)
        columns = {
            kind: kinds if spelled is None else spelled.take(kinds),
            time: pa.array(self.times),
        }
        if self.ends is not None:
            columns[end] = pa.array(self.ends)
        for name in columns:
            if name in self.schema.names:
                raise SchemaError(f"column {name!r} is one of the payload: name another one")
        columns |= dict(zip(self.schema.names, self.payload.columns, strict=True))
        return pa.RecordBatch.from_pydict(columns)

    def to_list(self) -> list[tuple[Any, ...]]:
        """(kind, time, (end,) payload) one by one. For people, tests and twins."""
        columns: list[Any] = [map(KINDS.__getitem__, self.kinds.tolist()), self.times.tolist()]
        if self.ends is not None:
            columns.append(self.ends.tolist())
        return list(zip(*columns, payload_tuples(self.payload), strict=True))

    def __len__(self) -> int:
        return len(self.kinds)

    def __repr__(self) -> str:
        return f"Changes({len(self)} rows)"


_SPELLINGS: dict[str, pa.Array | None] = {
    "flink": pa.array(KINDS),
    "open/close": pa.array(["open", "close", "open", "close"]),
    "+/-": pa.array(["+", "-", "+", "-"]),
    "number": None,
}


# -- columns from outside -------------------------------------------------------------------------


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The one column of this name."""
    places = batch.schema.get_all_field_indices(name)
    if len(places) != 1:
        has = ", ".join(batch.schema.names)
        raise SchemaError(f"needs one column {name!r}, got {len(places)} among {has}")
    return batch.column(places[0])


def plain(array: pa.Array) -> pa.Array:
    """Without a dictionary and without views, for functions of Arrow that know neither."""
    t = array.type
    if pa.types.is_dictionary(t):
        return plain(array.dictionary_decode())
    return array.cast(without_views(t)) if has_views(t) else array


def kinds_of(array: pa.Array, name: str) -> Kinds:
    """The kinds that a column of words or of Flink's numbers stands for."""
    array = plain(array)
    t = array.type
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        found = pc.index_in(array.cast(pa.string()), _WORDS)
        bad = found.is_null()
        kinds: Kinds = _KIND_OF_WORD[found.fill_null(0).to_numpy()]
    elif pa.types.is_integer(t):
        bad = pc.invert(pc.is_in(array, pa.array(range(len(KINDS)), t)))
        kinds = array.fill_null(0).to_numpy().astype(np.int8)
    else:
        raise SchemaError(f"column {name!r} is {t}: a kind is a string, or an integer 0 to 3")
    wrong = bad.to_numpy(zero_copy_only=False)
    if wrong.any():
        row = int(wrong.argmax())
        raise ChangeError(row, f"{name} is {array[row].as_py()!r}", f"use {WORDS_SHOWN}")
    return kinds


def times_of(array: pa.Array, name: str, unit: str) -> Times:
    """A column as times of this unit; a row without one is a `ChangeError`."""
    t = array.type
    if pa.types.is_timestamp(t) and t.unit == unit:
        ticks = array.view(pa.int64())
    elif pa.types.is_signed_integer(t):
        ticks = array.cast(pa.int64())
    else:
        raise SchemaError(f"column {name!r} is {t}: cast it to int64, or a timestamp in {unit}")
    if ticks.null_count:
        row = int(ticks.is_null().to_numpy(zero_copy_only=False).argmax())
        raise ChangeError(row, f"{name} is null", "each change says when it happens")
    times: Times = ticks.to_numpy()
    return times


def payload_of(batch: pa.RecordBatch, schema: StreamSchema) -> pa.RecordBatch:
    """The payload columns, found by name, of exactly the schema's types."""
    columns = []
    for field in schema.payload:
        found = column(batch, field.name)
        if found.type != field.type and not found.type.equals(field.type):
            raise SchemaError(f"column {field.name!r} is {found.type}: cast it to {field.type}")
        columns.append(found)
    return pa.RecordBatch.from_arrays(columns, schema=schema.payload)


def _passes(field: pa.Field, values: pa.Array) -> bool:
    try:
        check_nulls(field, values)
    except FrameError:
        return False
    return True
