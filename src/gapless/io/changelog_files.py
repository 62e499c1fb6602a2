"""A changelog in a file, or on standard input as it comes, as the frames of a stream.

    {"op": "+I", "ts": 1, "id": "a", "load": 10}         flink, plus-minus, open-close
    {"op": "c", "ts_ms": 1, "before": null, "after": {"id": "a", "load": 10}}         debezium

How it is written says which reader makes frames of it (docs/changelog-streams.md):

    a key               Upserts
    ends of lifetimes   Revisions
    open and close      OpenClose
    nothing of these    Retractions

After each batch the watermark is the largest time so far, less the lateness. The batches of a file
are always the same, so pushing it again says the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from gapless.io.event_files import TEXT_FORMATS
from gapless.io.ingest_batches import Input
from gapless.io.ingest_columns import schema_of
from gapless.io.ingest_input import input_of, kind_of
from gapless.io.stop_signals import StopSignals
from gapless.operators.changelog import (
    ChangelogReader,
    OpenClose,
    Retractions,
    Revisions,
    Upserts,
)
from gapless.protocol.changelog import Changes
from gapless.protocol.debezium import TIME_OF_UNIT, from_debezium
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import BadData, ChangeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

DEBEZIUM, OPEN_CLOSE = "debezium", "open-close"
FORMS = ("flink", DEBEZIUM, "plus-minus", OPEN_CLOSE)
"""How a changelog may be written."""
BATCH_ROWS = 10_000
"""Changes of one batch, and so of one frame: a few hundred KB."""
WAIT_S = 0.2
"""How long a change on standard input waits for others."""
LATENESS_MAX = 1 << 62
"""In ticks: more would leave no time that a watermark could be."""
DEFAULT_UNIT = "ms"

_BEFORE, _AFTER = "before", "after"
_UNIT_OF_TIME = {name: unit for unit, name in TIME_OF_UNIT.items()}


@dataclass(frozen=True, slots=True)
class Form:
    """How a changelog is written. Raises `Misuse` where that makes no sense."""

    name: str
    key: tuple[str, ...] = ()
    op: str = "op"
    time: str | None = None
    """The column of times; None: `ts`, of Debezium the first of ts_ms, ts_us, ts_ns."""
    until: str | None = None
    """The column of ends, where changes say whole lifetimes."""
    lateness: int = 0
    """How far below the largest time so far a change may be, in the stream's unit."""
    ignore_absent: bool = False
    """Deletes of keys that are not there say nothing."""

    def __post_init__(self) -> None:
        if self.name not in FORMS:
            raise Misuse(f"--changelog {self.name!r}: one of {', '.join(FORMS)}")
        if not 0 <= self.lateness <= LATENESS_MAX:
            raise Misuse(f"--lateness {self.lateness}: 0 to {LATENESS_MAX}")
        if self.ignore_absent and not self.key:
            raise Misuse("--ignore-absent needs a key: name its columns with --by")
        if self.name == OPEN_CLOSE and self.key:
            raise Misuse("open-close takes no key: leave out --by")
        if self.until is not None and (self.key or self.name in (DEBEZIUM, OPEN_CLOSE)):
            raise Misuse("--until works only with flink or plus-minus, without --by")

    def reader(self, schema: StreamSchema) -> ChangelogReader:
        """What makes frames of it."""
        if self.until is not None:
            return Revisions(schema)
        if self.name == OPEN_CLOSE:
            return OpenClose(schema)
        if self.key:
            return Upserts(schema, self.key, absent="ignore" if self.ignore_absent else "refuse")
        return Retractions(schema)


class ChangelogFile:
    """The changelog at a path; `-` is standard input."""

    def __init__(
        self,
        path: str,
        form: Form,
        stop: StopSignals,
        *,
        schema: StreamSchema | None = None,
        format_: str | None = None,
    ) -> None:
        """`schema`: of the payload; Parquet and Arrow say it themselves. `format_`: what the file
        is, if its name does not say. Raises `GaplessError` where it cannot be read like that.
        """
        self._form = form
        kind = kind_of(path, format_)
        found = None if kind in TEXT_FORMATS else schema_of(path, kind)
        if found is None and schema is None:
            raise Misuse("text has no types: give --schema, such as id:string,load:int32")
        self._time = _time_column(form, found)
        payload = schema.payload if schema is not None else _payload(form, self._time, found)
        self.schema = StreamSchema(payload, _unit(form, self._time, payload, found))
        """Of the stream."""
        columns = _columns(form, self._time, payload)
        self._reader = form.reader(self.schema)
        self._input: Input = input_of(path, kind, columns, BATCH_ROWS, WAIT_S, stop)
        self.changes = 0
        """Rows of it that were read."""

    @property
    def share_read(self) -> float:
        """Of the file, 0 to 1."""
        return self._input.share_read

    def frames(self) -> Iterator[Frame]:
        """A frame a batch, with its watermark; called once. Raises `BadData` where a row is none
        or does not fit, with its line: nothing of its batch was made a frame then.
        """
        latest = BEGIN
        for batch in self._input:
            for reason, where, _ in batch.rejected:
                raise BadData(f"{where}: {reason}")
            try:
                changes = self._read(batch.rows)
                watermark = None
                if len(changes):
                    latest = max(latest, int(changes.times.max()))
                    watermark = max(BEGIN + 1, latest - self._form.lateness)
                frame = self._reader.push(changes, watermark)
            except ChangeError as e:
                raise BadData(f"{batch.origin(e.row)}: {e.reason} ({e.advice})") from None
            self.changes += batch.rows.num_rows
            yield frame

    def _read(self, rows: pa.RecordBatch) -> Changes:
        form = self._form
        if form.name == DEBEZIUM:
            keyed = bool(form.key)
            return from_debezium(rows, self.schema, time=self._time, op=form.op, keyed=keyed)
        return Changes.of(rows, self.schema, kind=form.op, time=self._time, end=form.until)


def _time_column(form: Form, found: pa.Schema | None) -> str:
    if form.time is not None:
        return form.time
    if form.name != DEBEZIUM:
        return "ts"
    there = [name for name in _UNIT_OF_TIME if found is not None and name in found.names]
    return there[0] if there else TIME_OF_UNIT[DEFAULT_UNIT]


def _payload(form: Form, time: str, found: pa.Schema | None) -> pa.Schema:
    """What a file itself says that its rows are."""
    if found is None:
        raise Misuse("the file does not define the columns: give --schema")
    if form.name != DEBEZIUM:
        return pa.schema([f for f in found if f.name not in (form.op, time, form.until)])
    if _AFTER not in found.names or not pa.types.is_struct(found.field(_AFTER).type):
        raise SchemaError(f"{_AFTER!r} is a struct of the row's columns, and there is none")
    return pa.schema(list(found.field(_AFTER).type))


def _unit(form: Form, time: str, payload: pa.Schema, found: pa.Schema | None) -> str:
    """The unit that the column of times says."""
    for columns in (payload, found):
        if columns is not None and time in columns.names:
            t = columns.field(time).type
            if pa.types.is_timestamp(t):
                return str(t.unit)
    return _UNIT_OF_TIME.get(time, DEFAULT_UNIT) if form.name == DEBEZIUM else DEFAULT_UNIT


def _columns(form: Form, time: str, payload: pa.Schema) -> pa.Schema:
    """What is read of the file."""
    if form.name == DEBEZIUM:
        row = pa.struct([field.with_nullable(True) for field in payload])
        fields = {form.op: pa.string(), time: pa.int64(), _BEFORE: row, _AFTER: row}
    else:
        fields = {form.op: pa.string(), time: pa.int64()}
        if form.until is not None:
            fields[form.until] = pa.int64()
        fields |= {field.name: field.type for field in payload}
    return pa.schema(list(fields.items()))
