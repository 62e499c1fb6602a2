"""A frame: one Arrow record batch of inserts and adjusts, and then at most one stable time.

    _vs  _ve  _was   payload...        element
      6   20  BEGIN  A                 insert(A, 6, 20)
      6   30  20     A                 adjust(A, 6, 20, 30)
      6    6  30     A                 adjust(A, 6, 30, 6): removed
    stable 11                          comes after all rows

Frames are what travels: between operators, over Ray and gRPC, into journals. Row order is element
order. A frame is immutable and was checked when it was made, so its holder need not look
again: `vs` is finite, `vs < ve` (an adjust may have `ve == vs`), `vs < was` in an adjust, no time
is null, the columns are those of the schema. What only a whole stream can break (an adjust of an
event that was never inserted, an insert below a stable) is the business of `Tdb` and of LMerge.

Parts of a frame (`slice`, `take`, `with_stable`) inherit its checks and cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.protocol.columns import compact_batch, concat_batches, int64s, take
from gapless.protocol.elements import (
    BEGIN,
    Adjust,
    Element,
    Insert,
    Stable,
    check_stable,
    format_time,
)
from gapless.protocol.errors import FrameError, SchemaError
from gapless.protocol.frame_rules import (
    check_columns,
    check_times,
    schema_difference,
    with_schema,
)
from gapless.protocol.schema import TIME_COLUMNS, StreamSchema
from gapless.protocol.values import payload_columns, payload_tuples

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CHECKS_MADE = False
"""Whether `Frame.made` looks at what it is given; our own tests turn it on."""


class Frame:
    """Rows (inserts and adjusts) in element order, then at most one stable."""

    __slots__ = ("_insert_only", "_payload", "_rows", "_schema", "_times", "batch", "stable")

    batch: pa.RecordBatch
    """`_vs`, `_ve`, `_was`, then the payload columns."""
    stable: int | None
    """The stable time that follows the rows; None where there is none."""

    def __init__(
        self, batch: pa.RecordBatch, stable: int | None = None, schema: StreamSchema | None = None
    ) -> None:
        if schema is None:
            schema = StreamSchema.of_batch(batch.schema)
        batch = with_schema(batch, schema)
        if stable is not None:
            stable = check_stable(stable)
        self._fill(batch, stable, schema)
        if batch.num_rows:
            self._check_rows()

    def _fill(self, batch: pa.RecordBatch, stable: int | None, schema: StreamSchema) -> None:
        self.batch = batch
        self.stable = stable
        self._rows = int(batch.num_rows)
        self._schema = schema
        self._times: tuple[Times, Times, Times] | None = None
        self._payload: pa.RecordBatch | None = None
        self._insert_only: bool | None = None

    def _derive(self, batch: pa.RecordBatch, stable: int | None) -> Frame:
        """A frame over rows of this one: they are checked already, the stable is not."""
        if stable is not None:
            stable = check_stable(stable)
        frame = object.__new__(Frame)
        frame._fill(batch, stable, self._schema)
        frame._insert_only = self._insert_only or None  # rows of inserts are inserts
        return frame

    def _check_rows(self) -> None:
        check_columns(self.batch, self._schema)
        check_times(*self._time_columns())

    # -- making one ---------------------------------------------------------------------------

    @staticmethod
    def empty(schema: StreamSchema, stable: int | None = None) -> Frame:
        """A frame without rows."""
        return Frame(schema.empty_batch, stable, schema)

    @staticmethod
    def from_columns(
        schema: StreamSchema,
        vs: Times,
        ve: Times,
        payload: Sequence[pa.Array] | pa.RecordBatch,
        was: Times | None = None,
        stable: int | None = None,
    ) -> Frame:
        """A frame from arrays; all rows are inserts where `was` is None."""
        columns = payload.columns if isinstance(payload, pa.RecordBatch) else payload
        insert_only = was is None
        if was is None:
            was = np.full(len(vs), BEGIN, np.int64)
        for name, times in zip(TIME_COLUMNS, (vs, ve, was), strict=True):
            if times.dtype != np.int64:
                raise FrameError(f"column {name}: {times.dtype} times; they are int64")
        try:
            batch = pa.RecordBatch.from_arrays(
                [pa.array(vs), pa.array(ve), pa.array(was), *columns], schema=schema.arrow
            )
        except (pa.ArrowException, TypeError, ValueError) as e:
            raise FrameError(f"the columns do not make a batch of {schema}: {e}") from None
        frame = Frame(batch, stable, schema)
        frame._insert_only = insert_only or None
        return frame

    @staticmethod
    def made(
        schema: StreamSchema,
        vs: Times,
        ve: Times,
        columns: Sequence[pa.Array],
        was: Times | None = None,
        stable: int | None = None,
    ) -> Frame:
        """A frame of rows that an operator has made from checked ones, so that it knows them to be
        right. They are checked again only while we test ourselves (`CHECKS_MADE`): it would cost
        as much as making them.
        """
        if CHECKS_MADE:
            return Frame.from_columns(schema, vs, ve, columns, was, stable)
        insert_only = was is None
        if was is None:
            was = np.full(len(vs), BEGIN, np.int64)
        batch = pa.RecordBatch.from_arrays(
            [int64s(vs), int64s(ve), int64s(was), *columns], schema=schema.arrow
        )
        frame = object.__new__(Frame)
        frame._fill(batch, None if stable is None else check_stable(stable), schema)
        frame._insert_only = insert_only or None
        frame._times = vs, ve, was
        return frame

    @staticmethod
    def from_elements(schema: StreamSchema, elements: Iterable[Element]) -> Frame:
        """One frame from elements of which only the last may be a stable."""
        rows: list[Insert | Adjust] = []
        stable: int | None = None
        for e in elements:
            if stable is not None:
                raise FrameError("a frame ends with its stable: start a new one (see frames_of)")
            if isinstance(e, Stable):
                stable = e.t
            else:
                rows.append(e)
        columns = payload_columns([e.payload for e in rows], schema.payload)
        return Frame.from_columns(
            schema,
            np.array([e.vs for e in rows], np.int64),
            np.array([e.ve for e in rows], np.int64),
            columns,
            np.array([e.was if isinstance(e, Adjust) else BEGIN for e in rows], np.int64),
            stable,
        )

    @staticmethod
    def concat(frames: Sequence[Frame]) -> Frame:
        """One frame with the rows of all; only the last may carry a stable."""
        if not frames:
            raise FrameError("concat: needs one frame at least, for its schema")
        if any(f.stable is not None for f in frames[:-1]):
            raise FrameError("concat: only the last frame may carry a stable")
        first, last = frames[0], frames[-1]
        for f in frames[1:]:
            if f.schema != first.schema:
                raise SchemaError(schema_difference(f.batch.schema, first.schema.arrow))
        try:
            batch = concat_batches([f.batch for f in frames])
        except pa.ArrowException as e:  # dictionaries whose union outgrows their index type
            raise FrameError(f"concat: {e}") from None
        whole = first._derive(batch, last.stable)
        whole._insert_only = all(f._insert_only for f in frames) or None  # not the first's alone
        return whole

    def slice(self, offset: int, length: int | None = None, stable: int | None = None) -> Frame:
        """Rows from `offset` on, without a copy, followed by `stable`."""
        return self._derive(self.batch.slice(offset, length), stable)

    def take(self, rows: npt.NDArray[Any], stable: int | None = None) -> Frame:
        """The rows that a mask or an array of positions names, followed by `stable`."""
        picked = pa.array(rows)
        if self._schema.has_views:
            columns = [take(column, picked) for column in self.batch.columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=self.batch.schema)
        elif rows.dtype == np.bool_:
            batch = self.batch.filter(picked)
        else:
            batch = self.batch.take(picked)
        return self._derive(batch, stable)

    def picked(self, batch: pa.RecordBatch, stable: int | None = None) -> Frame:
        """A frame of `batch`, which holds rows of this one that somebody has taken out."""
        return self._derive(batch, stable)

    def compact(self) -> Frame:
        """The same rows in memory of their own size: for a slice that stays while its parent goes.

        What state keeps for long, and what leaves the process, goes through here.
        """
        return self._derive(compact_batch(self.batch), self.stable)

    def with_ends(self, ends: Times) -> Frame:
        """The same inserts, without the stable, with these ends: the caller knows that each is
        after its start (see `made`).
        """
        field = self._schema.arrow.field(1)
        frame = self._derive(self.batch.set_column(1, field, int64s(ends)), None)
        starts, _, was = self._time_columns()
        frame._times = starts, ends, was
        if CHECKS_MADE:
            frame._check_rows()
        return frame

    def with_stable(self, stable: int | None) -> Frame:
        """The same rows, followed by `stable`."""
        frame = self._derive(self.batch, stable)
        frame._times = self._times
        return frame

    def with_payload(self, schema: StreamSchema, columns: Sequence[pa.Array]) -> Frame:
        """The same times and stable over other payload columns, of a schema of the same time unit.

        The times are checked already. So, by the caller, are the columns that allow no null.
        """
        batch = self.batch
        times = [batch.column(0), batch.column(1), batch.column(2)]
        frame = self._derive(
            pa.RecordBatch.from_arrays([*times, *columns], schema=schema.arrow), self.stable
        )
        frame._schema = schema
        frame._times = self._times
        return frame

    def projected(self, schema: StreamSchema, places: Sequence[int]) -> Frame:
        """The same times and stable over the columns at these places of the batch, of `schema`,
        which is of the same time unit.
        """
        frame = self._derive(self.batch.select([0, 1, 2, *places]), self.stable)
        frame._schema = schema
        frame._times = self._times
        return frame

    # -- looking at one -----------------------------------------------------------------------

    @property
    def schema(self) -> StreamSchema:
        """The stream's schema."""
        return self._schema

    def _time_columns(self) -> tuple[Times, Times, Times]:
        if self._times is None:
            column = self.batch.column  # `columns` would make the payload's objects, too
            self._times = (column(0).to_numpy(), column(1).to_numpy(), column(2).to_numpy())
        return self._times

    @property
    def vs(self) -> Times:
        """Start times; a view, not to be written to."""
        return self._time_columns()[0]

    @property
    def ve(self) -> Times:
        """End times; in an adjust the new end, equal to `vs` where the event is removed."""
        return self._time_columns()[1]

    @property
    def was(self) -> Times:
        """The previous end of an adjust; BEGIN in an insert."""
        return self._time_columns()[2]

    @property
    def is_insert(self) -> Mask:
        """True where the row is an insert."""
        mask: Mask = self.was == BEGIN
        return mask

    @property
    def insert_only(self) -> bool:
        """Whether no row is an adjust."""
        if self._insert_only is None:
            self._insert_only = not len(self) or bool(self.was.max() == BEGIN)
        return self._insert_only

    @property
    def payload(self) -> pa.RecordBatch:
        """The payload columns alone."""
        if self._payload is None:
            places = range(3, 3 + len(self._schema.payload))
            self._payload = self.batch.select(places).replace_schema_metadata(None)
        return self._payload

    @property
    def inserts(self) -> Frame:
        """The inserts alone, without the stable."""
        return self.take(self.is_insert)

    @property
    def adjusts(self) -> Frame:
        """The adjusts alone, without the stable."""
        return self.take(~self.is_insert)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return int(self.batch.nbytes)

    def elements(self) -> list[Element]:
        """The elements one by one, the stable last. For people, tests and twins."""
        payloads = payload_tuples(self.payload)
        times = zip(self.vs.tolist(), self.ve.tolist(), self.was.tolist(), strict=True)
        elements: list[Element] = [
            Insert(p, vs, ve) if was == BEGIN else Adjust(p, vs, was, ve)
            for p, (vs, ve, was) in zip(payloads, times, strict=True)
        ]
        if self.stable is not None:
            elements.append(Stable(self.stable))
        return elements

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame, time columns first: as timestamps, NaT for INF and BEGIN.

        The stable is not in it: see `stable`. `batch` has the times as they are.
        """
        from gapless.protocol.tables import readable

        return readable(self.batch, self._schema.time_unit).to_pandas()

    def _repr_html_(self) -> str:
        from gapless.protocol.tables import html_of, time_text

        unit = self._schema.time_unit
        told = "" if self.stable is None else f", stable {time_text(self.stable, unit)}"
        return html_of(self.batch, unit, f"{len(self)} rows{told}")

    def __len__(self) -> int:
        return self._rows

    def __bool__(self) -> bool:
        """False for a frame that says nothing: no rows, no stable."""
        return self.stable is not None or self._rows > 0

    def __eq__(self, other: object) -> bool:
        """The same elements in the same order."""
        if not isinstance(other, Frame):
            return NotImplemented
        return self._schema == other._schema and self.elements() == other.elements()

    __hash__ = None  # type: ignore[assignment]  # compares by content, which is costly to hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Frame, (compact_batch(self.batch), self.stable, self._schema)

    def __repr__(self) -> str:
        stable = "" if self.stable is None else f", stable({format_time(self.stable)})"
        return f"Frame({len(self)} rows{stable})"


def frames_of(schema: StreamSchema, elements: Iterable[Element]) -> Iterator[Frame]:
    """Cuts a sequence of elements into frames, one after each stable."""
    run: list[Element] = []
    for e in elements:
        run.append(e)
        if isinstance(e, Stable):
            yield Frame.from_elements(schema, run)
            run = []
    if run:
        yield Frame.from_elements(schema, run)
