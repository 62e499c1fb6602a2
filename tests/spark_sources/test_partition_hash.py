"""Spark and numpy put every row into the same partition: thousands of rows of each type."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.journal import partition
from gapless.journal.partition import PARTITIONS_MAX, key_hashes, partitions_of
from gapless.protocol.errors import Misuse, SchemaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 2_000
ZONE = "America/New_York"
"""The session's: no answer may depend on it, and this one has gaps and repeated hours."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
WORDS = [
    "",
    "a",
    "é",
    "日本語",
    "🦆🦆",
    "\0",
    " a",
    "A",
    "0123456789abcdef" * 2,
    "long and uneven" * 9,
]


@dataclass(frozen=True)
class Kind:
    """A type of the journal, and values of it as both sides have them."""

    t: pa.DataType
    spark: pa.Array
    journal: pa.Array


Make = Callable[[random.Random], Any]


def rows_of(make: Make, edges: list[Any]) -> list[Any]:
    """Nulls, edge cases and random values, shuffled."""
    rng = random.Random(repr(edges))
    values = [rng.choice([None, *edges]) for _ in range(ROWS // 4)] + edges
    values += [make(rng) for _ in range(ROWS - len(values))]
    rng.shuffle(values)
    return values


def plain(t: pa.DataType, make: Make, edges: list[Any], spark: pa.DataType | None = None) -> Kind:
    """A type whose values Spark has as they are, though perhaps as another type."""
    values = rows_of(make, edges)
    return Kind(t, pa.array(values, spark or t), pa.array(values, t))


def ticks(t: pa.DataType, spark: pa.DataType, unit: str) -> Kind:
    """A type that Spark counts in microseconds, the journal in its unit: rounded downwards."""
    per_micro = {"ns": 1_000}.get(unit, 1)
    step = {"s": 10**6, "ms": 1_000}.get(unit, 1)
    least, most = -(2**63) // per_micro + 1, INT64_MAX // per_micro
    if pa.types.is_time(t):
        least, most = 0, 86_400 * 10**6 - 1
    edges = [0, 1, 999, 1_000, 1_000_000, 1_520_751_600_000_000, 1_541_311_200_000_001, most]
    edges += [-1, -999, -1_000, -1_001, -1_500_000, least]
    edges = [x for x in edges if least <= x <= most]
    micros = rows_of(lambda rng: rng.randrange(least, most), edges)
    counts = [None if x is None else x // step * per_micro for x in micros]
    raw = pa.int32() if t.bit_width == 32 else pa.int64()
    return Kind(t, pa.array(micros, pa.int64()).view(spark), pa.array(counts, raw).view(t))


def integers(t: pa.DataType, spark: pa.DataType | None = None) -> Kind:
    least = 0 if pa.types.is_unsigned_integer(t) else -(2 ** (t.bit_width - 1))
    most = least + 2**t.bit_width - 1
    edges = [least, least + 1, most // 2, most // 2 + 1, most - 1, most, 0, 1, 7]
    return plain(t, lambda rng: rng.randint(least, most), edges, spark)


def floats(t: pa.DataType) -> Kind:
    kind = np.float32 if t == pa.float32() else np.float64
    info = np.finfo(kind)
    edges = [
        0.0,
        -0.0,
        float("nan"),
        float("inf"),
        float("-inf"),
        float(info.max),
        float(info.tiny),
    ]
    edges += [float(info.smallest_subnormal), -1.5, float(kind(0.1))]
    return plain(t, lambda rng: float(kind(rng.gauss(0, 1e9))), edges)


def decimals(t: pa.DataType, spark: pa.DataType | None = None) -> Kind:
    most = 10**t.precision - 1
    bounds = [2**b for b in (7, 8, 15, 31, 63, 64, 71, 119, 120, 126) if 2**b <= most]
    edges = [0, 1, -1, 10, most, -most, *bounds]
    edges += [x for b in bounds for x in (-b, b - 1, -b - 1) if abs(x) <= most]

    def value(unscaled: int) -> Decimal:
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -t.scale))

    def make(rng: random.Random) -> Decimal:
        return value(rng.randint(-most, most) // 10 ** rng.randrange(t.precision))

    return plain(t, make, [value(x) for x in edges], spark)


def texts(t: pa.DataType, spark: pa.DataType) -> Kind:
    def make(rng: random.Random) -> str:
        return "".join(rng.choices("aZ0 .é日🦆", k=rng.randrange(80)))

    return plain(t, make, WORDS, spark)


def bytes_of(t: pa.DataType) -> Kind:
    width = t.byte_width if pa.types.is_fixed_size_binary(t) else None
    edges = [bytes([byte]) * (width or length) for byte in (0, 127, 255) for length in (0, 1, 33)]

    def make(rng: random.Random) -> bytes:
        return rng.randbytes(width or rng.randrange(120))

    return plain(t, make, edges, pa.binary())


def structs() -> Kind:
    at, name = KINDS["timestamp[ms]"], KINDS["string"]
    t = pa.struct([("at", at.t), ("In.ner `x`", pa.struct([("name", name.t)]))])
    absent = pa.array([i % 7 == 0 for i in range(ROWS)])

    def nested(first: pa.Array, second: pa.Array) -> pa.Array:
        inner = pa.StructArray.from_arrays([second], ["name"], mask=absent.take(pa.array(SHUFFLED)))
        return pa.StructArray.from_arrays([first, inner], ["at", "In.ner `x`"], mask=absent)

    return Kind(t, nested(at.spark, name.spark), nested(at.journal, name.journal))


SHUFFLED = random.Random(3).sample(range(ROWS), ROWS)
UTC = "UTC"
KINDS: dict[str, Kind] = {
    str(kind.t): kind
    for kind in [
        plain(pa.bool_(), lambda rng: rng.random() < 0.5, [False, True]),
        *(integers(t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        integers(pa.uint8(), pa.int16()),
        integers(pa.uint16(), pa.int32()),
        integers(pa.uint32(), pa.int64()),
        integers(pa.uint64(), pa.decimal128(20, 0)),
        floats(pa.float32()),
        floats(pa.float64()),
        decimals(pa.decimal32(7, 2), pa.decimal128(7, 2)),
        decimals(pa.decimal64(18, 0), pa.decimal128(18, 0)),
        *(decimals(pa.decimal128(*t)) for t in ((9, 9), (18, 4), (19, 0), (38, 10), (38, 38))),
        decimals(pa.decimal256(38, 2), pa.decimal128(38, 2)),
        texts(pa.string(), pa.string()),
        texts(pa.large_string(), pa.string()),
        texts(pa.string_view(), pa.string()),
        texts(pa.dictionary(pa.int32(), pa.string()), pa.string()),
        *(bytes_of(t) for t in (pa.binary(), pa.binary_view(), pa.binary(5), pa.binary(41))),
        *(ticks(pa.timestamp(u), pa.timestamp("us"), u) for u in ("s", "ms", "us", "ns")),
        *(
            ticks(pa.timestamp(u, ZONE), pa.timestamp("us", UTC), u)
            for u in ("s", "ms", "us", "ns")
        ),
        *(ticks(pa.duration(u), pa.duration("us"), u) for u in ("s", "ms", "us", "ns")),
        *(ticks(pa.time32(u), pa.time64("us"), u) for u in ("s", "ms")),
        *(ticks(pa.time64(u), pa.time64("us"), u) for u in ("us", "ns")),
    ]
}
DAYS = rows_of(lambda rng: rng.randrange(-(10**6), 10**6), [0, 1, -1, 2**31 - 1, -(2**31)])
_DAYS = pa.array(DAYS, pa.int32()).view(pa.date32())
_DAY_MS = [None if day is None else day * 86_400_000 for day in DAYS]
KINDS["date32"] = Kind(pa.date32(), _DAYS, _DAYS)
KINDS["date64"] = Kind(pa.date64(), _DAYS, pa.array(_DAY_MS, pa.int64()).view(pa.date64()))
KINDS["struct"] = structs()

KEYS = {name: (name,) for name in KINDS} | {
    "two columns": ("string", "int32"),
    "the other way round": ("int32", "string"),
    "many columns": ("double", "date32", "struct", "bool", "decimal128(38, 10)", "uint64", "int8"),
}


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    """With generated code, which is what `prepare` runs."""
    from tests.spark_sources.sparks import session_of

    settings = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    with session_of(shared_spark, **settings) as session:
        yield session


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """All kinds in one table, a column each."""
    table = pa.table({name: kind.spark for name, kind in KINDS.items()})
    return spark.createDataFrame(table).cache()


@pytest.fixture(scope="module")
def by_spark(rows: DataFrame) -> Mapping[str, list[int]]:
    """What Spark says, of 1,024 partitions, for each of `KEYS`."""
    from gapless.spark_sources.partition import partition_id

    answers: dict[str, list[int]] = {}
    for key, names in KEYS.items():
        column = partition_id({name: KINDS[name].t for name in names}, PARTITIONS_MAX)
        answers[key] = rows.select(column.alias("p")).toArrow().column("p").to_pylist()
    return answers


def by_numpy(key: str) -> list[int]:
    return list(partitions_of([KINDS[name].journal for name in KEYS[key]], PARTITIONS_MAX).tolist())


@pytest.mark.parametrize("key", KEYS)
def test_spark_and_numpy_agree(key: str, by_spark: Mapping[str, list[int]]) -> None:
    assert by_spark[key] == by_numpy(key)
    assert len(by_spark[key]) == ROWS


BREAKAGES: dict[str, tuple[str, object, str]] = {
    "another seed": ("_SEED", 0, "int32"),
    "NaN and -0.0 as they are": ("_double_bits", lambda v: v.astype(float).view("u8"), "double"),
    "decimals by value": ("LONG_DIGITS_MAX", 19, "decimal128(19, 0)"),
    "nulls as values": ("_null_rows", lambda array: np.empty(0, np.int64), "string"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_the_comparison_sees_what_is_broken(
    breakage: str, by_spark: Mapping[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, broken, key = BREAKAGES[breakage]
    monkeypatch.setattr(partition, name, broken)
    assert by_spark[key] != by_numpy(key)


def test_spark_hashes_bytes_by_the_same_rule_whatever_the_seed(spark: SparkSession) -> None:
    rng = random.Random(8)
    seeds = pa.array([rng.randrange(INT64_MIN, INT64_MAX) for _ in range(600)])
    data = pa.array([rng.randbytes(i // 3) for i in range(600)])
    frame = spark.createDataFrame(pa.table({"seed": seeds, "data": data}))
    hashes = frame.selectExpr("xxhash64(seed, data) AS h").toArrow().column("h")
    assert hashes.to_pylist() == key_hashes([seeds, data]).tolist()


def test_any_count_of_partitions_is_agreed_on(rows: DataFrame) -> None:
    from gapless.spark_sources.partition import partition_id

    counts = [1, 2, 3, 7, 8, 1000]
    kind = KINDS["string"]
    parts = [partition_id({"string": kind.t}, count).alias(str(count)) for count in counts]
    answers = rows.select(*parts).toArrow()
    for count in counts:
        expected = partitions_of([kind.journal], count).tolist()
        assert answers.column(str(count)).to_pylist() == expected


def test_spark_runs_it_in_generated_code_without_python(rows: DataFrame) -> None:
    from gapless.spark_sources.partition import partition_id

    key = {name: KINDS[name].t for name in KEYS["many columns"]}
    plan = rows.select(partition_id(key, 8))._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    assert "*(1) Project" in plan


def test_a_time_that_the_unit_cannot_hold_counts_as_null(spark: SparkSession) -> None:
    from gapless.spark_sources.partition import partition_id

    far = pa.table({"at": pa.array([INT64_MAX, None], pa.timestamp("us", UTC))})
    column = partition_id({"at": pa.timestamp("ns", UTC)}, 8)
    assert spark.createDataFrame(far).select(column).toArrow().column(0).to_pylist() == [2, 2]
    assert partitions_of([pa.nulls(1, pa.int64())], 8).tolist() == [2]


@pytest.mark.parametrize(
    "t",
    [pa.float16(), pa.decimal256(39, 0), pa.decimal128(9, -2), pa.decimal128(3, 5)],
    ids=str,
)
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.usefixtures("spark")
def test_a_type_that_spark_has_not_is_refused(t: pa.DataType, count: int) -> None:
    from gapless.spark_sources.partition import partition_id

    for outer in (t, pa.struct([("inner", t)]), pa.dictionary(pa.int32(), t)):
        with pytest.raises(SchemaError, match="Spark has no"):
            partition_id({"k": outer}, count)


@pytest.mark.usefixtures("spark")
def test_what_no_key_may_be_is_refused() -> None:
    from gapless.spark_sources.partition import partition_id

    with pytest.raises(Misuse, match="not of list"):
        partition_id({"k": pa.list_(pa.int8())}, 8)
    with pytest.raises(Misuse, match="1 to 16 columns"):
        partition_id({}, 8)
    with pytest.raises(Misuse, match="1 to 1024 partitions"):
        partition_id({"k": pa.int8()}, 0)
