"""A stream's definition: its name, what its rows look like, and what is known of them.

The first to attach to a name defines the stream, or its settings do; it is on disk before
anything of the stream is. All that come later say the same, or say nothing of it.

`key`: at no time two events share (vs, payload). Then LMerge tells events apart by that (case r3);
without it events may repeat, and it counts them (case r4), for a quarter more work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from gapless.failover.job.whole_file import check_name
from gapless.protocol import documents
from gapless.protocol.documents import Document, Fields
from gapless.protocol.errors import DecodeError, GaplessError, SchemaError
from gapless.protocol.ipc_guard import read_schema
from gapless.protocol.schema import FIELDS_MAX, StreamSchema
from gapless.protocol.schema_file import parse_type
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.server.refusals import Refusal

NAME_CHARS_MAX = 64
"""Of a stream or a producer: it names a folder, and stands in every status."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Definition:
    """What a stream is."""

    name: str
    schema: StreamSchema
    key: bool = False
    """(vs, payload) tells events apart."""
    insert_only: bool = False
    """No event is ever adjusted."""

    def __post_init__(self) -> None:
        check_name("stream", self.name, NAME_CHARS_MAX)

    @property
    def case(self) -> Literal["r3", "r4"]:
        """What merges its copies."""
        return "r3" if self.key else "r4"

    @property
    def ends_with_start(self) -> bool:
        """Whether an event is final as soon as its start is stable
        (failover/subscriber/finals.py).
        """
        return self.insert_only and self.key

    # -- on disk ------------------------------------------------------------------------------

    def document(self) -> bytes:
        """As a file has it."""
        document: Document = {
            "version": VERSION,
            "name": self.name,
            "schema": self.schema.payload.serialize().to_pybytes(),
            "time_unit": self.schema.time_unit,
            "key": self.key,
            "insert_only": self.insert_only,
        }
        return documents.pack(document)

    @staticmethod
    def of_document(data: bytes) -> Definition:
        """The inverse. Raises `DecodeError`, and `SchemaError` or `Misuse` for what cannot be."""
        fields = Fields(documents.unpack(data), "stream definition")
        fields.take_int("version", VERSION, VERSION)
        made = Definition(
            fields.take("name", str),
            StreamSchema(read_schema(fields.take("schema", bytes)), fields.take("time_unit", str)),
            fields.take("key", bool),
            fields.take("insert_only", bool),
        )
        fields.done()
        return made

    # -- on the wire --------------------------------------------------------------------------

    def properties(self) -> pb.Properties:
        """What is known of it, as a message."""
        return pb.Properties(key=self.key, insert_only=self.insert_only)

    @staticmethod
    def of_attach(attach: pb.Attach) -> Definition | None:
        """What a producer says of its stream; None where it says nothing. Raises `Refusal`."""
        if not attach.HasField("schema"):
            return None
        try:
            return Definition(
                attach.stream,
                schema_from_wire(attach.schema),
                attach.properties.key,
                attach.properties.insert_only,
            )
        except (DecodeError, GaplessError) as e:
            raise Refusal("INVALID_ARGUMENT", f"stream {attach.stream!r:.70}: {e}") from None

    def check_same(self, other: Definition) -> None:
        """Raises `Refusal` where somebody else means another stream by this name."""
        if self.schema != other.schema:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"stream {self.name} is of {self.schema}, this producer's of {other.schema}: push "
                "the same columns, or use another name",
            )
        mine, its = (self.key, self.insert_only), (other.key, other.insert_only)
        if mine != its:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"stream {self.name} has key={self.key}, insert_only={self.insert_only}; this "
                f"producer declares key={other.key}, insert_only={other.insert_only}: all copies "
                "of a stream have the same properties",
            )


def schema_to_wire(schema: StreamSchema) -> pb.Schema:
    """A schema as a message: as Arrow writes it, and by name for clients without Arrow."""
    columns = [
        pb.Column(name=field.name, type=str(field.type), required=not field.nullable)
        for field in schema.payload
    ]
    arrow = schema.payload.serialize().to_pybytes()
    return pb.Schema(arrow=arrow, columns=columns, time_unit=schema.time_unit)


def schema_from_wire(message: pb.Schema) -> StreamSchema:
    """The inverse, of bytes from anybody: Arrow's where it is there. Raises `GaplessError`."""
    unit = message.time_unit or "ms"
    if message.arrow:
        return StreamSchema(read_schema(message.arrow), unit)
    if len(message.columns) > FIELDS_MAX:
        raise SchemaError(f"{len(message.columns)} columns: {FIELDS_MAX} are the most")
    fields = [
        pa.field(column.name, parse_type(column.name, column.type), not column.required)
        for column in message.columns
    ]
    return StreamSchema(pa.schema(fields), unit)
