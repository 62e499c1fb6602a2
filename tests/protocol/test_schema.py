from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from gapless.protocol.errors import SchemaError
from gapless.protocol.schema import (
    FIELDS_MAX,
    FIXED_BYTES_MAX,
    NESTING_MAX,
    TIME_COLUMNS,
    StreamSchema,
)
from tests.protocol.strategies import LEAF_TYPES, schemas


@given(schemas(), schemas())
def test_schemas_share_a_fingerprint_exactly_when_they_are_equal(
    a: StreamSchema, b: StreamSchema
) -> None:
    assert (a.fingerprint == b.fingerprint) == (a == b)


@given(schemas())
def test_a_schema_survives_pickling_and_its_own_arrow_form(schema: StreamSchema) -> None:
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301  # our own bytes
    assert pickle.loads(pickle.dumps(schema)).fingerprint == schema.fingerprint  # noqa: S301  # our own bytes
    assert StreamSchema.of_batch(schema.arrow) == schema
    assert hash(StreamSchema.of_batch(schema.arrow)) == hash(schema)


def test_a_fingerprint_is_the_same_in_every_process_and_release() -> None:
    schema = StreamSchema({"src": "int32", "len": "int64"}, "ms")
    assert schema.fingerprint.hex() == "9da2f2998ac8e74231b4d338748f2caa"


def test_a_struct_whose_field_name_imitates_two_fields_is_another_schema() -> None:
    honest = StreamSchema({"s": pa.struct([("a", pa.int32()), ("b", pa.int32())])})
    imitation = StreamSchema({"s": pa.struct([("a: int32, b", pa.int32())])})
    assert str(honest.payload.field("s").type) == str(imitation.payload.field("s").type)
    assert honest.fingerprint != imitation.fingerprint


WORDS = pa.dictionary(pa.int32(), pa.string())
PAIR = pa.struct([pa.field("y", pa.int8())])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"x": "int32"}, {"x": "int64"}),
        ({"x": "int32"}, {"y": "int32"}),
        ({"x": "int32", "y": "int32"}, {"y": "int32", "x": "int32"}),
        ({"x": pa.timestamp("ms")}, {"x": pa.timestamp("ms", "UTC")}),
        ({"x": WORDS}, {"x": pa.dictionary(pa.int32(), pa.string(), ordered=True)}),
        ({"x": PAIR}, {"x": pa.struct([pa.field("y", pa.int8(), nullable=False)])}),
        ({"x": "string"}, {"x": "string_view"}),
    ],
    ids=str,
)  # fmt: skip
def test_any_difference_changes_the_fingerprint(
    a: dict[str, pa.DataType | str], b: dict[str, pa.DataType | str]
) -> None:
    assert StreamSchema(a) != StreamSchema(b)
    assert StreamSchema(a).fingerprint != StreamSchema(b).fingerprint


def test_the_time_unit_is_part_of_a_schema() -> None:
    ms, us = StreamSchema({"x": "int8"}, "ms"), StreamSchema({"x": "int8"}, "us")
    assert ms != us
    assert ms.fingerprint != us.fingerprint
    assert StreamSchema.of_batch(us.arrow).time_unit == "us"


def test_metadata_is_no_part_of_a_schema() -> None:
    noted = pa.schema([pa.field("x", pa.int8(), metadata={"note": "1"})], {"pandas": "{}"})
    plain = StreamSchema({"x": "int8"})
    assert StreamSchema(noted) == plain
    assert StreamSchema(noted).payload.field("x").metadata is None
    assert StreamSchema(noted).payload.metadata is None


@pytest.mark.parametrize("t", LEAF_TYPES, ids=str)
def test_a_leaf_type_may_stand_alone_in_a_dictionary_and_in_a_struct(t: pa.DataType) -> None:
    schema = StreamSchema(
        {"plain": t, "dictionary": pa.dictionary(pa.int32(), t), "struct": pa.struct([("x", t)])}
    )
    assert schema.empty_batch.num_rows == 0
    assert schema.arrow.names == [*TIME_COLUMNS, "plain", "dictionary", "struct"]


@pytest.mark.parametrize(
    "t",
    [
        pa.list_(pa.null()),
        pa.list_(pa.map_(pa.string(), pa.int8())),
        pa.map_(pa.string(), pa.int8()),
        pa.null(),
        pa.dense_union([pa.field("x", pa.int8())]),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.decimal128(5, 39),
        pa.decimal32(5, -10),
        pa.binary(0),
        pa.binary(FIXED_BYTES_MAX + 1),
        pa.struct([]),
        pa.struct([("x", pa.list_(pa.null()))]),
        pa.struct([("x", pa.int8()), ("x", pa.int8())]),
        pa.dictionary(pa.int32(), pa.struct([("x", pa.int8())])),
        pa.dictionary(pa.int32(), pa.list_(pa.int8())),
        pa.dictionary(pa.int16(), pa.string()),
        pa.uuid(),
    ],
    ids=str,
)
def test_a_type_without_exact_equality_is_refused_with_the_columns_name(t: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="speed"):
        StreamSchema({"speed": t})


@pytest.mark.parametrize("nest", [lambda t: pa.struct([("x", t)]), pa.list_, pa.list_view])
def test_types_nest_to_a_bound(nest: Callable[[pa.DataType], pa.DataType]) -> None:
    def nested(levels: int) -> pa.DataType:
        t = pa.int8()
        for _ in range(levels):
            t = nest(t)
        return t

    StreamSchema({"x": nested(NESTING_MAX)})
    for levels in (NESTING_MAX + 1, 200):
        with pytest.raises(SchemaError, match=str(NESTING_MAX)):
            StreamSchema({"x": nested(levels)})


@pytest.mark.parametrize(
    "t",
    [
        pa.list_(pa.string(), 2),
        pa.list_(pa.field("element", pa.string())),
        pa.list_(pa.field("item", pa.string(), metadata={"k": "v"})),
        pa.large_list(pa.string()),
        pa.list_view(pa.string()),
        pa.large_list_view(pa.field("l", pa.dictionary(pa.int8(), pa.string()))),
    ],
    ids=str,
)
def test_a_list_of_any_layout_is_one_in_a_schema(t: pa.DataType) -> None:
    wanted = pa.schema(
        [("a", pa.list_(pa.string())), ("b", pa.struct([("c", pa.list_(pa.string()))]))]
    )
    schema = StreamSchema({"a": t, "b": pa.struct([("c", t)])})
    assert schema.payload.equals(wanted, check_metadata=True)
    assert schema.fingerprint == StreamSchema(wanted).fingerprint
    assert hash(schema) == hash(StreamSchema(wanted))


def test_what_a_list_may_hold_is_part_of_the_schema() -> None:
    nullable = StreamSchema({"a": pa.list_(pa.string())})
    never = StreamSchema({"a": pa.list_(pa.field("item", pa.string(), nullable=False))})
    assert (nullable.required, never.required) == ((), (0,))
    assert nullable.fingerprint != never.fingerprint
    assert nullable.fingerprint != StreamSchema({"a": pa.list_(pa.binary())}).fingerprint


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({}, "1 to"),
        ({f"c{i}": "int8" for i in range(FIELDS_MAX + 1)}, str(FIELDS_MAX)),
        ({"_vs": "int64"}, "_vs"),
        ({"": "int64"}, "not empty"),
        ({"x": "int7"}, "int7"),
        (pa.schema([("x", pa.int8()), ("x", pa.int8())]), "share a name"),
    ],
    ids=["empty", "wide", "underscore", "nameless", "unknown type", "doubled"],
)
def test_a_schema_that_cannot_be_is_refused(
    payload: dict[str, pa.DataType | str] | pa.Schema, said: str
) -> None:
    with pytest.raises(SchemaError, match=said):
        StreamSchema(payload)


def test_a_time_unit_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError, match="minutes"):
        StreamSchema({"x": "int8"}, "minutes")


@pytest.mark.parametrize("missing", range(3))
def test_a_batch_without_its_time_columns_is_no_frames_batch(missing: int) -> None:
    fields = list(StreamSchema({"x": "int8"}).arrow)
    del fields[missing]
    with pytest.raises(SchemaError, match=f"column {missing}"):
        StreamSchema.of_batch(pa.schema(fields))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (pa.schema([("plain", pa.int8())]), b"plain"),
        (pa.schema([("s", pa.struct([("inner", pa.int8())]))]), b"inner"),
        (pa.schema([("t", pa.timestamp("s", "Zonish"))]), b"Zonish"),
    ],
    ids=["name", "inner name", "time zone"],
)
def test_names_and_zones_from_a_file_that_are_no_text_are_refused(
    payload: pa.Schema, text: bytes
) -> None:
    data = payload.serialize().to_pybytes().replace(text, b"\xff" * len(text))
    schema = pa.ipc.read_schema(pa.py_buffer(data))
    with pytest.raises(SchemaError, match="UTF-8"):
        StreamSchema(schema)


def test_intervals_that_arrow_only_reads_are_refused() -> None:
    data = pa.schema([("i", pa.month_day_nano_interval())]).serialize().to_pybytes()
    found = set()
    for at in (at for at, byte in enumerate(data) if byte == 2):  # one of them is the unit
        for unit in (0, 1):
            changed = data[:at] + bytes([unit]) + data[at + 1 :]
            try:
                schema = pa.ipc.read_schema(pa.py_buffer(changed))
            except (pa.ArrowException, OSError):
                continue
            if str(schema.field(0).type) in ("month_interval", "day_time_interval"):
                found.add(str(schema.field(0).type))
                with pytest.raises(SchemaError, match="not supported"):
                    StreamSchema(schema)
    assert len(found) == 2


@pytest.mark.parametrize(
    "columns", [{"\udcff": "int8"}, {5: "int8"}, {"a": 5}], ids=["no text", "number", "no type"]
)
def test_what_arrow_takes_for_no_name_or_type_is_refused(columns: Any) -> None:
    with pytest.raises(SchemaError, match="a name is a string"):
        StreamSchema(columns)
