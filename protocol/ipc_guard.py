"""The one door through which Arrow bytes from outside become a record batch.

An Arrow IPC stream is a row of messages, each a small flatbuffer that describes a body:

    FFFFFFFF | metadata size | flatbuffer: version, header, body length | body ...
      schema, then one message a dictionary, then exactly one record batch, then an empty message

Arrow checks much of it, but it trusts sizes that a stranger wrote: it decompresses what says it is
compressed, builds a field for each reference in the flatbuffer, and a reference may be repeated,
so that a few kilobytes can stand for gigabytes. So this module reads the few fields that decide
how much work follows (with a flatbuffer reader of thirty lines that checks each offset) and
refuses the rest, before Arrow sees a byte:

- each size, count and body lies inside the given bytes and inside a named bound;
- nothing is compressed, nothing is a delta, no message carries metadata of its own;
- in a schema message no part is shared: the parts that are referred to are together no larger
  than the message, so Arrow's work is linear in it;
- no field claims an Arrow extension type, whose registered class would run on the stranger's data;
- a message, a field or a type of message that is not known here is refused.

Then Arrow reads the stream without a copy, the schema must be the expected one, and Arrow's full
validation looks at all that lies in the bodies: offsets, UTF-8, dictionary indices, decimals. Each
failure is a `DecodeError`; no exception of pyarrow's gets out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from gapless.protocol.errors import DecodeError

ROWS_MAX = 1 << 20
"""Rows in one batch: what the largest envelope holds at 64 bytes a row, 24 of them its times."""
METADATA_BYTES_MAX = 4 << 20
"""Bytes of one message's flatbuffer: a record batch of 4,096 columns needs a quarter of it."""
NESTING_MAX = 32
"""Levels of fields inside fields: twice what a stream schema allows, for schemas of tools."""

STREAM_END = bytes.fromhex("ffffffff00000000")
"""What comes after the last message."""

_CONTINUATION = 0xFFFFFFFF
_PREFIX_BYTES = 8
_VERSION_V5 = 4
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
_NAMES = {_SCHEMA: "schema", _DICTIONARY: "dictionary batch", _RECORDS: "record batch"}
_TIMESTAMP = 10  # the only type in Arrow's `Type` union that refers to a string
_EXTENSION_KEY = b"ARROW:extension"

_U8, _U16, _I16 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<h")
_SLOTS = [struct.Struct(f"<{count}H") for count in range(8)]
"""Offsets of so many fields: no table here has more."""
_U32, _I32, _I64 = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<q")


class _Table:
    """A flatbuffer table: each access is checked against the end of the buffer."""

    __slots__ = ("data", "offsets", "position", "what")

    def __init__(self, data: memoryview, position: int, slots_max: int, what: str) -> None:
        self.data = data
        self.position = position
        self.what = what
        vtable = position - self._read(_I32, position)
        slots = (self._read(_U16, vtable) - 4) // 2
        self.offsets = self._read_all(_SLOTS[max(0, min(slots, slots_max))], vtable + 4)
        for slot in range(slots_max, slots):
            if self._read(_U16, vtable + 4 + 2 * slot):
                raise DecodeError(what, f"field {slot} is not known", f"fields below {slots_max}")

    def _read_all(self, form: struct.Struct, position: int) -> tuple[int, ...]:
        if not 0 <= position <= len(self.data) - form.size:
            raise DecodeError(self.what, f"offset {position} is outside", f"0 to {len(self.data)}")
        return form.unpack_from(self.data, position)

    def _read(self, form: struct.Struct, position: int) -> int:
        return self._read_all(form, position)[0]

    def at(self, slot: int) -> int:
        """Where field `slot` lies; 0 where it is absent."""
        offset = self.offsets[slot] if slot < len(self.offsets) else 0
        return self.position + offset if offset else 0

    def integer(self, slot: int, form: struct.Struct) -> int:
        """A number; 0, as flatbuffers have it, where it is absent."""
        at = self.at(slot)
        return self._read_all(form, at)[0] if at else 0

    def reference(self, slot: int) -> int:
        """Where the table, vector or string of field `slot` lies; 0 where it is absent."""
        at = self.at(slot)
        return at + self._read(_U32, at) if at else 0

    def table(self, slot: int, slots_max: int, what: str) -> _Table:
        """The table of field `slot`, which must be there."""
        position = self.reference(slot)
        if not position:
            raise DecodeError(what, "is missing")
        return _Table(self.data, position, slots_max, what)

    def text(self, slot: int) -> memoryview:
        """The bytes of a string; empty where it is absent."""
        position = self.reference(slot)
        if not position:
            return self.data[:0]
        size = self._read(_U32, position)
        if size > len(self.data) - position - 4:
            raise DecodeError(self.what, f"a string of {size} bytes", f"<= {len(self.data)}")
        return self.data[position + 4 : position + 4 + size]

    def tables(self, slot: int) -> list[int]:
        """Where the tables of a vector lie."""
        position = self.reference(slot)
        if not position:
            return []
        count = self._read(_U32, position)
        if count > (len(self.data) - position - 4) // 4:
            raise DecodeError(self.what, f"a vector of {count}", f"<= {len(self.data) // 4}")
        places = range(position + 4, position + 4 + 4 * count, 4)
        return [at + self._read(_U32, at) for at in places]


def _messages(view: memoryview, position: int = 0) -> Iterator[tuple[int, int, _Table]]:
    """The messages of a stream from one on: (where it starts, type of header, header). Ends with
    the stream.
    """
    while True:
        if len(view) - position < _PREFIX_BYTES:
            raise DecodeError("stream", "ends without its end mark", f"{_PREFIX_BYTES} more bytes")
        start = position
        (mark,) = _U32.unpack_from(view, position)
        (metadata_bytes,) = _I32.unpack_from(view, position + 4)
        position += _PREFIX_BYTES
        if mark != _CONTINUATION:
            raise DecodeError("message", f"starts with {mark:#x}", f"{_CONTINUATION:#x}")
        if metadata_bytes == 0:
            if position != len(view):
                raise DecodeError("stream", f"{len(view) - position} bytes after its end", 0)
            return
        limit = min(METADATA_BYTES_MAX, len(view) - position)
        if not 0 < metadata_bytes <= limit or metadata_bytes % 8:
            raise DecodeError(
                "metadata size", f"{metadata_bytes} bytes", f"a multiple of 8 up to {limit}"
            )
        metadata = view[position : position + metadata_bytes]
        position += metadata_bytes
        message = _Table(metadata, _U32.unpack_from(metadata, 0)[0], 4, "message")
        version = message.integer(0, _I16)
        if version != _VERSION_V5:
            raise DecodeError("message version", str(version), _VERSION_V5)
        kind = message.integer(1, _U8)
        if kind not in _NAMES:
            raise DecodeError("message type", str(kind), ", ".join(_NAMES.values()))
        body_bytes = message.integer(3, _I64)
        if not 0 <= body_bytes <= len(view) - position or body_bytes % 8:
            raise DecodeError(
                f"{_NAMES[kind]} body length",
                f"{body_bytes} bytes",
                f"a multiple of 8 up to {len(view) - position}",
            )
        position += body_bytes
        yield start, kind, message.table(2, 5, _NAMES[kind])


def _check_records(records: _Table, rows_max: int) -> None:
    rows = records.integer(0, _I64)
    if not 0 <= rows <= rows_max:
        raise DecodeError(f"{records.what} length", f"{rows} rows", f"0 to {rows_max}")
    if records.at(3):
        raise DecodeError(f"{records.what} compression", "is present", "none")


def _check_schema(schema: _Table) -> None:
    if schema.integer(0, _I16):
        raise DecodeError("schema endianness", "big", "little")
    if schema.at(3) or schema.at(4):
        raise DecodeError("schema features", "are present", "none")
    budget = _Budget(len(schema.data))
    budget.check_metadata(schema, 2)
    for position in schema.tables(1):
        budget.check_field(_Table(schema.data, position, 7, "field"), 0)


class _Budget:
    """The bytes of a message, each of which may be referred to once."""

    def __init__(self, size: int) -> None:
        self.size = self.left = size

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise DecodeError("schema", "refers to its parts more than once", f"{self.size} bytes")

    def check_field(self, field: _Table, depth: int) -> None:
        """A `Field`: name, nullable, type_type, type, dictionary, children, custom_metadata."""
        if depth > NESTING_MAX:
            raise DecodeError("schema", "fields nest too deep", f"<= {NESTING_MAX} levels")
        self.spend(8 + len(field.text(0)))
        if field.integer(2, _U8) == _TIMESTAMP:
            self.spend(len(field.table(3, 2, "timestamp type").text(1)))
        self.check_metadata(field, 6)
        for position in field.tables(5):
            self.check_field(_Table(field.data, position, 7, "field"), depth + 1)

    def check_metadata(self, owner: _Table, slot: int) -> None:
        for position in owner.tables(slot):
            pair = _Table(owner.data, position, 2, "custom metadata")
            key = pair.text(0)
            self.spend(8 + len(key) + len(pair.text(1)))
            if bytes(key[: len(_EXTENSION_KEY)]) == _EXTENSION_KEY:
                raise DecodeError("schema", "claims an extension type", "plain Arrow types")


def _dictionaries(t: pa.DataType) -> int:
    """How many dictionary batches a column of type `t` needs."""
    if pa.types.is_dictionary(t):
        return 1 + _dictionaries(t.value_type)
    return sum(_dictionaries(f.type) for f in t) if pa.types.is_struct(t) else 0


class BatchReader:
    """Reads streams of one batch of one schema. Keep it: it knows its schema's bytes by heart."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.schema_message = schema.serialize().to_pybytes()
        """How a stream of the schema begins."""
        self._dictionaries = sum(_dictionaries(field.type) for field in schema)

    @property
    def has_dictionaries(self) -> bool:
        """Whether a stream has dictionaries between its schema and its batch."""
        return self._dictionaries > 0

    def read(self, body: pa.Buffer, rows_max: int = ROWS_MAX) -> pa.RecordBatch:
        """The one record batch in `body`, checked whole, of exactly the schema. Copies nothing.

        The schema's metadata is ours, whatever the stream's says.
        """
        view, behind = memoryview(body), len(self.schema_message)
        is_known = bytes(view[:behind]) == self.schema_message
        self.check(view, rows_max, behind if is_known else 0)
        try:
            if is_known and not self._dictionaries:
                batch = pa.ipc.read_record_batch(body.slice(behind), self.schema)
                batch.validate(full=True)
                return batch
            with pa.ipc.open_stream(body) as reader:
                if not reader.schema.equals(self.schema):
                    raise DecodeError(
                        "schema", f"is {_printed(reader.schema)}", _printed(self.schema)
                    )
                batch = reader.read_next_batch()
            batch.validate(full=True)
            if batch.schema.equals(self.schema, check_metadata=True):
                return batch
            return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        except (pa.ArrowException, OSError, UnicodeError) as e:
            raise DecodeError("stream", f"Arrow says: {e}") from None

    def rows(self, view: memoryview) -> int:
        """How many rows the batch at the start of `view` says that it has: for a caller that skips
        it. Nothing else of it is looked at.
        """
        behind = len(self.schema_message)
        known = behind if bytes(view[:behind]) == self.schema_message else 0
        for _, kind, header in _messages(view, known):
            if kind == _RECORDS:
                return header.integer(0, _I64)
        raise DecodeError("stream", "has no record batch", "one batch")

    def check(self, view: memoryview, rows_max: int = ROWS_MAX, known: int = 0) -> None:
        """Raises unless `view` is a stream of one batch that costs Arrow no more than its size. It
        is not looked at up to `known`, where it is `schema_message`.
        """
        dictionaries = 0
        before = 0
        for start, kind, header in _messages(view, known):
            if (kind == _SCHEMA) != (start == 0):
                raise DecodeError("message type", f"{_NAMES[kind]} at {start}", "one schema, first")
            if before == _RECORDS:
                raise DecodeError("stream", f"a {_NAMES[kind]} after the record batch", "one batch")
            if kind == _SCHEMA:
                if bytes(view[: len(self.schema_message)]) != self.schema_message:
                    _check_schema(header)
            elif kind == _DICTIONARY:
                dictionaries += 1
                if dictionaries > self._dictionaries:
                    raise DecodeError(
                        "dictionary batches",
                        f"{dictionaries} come",
                        f"{self._dictionaries}, as the schema has it; write plain values else",
                    )
                if header.integer(2, _U8):
                    raise DecodeError("dictionary batch", "is a delta", "whole dictionaries")
                _check_records(header.table(1, 5, "dictionary batch"), rows_max)
            else:
                _check_records(header, rows_max)
            before = kind
        if before != _RECORDS:
            raise DecodeError("stream", "has no record batch", "one batch")


def read_schema(data: bytes) -> pa.Schema:
    """The schema in one schema message, as `pyarrow.Schema.serialize` writes it."""
    view = memoryview(data + struct.pack("<Ii", _CONTINUATION, 0))
    for start, kind, header in _messages(view):
        if kind != _SCHEMA or start:
            raise DecodeError("message type", f"a {_NAMES[kind]}", "one schema")
        _check_schema(header)
    if len(view) == _PREFIX_BYTES:
        raise DecodeError("schema", "is missing")
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, UnicodeError) as e:
        raise DecodeError("schema", f"Arrow says: {e}") from None


def _printed(schema: pa.Schema) -> str:
    """A schema on one line, short, whatever its names hold."""
    try:
        text = ", ".join(f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in schema)
    except UnicodeError:
        return "one whose names are not UTF-8"
    return text if len(text) <= 500 else text[:500] + "..."
