"""What the data source is told, and what it makes of types: without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from gapless.protocol.errors import Misuse, SchemaError
from gapless.spark_sources.options import ReadOptions, WriteOptions, instant, ticks
from gapless.spark_sources.spark_types import (
    arrow_type,
    check_writable,
    columns_of,
    columns_text,
    payload_of,
    spark_type,
    text_of_type,
    type_of_text,
)

TYPES = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64()),
    *(pa.decimal32(7, 2), pa.decimal64(18, 0), pa.decimal128(38, 10), pa.decimal256(38, 2)),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(5)),
    *(pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, "Europe/Rome") for unit in ("s", "ms", "us", "ns")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int64(), pa.decimal128(9, 2), ordered=True),
    pa.list_(pa.string()),
    pa.list_(pa.field("item", pa.uint16(), nullable=False)),
    pa.list_(pa.struct([("a", pa.list_(pa.timestamp("s"))), ("b", pa.int8())])),
    pa.struct([pa.field("a", pa.int8(), False), ("b c", pa.struct([("d", pa.timestamp("s"))]))]),
]


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_a_type_of_a_journal_is_one_of_spark_that_can_be_written_back(t: pa.DataType) -> None:
    spark = spark_type("x", t)
    check_writable("x", spark, t)
    assert spark_type("x", arrow_type("x", spark)) == spark


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_columns_are_text_and_back(t: pa.DataType) -> None:
    assert type_of_text(text_of_type(t)) == t
    payload = pa.schema([pa.field("a", t, False), pa.field("b", t)])
    assert columns_of(columns_text(payload)) == payload


def test_types_are_written_as_arrow_prints_them() -> None:
    text = '[["at", "timestamp[us, tz=UTC]", false], ["price", "decimal128(10, 2)", true]]'
    assert columns_text(columns_of(text)) == text
    assert columns_of('[["n", "int32", true]]').field("n").type == pa.int32()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ts: int64", "is no JSON"),
        ('[["ts", "int64"]]', r"is not \[name, type, nullable\]"),
        ('{"ts": "int64"}', "is not"),
        ('[["ts", "integer128", true]]', "no type 'integer128'"),
        ('[["ts", "arrow:AAAA", true]]', "is no type"),
    ],
)
def test_columns_that_say_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        columns_of(text)


@pytest.mark.parametrize(
    "t",
    [pa.float16(), pa.decimal256(39, 0), pa.decimal128(5, -2), pa.month_day_nano_interval()],
    ids=str,
)
def test_a_type_that_spark_has_not_is_refused(t: pa.DataType) -> None:
    for outer in (t, pa.struct([("inner", t)])):
        with pytest.raises(SchemaError, match=r"column 'x(\.inner)?': Spark has no"):
            spark_type("x", outer)


@pytest.mark.parametrize(
    "t",
    [
        st.ArrayType(st.NullType()),
        st.MapType(st.StringType(), st.StringType()),
        st.NullType(),
        st.YearMonthIntervalType(),
        st.VariantType(),
    ],
    ids=str,
)
def test_a_type_that_a_stream_cannot_carry_is_refused(t: st.DataType) -> None:
    with pytest.raises(SchemaError, match="nothing that a stream can carry"):
        payload_of(st.StructType([st.StructField("x", t)]))


def test_only_what_means_the_same_is_written() -> None:
    check_writable("x", st.LongType(), pa.int8())
    check_writable("x", st.ByteType(), pa.uint64())
    check_writable("x", st.FloatType(), pa.float64())
    check_writable("x", st.DecimalType(5, 2), pa.decimal128(9, 3))
    refused: list[tuple[st.DataType, pa.DataType]] = [
        (st.DoubleType(), pa.float32()),
        (st.DoubleType(), pa.int64()),
        (st.LongType(), pa.float64()),
        (st.StringType(), pa.int64()),
        (st.TimestampType(), pa.timestamp("us")),
        (st.TimestampNTZType(), pa.timestamp("us", "UTC")),
        (st.DateType(), pa.timestamp("us")),
        (st.DecimalType(10, 2), pa.decimal128(9, 2)),
        (st.DecimalType(9, 3), pa.decimal128(9, 2)),
        (st.StructType().add("a", st.LongType()), pa.struct([("b", pa.int64())])),
    ]
    for given, t in refused:
        with pytest.raises(SchemaError, match=r"column 'x'"):
            check_writable("x", given, t)


@pytest.mark.parametrize(
    ("text", "unit", "count"),
    [
        ("0", "ms", 0),
        ("250", "ns", 250),
        ("5s", "ms", 5_000),
        ("200ms", "us", 200_000),
        ("2 m", "s", 120),
        ("1h", "ms", 3_600_000),
        ("1d", "s", 86_400),
        ("3000ms", "s", 3),
        ("7us", "ns", 7_000),
    ],
)
def test_a_lateness_is_ticks_or_a_duration(text: str, unit: str, count: int) -> None:
    assert ticks(text, unit) == count


@pytest.mark.parametrize("text", ["", "-1", "5 weeks", "1.5s", "s", "5us", "1500us"])
def test_a_lateness_that_is_no_whole_number_of_ticks_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="lateness"):
        ticks(text, "ms")


def test_a_time_is_ticks_or_iso_and_never_before_what_was_said() -> None:
    assert instant("-17", "ms") == -17
    assert instant("1970-01-01T00:00:01Z", "ms") == 1_000
    assert instant("1970-01-01 01:00:01+01:00", "us") == 1_000_000
    assert instant("1970-01-02", "s") == 86_400
    assert instant("1970-01-01T00:00:00.0005", "ms") == 1
    assert instant("1969-12-31T23:59:59.9995", "ms") == 0
    for text in ("yesterday", "9" * 20):
        with pytest.raises(Misuse, match="since"):
            instant(text, "ms")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no path"),
        ({"path": "j", "sort": "true", "by_partition": "sorted"}, "rows in any order"),
        ({"path": "j", "sort": "yes"}, "sort"),
        ({"path": "j", "latness": "5s"}, "option 'latness' is none of ahead, batch, by_partition"),
        ({"path": "j", "partitions": "many"}, "partitions='many' is not a whole number"),
        ({"path": "j", "query": "q"}, "give both, or none"),
        ({"path": "j", "durability": "disk"}, "process or machine"),
        ({"path": "j", "ends": "soon"}, "false or true"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(Misuse, match=said):
        WriteOptions.of(options)


def test_a_path_is_the_same_wherever_a_task_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("j", f"file:{tmp_path}/j", (tmp_path / "j").as_uri()):
        assert WriteOptions.of({"path": text}).path == str(tmp_path / "j")
        assert ReadOptions.of({"path": text}).path == str(tmp_path / "j")
