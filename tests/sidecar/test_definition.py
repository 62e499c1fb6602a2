"""A stream's definition: the same on disk and on the wire, and one for all copies of a stream."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gapless.protocol import documents
from gapless.protocol.errors import DecodeError, GaplessError, Misuse, SchemaError
from gapless.protocol.schema import FIELDS_MAX, StreamSchema
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.definition import (
    NAME_CHARS_MAX,
    Definition,
    schema_from_wire,
    schema_to_wire,
)
from gapless.sidecar.server.refusals import Refusal

SCHEMA = StreamSchema(
    pa.schema([pa.field("src", pa.int32(), nullable=False), ("at", pa.timestamp("us"))]), "us"
)
TALKERS = Definition("talkers", SCHEMA, key=True)


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("insert_only", [False, True])
def test_a_definition_is_read_back_from_disk_as_it_was(key: bool, insert_only: bool) -> None:
    made = Definition("talkers", SCHEMA, key, insert_only)
    assert Definition.of_document(made.document()) == made


def changed(**fields: str | int) -> bytes:
    document = documents.unpack(TALKERS.document())
    assert isinstance(document, dict)
    return documents.pack({**document, **fields})


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (changed(version=2), DecodeError),
        (changed(name=7), DecodeError),
        (changed(name="no/name"), Misuse),
        (changed(key="yes"), DecodeError),
        (changed(time_unit="weeks"), SchemaError),
        (changed(more=1), DecodeError),
        (b"", DecodeError),
    ],
)
def test_a_document_that_is_no_definition_is_refused(
    data: bytes, error: type[GaplessError]
) -> None:
    with pytest.raises(error):
        Definition.of_document(data)


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * (NAME_CHARS_MAX + 1)])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(Misuse):
        Definition(name, SCHEMA)


def test_a_key_tells_events_apart_so_the_cheaper_case_merges() -> None:
    assert Definition("s", SCHEMA, key=True).case == "r3"
    assert Definition("s", SCHEMA, key=False).case == "r4"


def test_an_event_ends_with_its_start_only_where_it_has_a_key_and_is_never_adjusted() -> None:
    ends = {
        (key, inserts): Definition("s", SCHEMA, key, inserts).ends_with_start
        for key in (False, True)
        for inserts in (False, True)
    }
    assert [pair for pair, does in ends.items() if does] == [(True, True)]


# -- on the wire ----------------------------------------------------------------------------------


def attach(definition: Definition) -> pb.Attach:
    return pb.Attach(
        stream=definition.name,
        schema=schema_to_wire(definition.schema),
        properties=definition.properties(),
    )


def test_a_definition_comes_over_the_wire_as_it_was() -> None:
    made = Definition("talkers", SCHEMA, key=True, insert_only=True)
    assert Definition.of_attach(attach(made)) == made


def test_an_attach_without_a_schema_defines_nothing() -> None:
    assert Definition.of_attach(pb.Attach(stream="talkers")) is None


def test_what_a_producer_cannot_mean_is_refused_with_the_name_of_its_stream() -> None:
    wrong = attach(TALKERS)
    wrong.schema.arrow = b"no schema"
    with pytest.raises(Refusal, match="'talkers'") as refused:
        Definition.of_attach(wrong)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_client_without_arrow_names_its_columns() -> None:
    wire = schema_to_wire(SCHEMA)
    wire.ClearField("arrow")
    assert schema_from_wire(wire) == SCHEMA


def test_a_client_that_names_no_unit_counts_in_milliseconds() -> None:
    wire = pb.Schema(columns=[pb.Column(name="a", type="int32")])
    assert schema_from_wire(wire) == StreamSchema({"a": "int32"}, "ms")


def test_more_columns_than_a_schema_has_are_refused_before_any_is_parsed() -> None:
    columns = [pb.Column(name=f"c{i}", type="no type") for i in range(FIELDS_MAX + 1)]
    with pytest.raises(SchemaError, match=f"{FIELDS_MAX} are the most"):
        schema_from_wire(pb.Schema(columns=columns))


# -- all copies of a stream are alike --------------------------------------------------------------


def test_a_producer_that_means_the_same_stream_passes() -> None:
    TALKERS.check_same(Definition("talkers", SCHEMA, key=True))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (Definition("talkers", StreamSchema({"src": "int64"}), key=True), "push the same columns"),
        (Definition("talkers", SCHEMA, key=False), "declares key=False"),
        (Definition("talkers", SCHEMA, key=True, insert_only=True), "insert_only=True"),
    ],
)
def test_a_producer_that_means_another_stream_by_that_name_is_refused(
    other: Definition, says: str
) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        TALKERS.check_same(other)
    assert refused.value.code == "INVALID_ARGUMENT"
