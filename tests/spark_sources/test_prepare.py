"""`prepare` of files, with Spark: each row is in its partition, in order, once, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from gapless.protocol.elements import INF
from gapless.protocol.errors import BadData, Misuse
from tests.spark_sources.by_hand import commits_of, rejects_of
from tests.spark_sources.journal_rows import by_partition, parted, rows_in, values_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless.spark_sources.prepared import Prepared

pytestmark = pytest.mark.spark

START = 1_700_000_000_000
KEYED: dict[str, Any] = {"time": "ts", "key": "src", "partitions": 4, "lateness": "50ms"}
Prepare = Callable[..., "Prepared"]


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    from tests.spark_sources.sparks import session_of

    with session_of(shared_spark) as session:
        yield session


@pytest.fixture
def prepare(spark: SparkSession) -> Prepare:
    from gapless.spark_sources import prepare as module

    return lambda *inputs, **options: module.prepare(spark, *inputs, **options)


def flows(rows: int = 1_000, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = START + np.arange(rows) * 10 + rng.integers(-60, 60, rows)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ms")),
            "src": pa.array(rng.zipf(1.5, rows) % 50, pa.int32()),
            "len": pa.array(rng.integers(0, 2_000, rows), pa.int32()),
        }
    )


def put(table: pa.Table, path: Path) -> Path:
    parquet.write_table(table, path)
    return path


def toml(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# -- order and partitions -------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_each_partition_has_its_rows_in_order_of_time(
    partitions: int, prepare: Prepare, tmp_path: Path
) -> None:
    table, out = flows(), tmp_path / "j"
    options = {**KEYED, "partitions": partitions}
    done = prepare(put(table, tmp_path / "f.parquet"), out, **options)
    assert (done.rows_in, done.written, done.rejected, done.dropped) == (1_000, 1_000, 0, 0)
    expected = parted(table, ["src"], partitions)
    found = by_partition(out)
    assert {p: sorted(rows) for p, rows in found.items()} == {
        p: sorted(rows) for p, rows in expected.items()
    }
    for rows in found.values():
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert sorted(rows_in(out)) == sorted(values_of(table))
    last = pc.max(table["ts"].cast(pa.int64())).as_py()
    assert commits_of(out).head.stable == last - 50


def test_several_files_are_one_input(prepare: Prepare, tmp_path: Path) -> None:
    first, second = flows(300, 1), flows(200, 2)
    folder = tmp_path / "in"
    folder.mkdir()
    put(first, folder / "a.parquet")
    put(second, folder / "b.parquet")
    (folder / "_SUCCESS").touch()
    for i, given in enumerate(
        (folder, str(folder / "*.parquet"), sorted(folder.glob("*.parquet")))
    ):
        prepare(given, tmp_path / f"j{i}", **KEYED)
        assert sorted(rows_in(tmp_path / f"j{i}")) == sorted(values_of(first) + values_of(second))


def test_no_row_at_all_is_a_journal_without_rows(prepare: Prepare, tmp_path: Path) -> None:
    done = prepare(put(flows(0), tmp_path / "f.parquet"), tmp_path / "j", **KEYED, end=True)
    assert done.rows_in == 0
    assert commits_of(tmp_path / "j").head.stable == INF


# -- once -----------------------------------------------------------------------------------------


def test_the_same_files_again_change_nothing(prepare: Prepare, tmp_path: Path) -> None:
    table, out = flows(), tmp_path / "j"
    path = put(table, tmp_path / "f.parquet")
    assert not prepare(path, out, **KEYED).already
    commits = commits_of(out).head.number
    again = prepare(path, out, **KEYED)
    assert (again.already, again.written) == (True, 0)
    assert commits_of(out).head.number == commits
    assert sorted(rows_in(out)) == sorted(values_of(table))


def test_other_files_are_another_job_and_so_is_the_same_one_if_asked(
    prepare: Prepare, tmp_path: Path
) -> None:
    out, later = tmp_path / "j", flows(100, 2)
    path = put(flows(100), tmp_path / "f.parquet")
    prepare(path, out, **KEYED)
    moved = pc.add(later["ts"], pa.scalar(10**6, pa.duration("ms")))
    put(later.set_column(0, "ts", moved), path)
    assert prepare(path, out).written == 100, "what is not said is the journal's"
    done = prepare(path, out, again=True)
    assert not done.already
    assert done.late == done.rejected > 0, "the journal is past their times"
    assert done.written + done.rejected == 100


def test_what_a_journal_is_past_is_late_and_says_where_it_came_from(
    prepare: Prepare, tmp_path: Path
) -> None:
    out = tmp_path / "j"
    prepare(put(flows(500), tmp_path / "a.parquet"), out, **KEYED)
    watermark = commits_of(out).head.stable
    path = put(flows(500, 2), tmp_path / "b.parquet")
    done = prepare(path, out, **KEYED)
    rows = values_of(flows(500, 2))
    late = [row for row in rows if row[0] < watermark]
    assert (done.late, done.rejected, done.written) == (len(late), len(late), 500 - len(late))
    told = rejects_of(out)
    assert {line["origin"] for line in told} == {str(path)}
    assert all(line["reason"].startswith("late: below the watermark 2023-11-14") for line in told)
    assert sorted(line["row"]["len"] for line in told) == sorted(row[2] for row in late)
    kept = [row for row in rows if row[0] >= watermark]
    assert sorted(rows_in(out)) == sorted(values_of(flows(500)) + kept)


# -- values ---------------------------------------------------------------------------------------

MS = pa.timestamp("ms")
NTH = pa.array([START, START + 1, START + 2], MS)


FAR = 9_214_646_400_000  # 2262-01-01


@pytest.mark.parametrize("options", [{}, {"keep_order": True}, {"partitions": 1}])
def test_one_row_of_the_far_future_is_rejected_and_the_journal_goes_on(
    options: dict[str, Any], prepare: Prepare, tmp_path: Path
) -> None:
    table, out = flows(), tmp_path / "j"
    far = table.slice(500, 1).set_column(0, "ts", pa.array([FAR], pa.timestamp("ms")))
    path = put(pa.concat_tables([table.slice(0, 300), far, table.slice(300)]), tmp_path / "f.pq")
    given = {**KEYED, "lateness": "1m", "format": "parquet", **options}
    done = prepare(path, out, **given)
    last = pc.max(table["ts"].cast(pa.int64())).as_py()
    assert (done.written, done.rejected, done.late) == (1_000, 1, 0)
    assert dict(done.reasons) == {"ahead": 1}
    assert commits_of(out).head.stable == last - 60_000
    (told,) = rejects_of(out)
    assert told["reason"].startswith("ahead: more than a day beyond all others (see --ahead)")
    assert told["origin"].endswith("f.pq")
    again = prepare(path, out, again=True, **given, ahead="none")
    assert again.rejected == (700 if "keep_order" in options else 0), "late: what comes after it"
    assert commits_of(out).head.stable == FAR - 60_000


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([1, None, 255], pa.uint8()), pa.uint8()),
        (pa.array([1, None, 2**64 - 1], pa.uint64()), pa.uint64()),
        (pa.array([1.5, None, float("nan")]), pa.float64()),
        (pa.array(["a", None, "é"]).dictionary_encode(), pa.string()),
        (pa.array(["a", None, "b"], pa.large_string()), pa.string()),
        (pa.array([b"a", None, b"\0"]), pa.binary()),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), pa.binary(2)),
        (pa.array([1, None, -7], pa.timestamp("us", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([1_000, None, -7_000], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1, None, -7], pa.date32()), pa.date32()),
        (pa.array([1, None, -7], pa.int64()).cast(pa.decimal128(25, 2)), pa.decimal128(25, 2)),
        (pa.array([True, None, False]), pa.bool_()),
        (pa.array([{"a": 1, "b": None}, None, {"a": 2, "b": "x"}]), None),
    ],
    ids=lambda each: str(getattr(each, "type", each)),
)
def test_columns_of_parquet_keep_their_values(
    column: pa.Array, wanted: pa.DataType | None, prepare: Prepare, tmp_path: Path
) -> None:
    table = pa.table({"ts": NTH, "c": column})
    out = tmp_path / "j"
    prepare(put(table, tmp_path / "f.parquet"), out, time="ts")
    t = column.type if wanted is None else wanted
    assert commits_of(out).layout.schema.payload.field("c").type == t
    expected = pa.table({"ts": NTH, "c": column.cast(t)})
    assert repr(rows_in(out)) == repr(values_of(expected))


@pytest.mark.parametrize(
    ("given", "wanted", "kept", "rejected"),
    [
        (pa.array([1, 70_000, None], pa.int32()), "int16", [1, None], [70_000]),
        (pa.array([1, -1, 2**32 - 1], pa.int64()), "uint32", [1, 2**32 - 1], [-1]),
        (pa.array([1.0, 1.5, 1e30]), "int64", [1], [1.5, 1e30]),
        (pa.array([1, 2**53 + 1]), "float64", [1.0], [2**53 + 1]),
        (pa.array(["7", "x", " 8 "]), "int32", [7, 8], ["x"]),
        (pa.array(["1.25", "1.239", "1e1"]), "decimal128(5, 2)", ["1.25"], ["1.239", "1e1"]),
        (
            pa.array(["1.5", "NaN", "one", "1e999", "1.5d", "0x1p3"]),
            "float64",
            [1.5, float("nan")],
            ["one", "1e999", "1.5d", "0x1p3"],
        ),
        (pa.array([1.5, 1e39, float("inf")]), "float32", [1.5, float("inf")], [1e39]),
        (pa.array(["true", "maybe"]), "bool", [True], ["maybe"]),
        (pa.array(["2024-02-29", "2023-02-29", "2024-01-01 10:00"]), "date32", [19_782], None),
        (
            pa.array(["1970-01-01T00:00:01+01:00", "1970-01-01 00:00:00.5", "10:00", "12", "x"]),
            "timestamp[ms]",
            [-3_599_000, 500],
            ["10:00", "12", "x"],
        ),
        (pa.array(["1970-01-01 00:00:00.0005"]), "timestamp[ms]", [], None),
        (pa.array([7, -7], pa.int64()), "timestamp[s]", [-7, 7], []),
        (pa.array([1_000, 1_500], pa.timestamp("us")), "timestamp[ms]", [1], None),
        (pa.array([7, None]), "string", ["7", None], []),
    ],
    ids=lambda each: str(getattr(each, "type", each)),
)  # fmt: skip
def test_a_value_becomes_what_the_schema_says_exactly_or_its_row_is_rejected(
    given: pa.Array,
    wanted: str,
    kept: list[Any],
    rejected: list[Any] | None,
    prepare: Prepare,
    tmp_path: Path,
) -> None:
    times = pa.array(range(len(given)), MS)
    path = put(pa.table({"c": given, "ts": times}), tmp_path / "f.parquet")
    schema = toml(tmp_path / "s.toml", f'ts = "timestamp[ms]"\nc = "{wanted}"\n')
    done = prepare(path, tmp_path / "j", time="ts", schema=schema)
    found = sorted((row[1] for row in rows_in(tmp_path / "j")), key=repr)
    as_found = [str(v) for v in found] if wanted.startswith("decimal") else found
    assert repr(as_found) == repr(sorted(kept, key=repr))
    told = rejects_of(tmp_path / "j")
    assert done.rejected == len(told) == len(given) - len(kept)
    for line in told:
        assert line["reason"].startswith("c: ")
        assert (
            f" is no {commits_of(tmp_path / 'j').layout.schema.payload.field('c').type}"
            in (line["reason"])
        )
        assert line["origin"].startswith(f"{path} row ")
    if rejected is not None:
        assert sorted((line["row"]["c"] for line in told), key=repr) == sorted(rejected, key=repr)


def test_a_null_time_and_a_null_that_may_not_be_are_rejected(
    prepare: Prepare, tmp_path: Path
) -> None:
    table = pa.table({"ts": pa.array([1, None, 3], MS), "src": pa.array([1, 2, None], pa.int32())})
    path = put(table, tmp_path / "f.parquet")
    schema = toml(tmp_path / "s.toml", 'ts = "timestamp[ms]"\nsrc = "int32 not null"\n')
    done = prepare(path, tmp_path / "j", time="ts", key="src", partitions=2, schema=schema)
    assert (done.written, done.rejected, done.late) == (1, 2, 0)
    told = {
        line["origin"].rpartition("/")[2]: line["reason"] for line in rejects_of(tmp_path / "j")
    }
    assert told == {
        "f.parquet row 1": "ts is null: no time",
        "f.parquet row 2": "src is null",
    }


# -- rules ----------------------------------------------------------------------------------------

RULES = """
[[rule]]
default = "len"
value = 1999
[[rule]]
drop = "len < 100"
[[rule]]
reject = "len > 1900 and src <> 3"
reason = "too long"
[[rule]]
drop = "src = 1 and cast(null as boolean)"
[[rule]]
reject = "src = 2"
reason = "a stranger"
"""


def test_rules_meet_a_row_one_after_the_other(prepare: Prepare, tmp_path: Path) -> None:
    table = flows(2_000)
    holes = pc.if_else(pc.equal(pc.bit_wise_and(table["len"], 7), 3), None, table["len"])
    table = table.set_column(2, "len", holes)
    path = put(table, tmp_path / "f.parquet")
    rules = toml(tmp_path / "r.toml", RULES)
    done = prepare(path, tmp_path / "j", **KEYED, rules=rules)
    kept, dropped, why = [], 0, []
    for ts, src, given in values_of(table):
        size = 1_999 if given is None else given
        if size < 100:
            dropped += 1
        elif size > 1_900 and src != 3:
            why.append("rule 3: too long")
        elif src == 2:
            why.append("rule 5: a stranger")
        else:
            kept.append((ts, src, size))
    assert min(len(kept), dropped, len(set(why))) > 1, "each rule has met a row"
    assert sorted(rows_in(tmp_path / "j")) == sorted(kept)
    assert (done.written, done.dropped, done.rejected) == (len(kept), dropped, len(why))
    assert sorted(line["reason"] for line in rejects_of(tmp_path / "j")) == sorted(why)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('drop = "size > 3"', "cannot be resolved"),
        ('drop = "len + 1"', "not a boolean"),
        ('drop = "len >"', "Syntax error"),
        ('drop = "sum(len) > 3"', "aggregate"),
        ('drop = "rand() < 0.5"', "another answer each time"),
        ('default = "len"\nvalue = "many"', "'many' is no value of 'len', which is int32"),
        ('default = "len"\nvalue = 1.5', "1.5 is no value of 'len'"),
        ('default = "ts"\nvalue = true', "True is no value of 'ts'"),
    ],
)
def test_a_wrong_rule_is_named_before_anything_is_written(
    rule: str, said: str, prepare: Prepare, tmp_path: Path
) -> None:
    path = put(flows(10), tmp_path / "f.parquet")
    rules = toml(tmp_path / "r.toml", f'[[rule]]\ndrop = "len = 0"\n[[rule]]\n{rule}\n')
    with pytest.raises(Misuse, match=r"^rule 2: ") as raised:
        prepare(path, tmp_path / "j", **KEYED, rules=rules)
    assert said in str(raised.value)
    assert not (tmp_path / "j").exists()


# -- nothing half-applied -------------------------------------------------------------------------


def test_a_rule_that_fails_for_a_row_leaves_no_journal(prepare: Prepare, tmp_path: Path) -> None:
    path = put(flows(1_000), tmp_path / "f.parquet")
    rules = toml(tmp_path / "r.toml", '[[rule]]\ndrop = "1 / (len - 1000) > 7"\n')
    table = parquet.read_table(path)
    put(table.set_column(2, "len", pa.array([1_000] * 1_000, pa.int32())), path)
    with pytest.raises(Misuse, match=r"Division by zero.*try_divide"):
        prepare(path, tmp_path / "j", **KEYED, rules=rules)
    assert not (tmp_path / "j").exists()


def test_a_corrupt_page_is_named_and_leaves_everything_as_it_was(
    prepare: Prepare, tmp_path: Path
) -> None:
    good = put(flows(1_000), tmp_path / "a.parquet")
    torn = tmp_path / "b.parquet"
    data = bytearray(put(flows(1_000, 2), torn).read_bytes())
    data[4:2_000] = bytes(1_996)
    torn.write_bytes(data)
    with pytest.raises(BadData, match=r"b\.parquet"):
        prepare([good, torn], tmp_path / "j", **KEYED)
    assert not (tmp_path / "j").exists()
    prepare(good, tmp_path / "j", **KEYED)
    before = sorted(rows_in(tmp_path / "j"))
    with pytest.raises(BadData, match=r"b\.parquet"):
        prepare([good, torn], tmp_path / "j", **KEYED)
    assert sorted(rows_in(tmp_path / "j")) == before


def test_an_error_inside_spark_is_the_journals_own(
    prepare: Prepare, spark: SparkSession, tmp_path: Path
) -> None:
    from gapless.spark_sources.job import planned
    from gapless.spark_sources.prepare import run

    path = put(flows(10), tmp_path / "f.parquet")
    job = planned(path, tmp_path / "j", **KEYED)
    prepare(put(flows(5, 4), tmp_path / "g.parquet"), tmp_path / "j", **KEYED, end=True)
    with pytest.raises(Misuse, match=r"^.*/j has ended: nothing can be added to it$"):
        run(spark, job)
    assert len(rows_in(tmp_path / "j")) == 5


def test_the_callers_session_is_as_it_was(
    prepare: Prepare, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    prepare(put(flows(10), tmp_path / "f.parquet"), tmp_path / "j", **KEYED)
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    assert spark.read.format("gapless").load(str(tmp_path / "j")).count() == 10
